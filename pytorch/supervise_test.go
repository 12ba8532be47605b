package pytorch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// unsupervised returns the template of a replica with torchrun without the supervisor. It fails the test if the
// template lacks a part of the supervisor.
func unsupervised(t *testing.T, template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t.Helper()
	template = template.DeepCopy()
	main, install := &template.Spec.Containers[0], template.Spec.InitContainers[0]
	mount := corev1.VolumeMount{Name: "t9k-supervisor", MountPath: "/t9k/supervisor"}
	got := []any{
		main.Command[0], main.VolumeMounts, template.Spec.Volumes, install.Name, install.Args, install.VolumeMounts,
	}
	want := []any{
		"/t9k/supervisor/supervise",
		[]corev1.VolumeMount{mount},
		[]corev1.Volume{{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		"install-supervisor",
		[]string{"wait-dns", "--install=/t9k/supervisor"},
		[]corev1.VolumeMount{mount},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("unexpected parts of the supervisor (-want +got):\n%s", diff)
	}
	main.Command = main.Command[slices.Index(main.Command, "torchrun"):]
	main.VolumeMounts, template.Spec.Volumes, template.Spec.InitContainers = nil, nil, nil
	return template
}

func TestTorchrunIsSupervised(t *testing.T) {
	t.Parallel()
	reporting := func(job *v1beta1.PyTorchTrainingJob) *v1beta1.PyTorchTrainingJob {
		job.Spec.Progress = &batchv1beta1.ProgressSpec{Enabled: true}
		return job
	}
	debugged := reporting(elasticJob(2, training()))
	debugged.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
	fixed := func(backend string) *v1beta1.PyTorchTrainingJob {
		return jobOf(&v1beta1.TorchrunConfig{Enabled: true, RdzvBackend: backend}, replicas("worker", 2, training()))
	}
	restarted := func(backend string, options ...string) *v1beta1.PyTorchTrainingJob {
		job := fixed(backend)
		job.Spec.TorchrunConfig.MaxRestarts, job.Spec.TorchrunConfig.ExtraOptions = new(int32(9)), options
		return job
	}
	meeting := fixed("")
	meeting.Spec.RunPolicy.RestartScope = batchv1beta1.RestartScopeRendezvous
	alone := jobOf(&v1beta1.TorchrunConfig{Enabled: true}, replicas("worker", 1, training()))
	scaled := elasticJob(2, training())
	scaled.Spec.TorchrunConfig.MaxRestarts = nil
	plain := reporting(jobOf(nil, replicas("worker", 2, training())))
	const (
		supervised    = "/t9k/supervisor/supervise"
		passesSignals = supervised + " --pass-signals"
		budget        = supervised + " --restarts=9 --id=job-uid-0 --replica=job-worker-"
		noBudget      = supervised + " --restarts=0 --id=job-uid-0 --replica=job-worker-"
		at            = " --leader=job-worker-0.job.ns.svc.cluster.local:29498"
		onlyOrder     = " --only-order"
	)
	for name, tc := range map[string]struct {
		job  *v1beta1.PyTorchTrainingJob
		rank int
		want string
	}{
		"the leader":                  {fixed(""), 0, noBudget + "0" + at + " --is-leader" + onlyOrder},
		"another replica":             {fixed("c10d"), 1, noBudget + "1" + at + onlyOrder},
		"the only replica":            {alone, 0, supervised},
		"a replica of an elastic job": {elasticJob(2, training()), 1, budget + "1" + at},
		"a replica of an elastic job without maxRestarts": {scaled, 1, noBudget + "1" + at},
		"a replica that is replaced alone":                {meeting, 1, noBudget + "1" + at},
		"the leader of a job with restarts in place":      {restarted(""), 0, budget + "0" + at + " --is-leader"},
		"another replica of a job with restarts in place": {restarted("c10d"), 1, budget + "1" + at},
		"a rendezvous elsewhere, with restarts in place":  {restarted("etcd-v2"), 1, budget + "1" + at},
		"restarts of processes that need their torchrun":  {restarted("static"), 1, passesSignals},
		"a limit in the options of torchrun":              {restarted("", "--max_restarts=3"), 1, supervised},
		"the leader of a job that reports": {
			reporting(fixed("")), 0, noBudget + "0" + at + " --is-leader" + onlyOrder,
		},
		"a rendezvous elsewhere":                             {fixed("etcd-v2"), 1, noBudget + "1" + at + onlyOrder},
		"processes that need their torchrun":                 {fixed("static"), 1, passesSignals},
		"not without torchrun":                               {plain, 0, ""},
		"not in debug mode, in which the user runs torchrun": {debugged, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, template := wire(t, tc.job, tc.rank, 0)
			command, _, isTorchrun := strings.Cut(strings.Join(template.Spec.Containers[0].Command, " "), "torchrun ")
			if got := strings.TrimSpace(command); isTorchrun && got != tc.want {
				t.Errorf("got the supervisor %q, want %q", got, tc.want)
			}
			if got, want := len(template.Spec.InitContainers) > 0, tc.want != ""; got != want {
				t.Errorf("the supervisor is installed: %t, want %t", got, want)
			}
		})
	}
}

func TestAReplicaHasOneInitContainerThatInstallsAndWaits(t *testing.T) {
	t.Parallel()
	reporting := elasticJob(2, training())
	reporting.Spec.Progress = &batchv1beta1.ProgressSpec{Enabled: true}
	for name, tc := range map[string]struct {
		job  *v1beta1.PyTorchTrainingJob
		rank int
		want []string
	}{
		"a supervised replica installs its supervisor and waits for the leader": {
			elasticJob(2, training()), 1, []string{"wait-for-peers: wait-dns --install=/t9k/supervisor --timeout 10m0s leader"},
		},
		"a supervised leader only installs its supervisor": {
			reporting, 0, []string{"install-supervisor: wait-dns --install=/t9k/supervisor"},
		},
		"a replica without torchrun only waits for the leader": {
			jobOf(nil, replicas("worker", 2, training())), 1, []string{"wait-for-peers: wait-dns --timeout 10m0s leader"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			member, template := wire(t, tc.job, tc.rank, 0)
			spec := &template.Spec
			if tc.rank > 0 {
				if err := (framework.Peers{}).AddWait(member, spec, spec.Containers[0], []string{"leader"}); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, c := range spec.InitContainers {
				got = append(got, c.Name+": "+strings.Join(c.Args, " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected init containers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheControllerInstallsTheSupervisor(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cmd := manager.Command(manager.JobProgram(Controller(), controller.DefaultOptions()))
	cmd.SetArgs([]string{"wait-dns", "--install=" + folder})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "supervise")); err != nil {
		t.Error(err)
	}
}

func TestATemplateThatUsesWhatTheSupervisorNeedsIsRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*corev1.PodSpec)) corev1.PodTemplateSpec {
		template := training()
		change(&template.Spec)
		return template
	}
	for name, tc := range map[string]struct {
		template corev1.PodTemplateSpec
		want     string
	}{
		"a mount over the supervisor": {
			with(func(s *corev1.PodSpec) {
				s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/t9k/supervisor"}}
			}),
			`the template of type "worker" mounts a volume at /t9k/supervisor, which is reserved`,
		},
		"a volume with its name": {
			with(func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "t9k-supervisor"}} }),
			`the template of type "worker" has a volume named "t9k-supervisor", which is reserved`,
		},
		"a container with its name": {
			with(func(s *corev1.PodSpec) {
				s.Containers = append(s.Containers, corev1.Container{Name: "install-supervisor"})
			}),
			`the template of type "worker" has a container named "install-supervisor", which is reserved`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := elasticJob(2, tc.template)
			peers := framework.NewPeers("ns", "job", "job-uid", "cluster.local", 0, pytorch{}.JobSpec(job).Roles)
			err := (pytorch{}).Wire(job, peers, peers.Members[1], new(tc.template))
			if err == nil || err.Error() != tc.want {
				t.Errorf("got error %v, want %s", err, tc.want)
			}
		})
	}
}
