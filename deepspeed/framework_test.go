package deepspeed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// training returns a template whose main container has the given environment. The controller replaces its command.
func training(env ...corev1.EnvVar) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "worker", Image: "training", Command: []string{"python"}, Args: []string{"other.py"}, Env: env,
	}}}}
}

// running returns a config that runs a Python script.
func running(args ...string) *v1beta1.Config {
	return &v1beta1.Config{Run: &v1beta1.RunType{Python: append([]string{"train.py"}, args...)}}
}

// restarting returns a config that runs a Python script, with a limit of restarts in place.
func restarting(limit int32) *v1beta1.Config {
	config := running()
	config.MaxRestarts = &limit
	return config
}

// jobOf returns a job with two workers and with the given changes.
func jobOf(
	config *v1beta1.Config, template corev1.PodTemplateSpec, changes ...func(*v1beta1.DeepSpeedJob),
) *v1beta1.DeepSpeedJob {
	job := &v1beta1.DeepSpeedJob{Spec: v1beta1.DeepSpeedJobSpec{
		Config: config, Worker: v1beta1.Worker{Replicas: ptr.To[int32](2), Template: template},
	}}
	job.Namespace, job.Name, job.UID = "ns", "job", "job-uid"
	for _, change := range changes {
		change(job)
	}
	return job
}

// wire returns the template of the member with the given rank, after Wire has changed it.
func wire(job *v1beta1.DeepSpeedJob, rank int) (*corev1.PodTemplateSpec, error) {
	peers := framework.NewPeers(job.Namespace, job.Name, job.UID, "cluster.local", 0, deepspeed{}.JobSpec(job).Roles)
	peers.Image = "controller:test"
	member := peers.Members[rank]
	template := member.Role.Template.DeepCopy()
	return template, deepspeed{}.Wire(job, peers, member, template)
}

func debugging(job *v1beta1.DeepSpeedJob) {
	job.Spec.RunMode = &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}}
}

// resumed returns a change that turns a job into one that was paused and then resumed with the given spec.
func resumed(spec batchv1beta1.ResumeSpec) func(*v1beta1.DeepSpeedJob) {
	return func(job *v1beta1.DeepSpeedJob) {
		spec.Type = v1beta1.WorkerType
		job.Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{ResumeSpecs: []batchv1beta1.ResumeSpec{spec}}}
		job.Status.Pauses = 1
	}
}

func elastic(job *v1beta1.DeepSpeedJob) {
	job.Spec.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4), ExpectedReplicas: ptr.To[int32](3),
	}
}

func disableCustomEnv(job *v1beta1.DeepSpeedJob) { job.Spec.DisableCustomEnv = true }

// env returns variables from pairs of a name and a value.
func env(pairs ...string) []corev1.EnvVar {
	var list []corev1.EnvVar
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func fromSecret(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}, Key: "token",
		},
	}}
}

func fromConfigMap(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}, Key: "path",
		},
	}}
}

const hosts = "--host=job-worker-%d.job.ns.svc.cluster.local"

func TestCommand(t *testing.T) {
	t.Parallel()
	launches := func(words ...string) []string {
		return append([]string{"/t9k/agent/agent", "launch", hosts, "--workers=2", "--slots=1"}, words...)
	}
	// launcher returns the flags about the launcher and its command line, which ends with the given words.
	launcher := func(words ...string) []string {
		return append([]string{
			"--need=deepspeed", "--need=pdsh", "--",
			"deepspeed", "--hostfile=/t9k/hostfile", "--master_addr=job-worker-0.job.ns.svc.cluster.local", "--force_multi",
		}, words...)
	}
	const host0, host1 = "job-worker-0.job.ns.svc.cluster.local", "job-worker-1.job.ns.svc.cluster.local"
	withArgs := func(args ...string) *v1beta1.Config {
		config := running()
		config.OtherArgs = args
		return config
	}
	// filtered is like launcher, but omits the option --master_addr.
	filtered := func(words ...string) []string {
		return slices.DeleteFunc(launcher(words...), func(word string) bool { return word == "--master_addr="+host0 })
	}
	for name, tc := range map[string]struct {
		job  *v1beta1.DeepSpeedJob
		rank int
		want []string
	}{
		"worker 0 runs the launcher": {
			job: jobOf(running("--epochs=3"), training()), want: launches(launcher("train.py", "--epochs=3")...),
		},
		"other workers only serve ssh": {
			job: jobOf(running(), training()), rank: 1,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"},
		},
		"a single worker also launches by ssh": {
			job:  jobOf(running(), training(), func(j *v1beta1.DeepSpeedJob) { j.Spec.Worker.Replicas = nil }),
			want: slices.Concat([]string{"/t9k/agent/agent", "launch", hosts, "--workers=1", "--slots=1"}, launcher("train.py")),
		},
		"with restarts in place, worker 0 gets their limit and how the controller reads them": {
			job: jobOf(restarting(3), training()),
			want: launches(slices.Concat(
				[]string{"--max-restarts=3", "--restarts-port=29498", "--attempt=job-uid-0"}, launcher("train.py"))...),
		},
		"in debug mode, there are no restarts in place": {
			job:  jobOf(restarting(3), training(), debugging),
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"},
		},
		"slotsPerWorker sets the slots of every worker": {
			job: jobOf(&v1beta1.Config{SlotsPerWorker: ptr.To[int32](8)}, training()), rank: 1,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=8"},
		},
		"config.run.module runs a Python module": {
			job:  jobOf(&v1beta1.Config{Run: &v1beta1.RunType{Module: []string{"my.train", "-v"}}}, training()),
			want: launches(launcher("--module", "my.train", "-v")...),
		},
		"config.run.exec runs a program": {
			job:  jobOf(&v1beta1.Config{Run: &v1beta1.RunType{Exec: []string{"bash", "-c", "train"}}}, training()),
			want: launches(launcher("--no_python", "bash", "-c", "train")...),
		},
		"DeepSpeed finds the address of rank 0 if included hosts leave out worker 0": {
			job:  jobOf(withArgs("--include", host1), training()),
			want: launches(filtered("--include", host1, "train.py")...),
		},
		"DeepSpeed finds the address of rank 0 if worker 0 is excluded": {
			job:  jobOf(withArgs("-e="+host0), training()),
			want: launches(filtered("-e="+host0, "train.py")...),
		},
		"worker 0 has rank 0 if it is one of the included hosts": {
			job:  jobOf(withArgs("-i", host1+":0@"+host0+":0"), training()),
			want: launches(launcher("-i", host1+":0@"+host0+":0", "train.py")...),
		},
		"worker 0 has rank 0 if one of its slots is excluded": {
			job:  jobOf(withArgs("--exclude="+host0+":1"), training()),
			want: launches(launcher("--exclude="+host0+":1", "train.py")...),
		},
		"worker 0 has rank 0 if other hosts are excluded": {
			job:  jobOf(withArgs("--exclude="+host1), training()),
			want: launches(launcher("--exclude="+host1, "train.py")...),
		},
		"the agent knows the program if a shell would change its words": {
			job: jobOf(&v1beta1.Config{
				Run: &v1beta1.RunType{Python: []string{"train.py", "--x=a;date", ""}}, OtherArgs: []string{"--log_level=debug"},
			}, training()),
			want: launches(slices.Concat([]string{"--need=deepspeed", "--need=pdsh", "--program=3", "--"},
				launcher("--log_level=debug", "train.py", "--x=a;date", "")[3:])...),
		},
		"an empty list in config.run is ignored": {
			job: jobOf(&v1beta1.Config{
				Run: &v1beta1.RunType{Python: []string{}, Module: []string{"m"}, Exec: []string{}},
			}, training()),
			want: launches(launcher("--module", "m")...),
		},
		"localRank false adds a flag for the launcher": {
			job:  jobOf(&v1beta1.Config{LocalRank: new(false), Run: running().Run}, training()),
			want: launches(launcher("--no_local_rank", "train.py")...),
		},
		"the autotuner trusts the launcher, since experiments can fail": {
			job: jobOf(&v1beta1.Config{Autotune: v1beta1.AutotuneTune, Run: running().Run}, training()),
			want: launches("--need=deepspeed", "--need=pdsh", "--trust-launcher", "--", "deepspeed", "--hostfile=/t9k/hostfile",
				"--master_addr=job-worker-0.job.ns.svc.cluster.local", "--force_multi", "--autotuning=tune", "train.py"),
		},
		"autotune none adds no flag": {
			job:  jobOf(&v1beta1.Config{Autotune: v1beta1.AutotuneNone, Run: running().Run}, training()),
			want: launches(launcher("train.py")...),
		},
		"otherArgs come after our flags, which they override, and before the program": {
			job: jobOf(&v1beta1.Config{
				LocalRank: new(false), OtherArgs: []string{"--master_port=1234", "--hostfile=mine"},
				Run: &v1beta1.RunType{Module: []string{"m", "-v"}},
			}, training()),
			want: launches(launcher("--no_local_rank", "--module", "--master_port=1234", "--hostfile=mine", "m", "-v")...),
		},
		"customCommand does not need any program in the image": {
			job: jobOf(&v1beta1.Config{
				CustomCommand: "deepspeed train.py && echo done", Run: running().Run, Autotune: v1beta1.AutotuneRun,
				LocalRank: new(false), OtherArgs: []string{"--unused"},
			}, training()),
			want: launches("--", "/bin/sh", "-c", "deepspeed train.py && echo done", "sh"),
		},
		"the agent of worker 0 of an elastic job gets the limits of the job": {
			job: jobOf(running(), training(), elastic),
			want: slices.Concat([]string{
				"/t9k/agent/agent", "launch", hosts, "--workers=3", "--slots=1", "--min-workers=1", "--max-workers=4",
			}, launcher("train.py")),
		},
		"the agents of other workers of an elastic job get the limits of the job": {
			job: jobOf(running(), training(), elastic), rank: 2,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=3", "--slots=1", "--min-workers=1", "--max-workers=4"},
		},
		"a disabled elastic adds no limits": {
			job:  jobOf(running(), training(), elastic, func(j *v1beta1.DeepSpeedJob) { j.Spec.Elastic.Enabled = false }),
			want: launches(launcher("train.py")...),
		},
		"in debug mode, worker 0 only serves ssh": {
			job:  jobOf(running(), training(fromSecret("PYTHON_TOKEN")), debugging),
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"},
		},
		"in debug mode, no config is needed": {
			job: jobOf(nil, training(), debugging), rank: 1,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"},
		},
		"only secrets that the launcher would print are withheld from it": {
			job: jobOf(running(), training(slices.Concat(
				env("PYTHONPATH", "/code"), []corev1.EnvVar{
					fromSecret("PYTHON_TOKEN"), fromSecret("API_TOKEN"), fromConfigMap("PYTHONHOME"),
				})...)),
			want: launches(slices.Concat([]string{"--secret-env=PYTHON_TOKEN"}, launcher("train.py"))...),
		},
		"secrets need no flag on workers without a launcher": {
			job: jobOf(running(), training(fromSecret("PYTHON_TOKEN"))), rank: 1,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"},
		},
		"secrets are also withheld from customCommand": {
			job:  jobOf(&v1beta1.Config{CustomCommand: "train"}, training(fromSecret("PYTHON_TOKEN"))),
			want: launches("--secret-env=PYTHON_TOKEN", "--", "/bin/sh", "-c", "train", "sh"),
		},
		"disableCustomEnv withholds the user's variables from processes on worker 0": {
			job: jobOf(running(), training(append(env("A", "1"), fromSecret("PYTHON_TOKEN"))...), disableCustomEnv),
			want: launches(slices.Concat(
				[]string{"--without-env=A", "--without-env=PYTHON_TOKEN", "--secret-env=PYTHON_TOKEN"}, launcher("train.py"))...),
		},
		"disableCustomEnv withholds the user's variables from processes on other workers": {
			job: jobOf(running(), training(env("A", "1", "B", "2")...), disableCustomEnv), rank: 1,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1", "--without-env=A", "--without-env=B"},
		},
		"resume args replace the script and its args": {
			job: jobOf(&v1beta1.Config{Run: running("--epochs=3").Run, OtherArgs: []string{"--master_port=1"}}, training(),
				resumed(batchv1beta1.ResumeSpec{Args: []string{"train.py", "--resume"}})),
			want: launches(launcher("--master_port=1", "train.py", "--resume")...),
		},
		"resume args replace the module and its args": {
			job: jobOf(&v1beta1.Config{Run: &v1beta1.RunType{Module: []string{"m"}}}, training(),
				resumed(batchv1beta1.ResumeSpec{Args: []string{"m", "--resume"}})),
			want: launches(launcher("--module", "m", "--resume")...),
		},
		"a resume command replaces the whole command line of the launcher": {
			job:  jobOf(running(), training(), resumed(batchv1beta1.ResumeSpec{Command: []string{"deepspeed", "resume.py"}})),
			want: launches("--", "deepspeed", "resume.py"),
		},
		"a resume command can have args": {
			job: jobOf(&v1beta1.Config{CustomCommand: "train"}, training(),
				resumed(batchv1beta1.ResumeSpec{Command: []string{"bash", "-c"}, Args: []string{"train --resume"}})),
			want: launches("--", "bash", "-c", "train --resume"),
		},
		"resume args are passed to customCommand": {
			job: jobOf(&v1beta1.Config{CustomCommand: `train "$@"`}, training(),
				resumed(batchv1beta1.ResumeSpec{Args: []string{"--resume"}})),
			want: launches("--", "/bin/sh", "-c", `train "$@"`, "sh", "--resume"),
		},
		"a resume spec without a command and args changes nothing": {
			job:  jobOf(running(), training(), resumed(batchv1beta1.ResumeSpec{SkipInitContainer: true})),
			want: launches(launcher("train.py")...),
		},
		"other workers only serve ssh after they are resumed": {
			job: jobOf(running(), training(), resumed(batchv1beta1.ResumeSpec{Command: []string{"train"}})), rank: 1,
			want: []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"},
		},
		"the resume spec does not apply before the first pause": {
			job: jobOf(running(), training(), resumed(batchv1beta1.ResumeSpec{Command: []string{"train"}}),
				func(j *v1beta1.DeepSpeedJob) { j.Status.Pauses = 0 }),
			want: launches(launcher("train.py")...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wire(tc.job, tc.rank)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			main := got.Spec.Containers[0]
			if diff := cmp.Diff(tc.want, main.Command); diff != "" {
				t.Errorf("unexpected command (-want +got):\n%s", diff)
			}
			if main.Args != nil {
				t.Errorf("the args are %q, want none", main.Args)
			}
		})
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	install := corev1.Container{
		Name: "install-agent", Image: "controller:test", Args: []string{"wait-dns", "--install=/t9k/agent"},
		VolumeMounts: []corev1.VolumeMount{{Name: "t9k-agent", MountPath: "/t9k/agent"}},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	mounts := []corev1.VolumeMount{
		{Name: "t9k-agent", MountPath: "/t9k/agent"},
		{Name: "t9k-agent", MountPath: "/t9k/hostfile", SubPath: "hostfile"},
		{Name: "t9k-ssh", MountPath: "/t9k/ssh", ReadOnly: true},
	}
	volumes := []corev1.Volume{
		{Name: "t9k-agent", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "t9k-ssh", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: "job-ssh-job-uid", DefaultMode: ptr.To[int32](0o444),
		}}},
	}
	serve := []string{"/t9k/agent/agent", "serve", hosts, "--workers=2", "--slots=1"}
	for name, tc := range map[string]struct {
		template, want corev1.PodSpec
	}{
		"a worker gets the agent, the hostfile and the key": {
			template: training().Spec,
			want: corev1.PodSpec{
				InitContainers: []corev1.Container{install},
				Containers: []corev1.Container{
					{Name: "worker", Image: "training", Command: serve, Env: env("PYTHONUNBUFFERED", "1"), VolumeMounts: mounts},
				},
				Volumes: volumes,
			},
		},
		"our init container comes first, and our mounts and volumes come last": {
			template: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "fetch"}},
				Containers: []corev1.Container{
					{Name: "sidecar", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/t9k/agent"}}},
					{Name: "worker", Env: env("A", "1"), VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/t9k/app"}}},
				},
				Volumes: []corev1.Volume{{Name: "data"}},
			},
			want: corev1.PodSpec{
				InitContainers: []corev1.Container{install, {Name: "fetch"}},
				Containers: []corev1.Container{
					{Name: "sidecar", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/t9k/agent"}}},
					{
						Name: "worker", Command: serve, Env: env("PYTHONUNBUFFERED", "1", "A", "1"),
						VolumeMounts: append([]corev1.VolumeMount{{Name: "data", MountPath: "/t9k/app"}}, mounts...),
					},
				},
				Volumes: append([]corev1.Volume{{Name: "data"}}, volumes...),
			},
		},
		"without a container named worker, the first container is the main container": {
			template: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "train", Env: env("PYTHONUNBUFFERED", "")}, {Name: "sidecar"}},
			},
			want: corev1.PodSpec{
				InitContainers: []corev1.Container{install},
				Containers: []corev1.Container{
					{Name: "train", Command: serve, Env: env("PYTHONUNBUFFERED", ""), VolumeMounts: mounts}, {Name: "sidecar"},
				},
				Volumes: volumes,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wire(jobOf(running(), corev1.PodTemplateSpec{Spec: tc.template}), 1)
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if diff := cmp.Diff(&corev1.PodTemplateSpec{Spec: tc.want}, got); diff != "" {
				t.Errorf("unexpected template (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWorkerHasOneInitContainerThatInstallsAndWaits(t *testing.T) {
	t.Parallel()
	template, err := wire(jobOf(running(), training()), 1)
	if err != nil {
		t.Fatal(err)
	}
	spec, peers := &template.Spec, framework.Peers{Image: "controller:test"}
	if err := peers.AddWait(framework.Member{}, spec, spec.Containers[0], []string{"leader"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range spec.InitContainers {
		got = append(got, c.Name+": "+strings.Join(c.Args, " "))
	}
	want := []string{"wait-for-peers: wait-dns --install=/t9k/agent --timeout 10m0s leader"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected init containers (-want +got):\n%s", diff)
	}
}

func TestTheControllerInstallsTheAgent(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cmd := manager.Command(manager.JobProgram(Controller(), controller.DefaultOptions()))
	cmd.SetArgs([]string{"wait-dns", "--install=" + folder})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "agent")); err != nil {
		t.Error(err)
	}
}

func TestWireErrors(t *testing.T) {
	t.Parallel()
	// mounting returns a template whose main container mounts a volume at the path.
	mounting := func(path string) corev1.PodTemplateSpec {
		template := training()
		template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: path}}
		return template
	}
	with := func(change func(*corev1.PodSpec)) corev1.PodTemplateSpec {
		template := training()
		change(&template.Spec)
		return template
	}
	for name, tc := range map[string]struct {
		template corev1.PodTemplateSpec
		// want is the expected error, or empty if Wire must succeed.
		want string
	}{
		"a mount over the agent is refused": {
			template: mounting("/t9k/agent"),
			want:     `the template of type "worker" mounts a volume at /t9k/agent, which is reserved`,
		},
		"a mount over the hostfile is refused": {
			template: mounting("/t9k/hostfile"),
			want:     `the template of type "worker" mounts a volume at /t9k/hostfile, which is reserved`,
		},
		"a mount over the key is refused": {
			template: mounting("/t9k/ssh"), want: `the template of type "worker" mounts a volume at /t9k/ssh, which is reserved`,
		},
		"a mount over the key in another spelling is refused": {
			template: mounting("/t9k//x/../ssh/"),
			want:     `the template of type "worker" mounts a volume at /t9k//x/../ssh/, which is reserved`,
		},
		"a mount over the key by a relative path is refused": {
			template: mounting("t9k/ssh"), want: `the template of type "worker" mounts a volume at t9k/ssh, which is reserved`,
		},
		"a mount below the agent is refused": {
			template: mounting("/t9k/agent/data"),
			want:     `the template of type "worker" mounts a volume at /t9k/agent/data, which is reserved`,
		},
		"a mount next to reserved paths is accepted":               {template: mounting("/t9k/mnt")},
		"a mount whose path begins as a reserved path is accepted": {template: mounting("/t9k/agents")},
		"a mount above reserved paths is accepted":                 {template: mounting("/t9k")},
		"a device over the key is refused": {
			template: with(func(s *corev1.PodSpec) {
				s.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/t9k/ssh"}}
			}),
			want: `the template of type "worker" has a device at /t9k/ssh, which is reserved`,
		},
		"a volume with the name of the agent's volume is refused": {
			template: with(func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "t9k-agent"}} }),
			want:     `the template of type "worker" has a volume named "t9k-agent", which is reserved`,
		},
		"a volume with the name of the key's volume is refused": {
			template: with(func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "data"}, {Name: "t9k-ssh"}} }),
			want:     `the template of type "worker" has a volume named "t9k-ssh", which is reserved`,
		},
		"a container with the name of our init container is refused": {
			template: with(func(s *corev1.PodSpec) {
				s.Containers = append(s.Containers, corev1.Container{Name: "install-agent"})
			}),
			want: `the template of type "worker" has a container named "install-agent", which is reserved`,
		},
		"a pod for Windows is refused": {
			template: with(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }),
			want:     `the template of type "worker" is for Windows, but the container "install-agent" of its pods is for Linux`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire(jobOf(running(), tc.template), 0)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}
