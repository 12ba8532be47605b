package decide_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/decide"
)

func TestStart(t *testing.T) {
	t.Parallel()
	debug := func(specs ...batchv1beta1.ReplicaDebugSet) *batchv1beta1.RunMode {
		return &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true, ReplicaSpecs: specs}}
	}
	resume := func(spec batchv1beta1.ResumeSpec) *batchv1beta1.RunMode {
		return &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{ResumeSpecs: []batchv1beta1.ResumeSpec{spec}}}
	}
	container := func(command, args []string, probe *corev1.Probe) corev1.Container {
		return corev1.Container{
			Name: jobtest.MainContainer, Command: command, Args: args,
			LivenessProbe: probe, ReadinessProbe: probe, StartupProbe: probe,
		}
	}
	sidecar := corev1.Container{Name: "mesh", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	probe := &corev1.Probe{PeriodSeconds: 1}
	template := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "fetch"}, sidecar},
		Containers: []corev1.Container{
			{Name: "logger", LivenessProbe: probe}, container([]string{"python"}, []string{"train.py"}, probe),
		},
	}
	// with returns the template with another main container.
	with := func(main corev1.Container, initContainers ...corev1.Container) corev1.PodSpec {
		spec := *template.DeepCopy()
		spec.Containers[1] = main
		if initContainers != nil {
			spec.InitContainers = initContainers
		}
		return spec
	}
	for name, tc := range map[string]struct {
		mode   *batchv1beta1.RunMode
		pauses int32
		// launcher is the command with which the framework runs the args. Empty means that the framework sets no command.
		launcher []string
		// own reports whether the kind has its own launcher.
		own  bool
		want corev1.PodSpec
	}{
		"a replica starts as in its template": {want: template},
		"a launcher runs the args of the template": {
			launcher: []string{"torchrun"},
			want:     with(container([]string{"torchrun"}, []string{"train.py"}, probe)),
		},
		"debug: the replica sleeps and has no probes": {
			mode: debug(),
			want: with(container([]string{"sleep", "inf"}, nil, nil)),
		},
		"debug: the replica sleeps instead of the command of the framework": {
			mode: debug(), launcher: []string{"torchrun"},
			want: with(container([]string{"sleep", "inf"}, nil, nil)),
		},
		"debug: a command for the type also replaces the args": {
			mode: debug(batchv1beta1.ReplicaDebugSet{Type: "worker", Command: []string{"sshd", "-D"}}),
			want: with(container([]string{"sshd", "-D"}, nil, nil)),
		},
		"debug: a kind with its own launcher keeps its command": {
			mode: debug(batchv1beta1.ReplicaDebugSet{Type: "worker"}), own: true, launcher: []string{"serve"},
			want: with(container([]string{"serve"}, []string{"train.py"}, nil)),
		},
		"debug: a command for the type replaces that of a kind with its own launcher": {
			mode: debug(batchv1beta1.ReplicaDebugSet{Type: "worker", Command: []string{"sshd", "-D"}}), own: true,
			launcher: []string{"serve"},
			want:     with(container([]string{"sshd", "-D"}, nil, nil)),
		},
		"debug: a command that equals the one in the template still replaces the args": {
			mode: debug(batchv1beta1.ReplicaDebugSet{Type: "worker", Command: []string{"python"}}),
			want: with(container([]string{"python"}, nil, nil)),
		},
		"debug: a command for another type has no effect": {
			mode: debug(batchv1beta1.ReplicaDebugSet{Type: "master", Command: []string{"sshd", "-D"}, SkipInitContainer: true}),
			want: with(container([]string{"sleep", "inf"}, nil, nil)),
		},
		"debug: init containers are skipped, but sidecars are kept": {
			mode: debug(batchv1beta1.ReplicaDebugSet{Type: "worker", SkipInitContainer: true}),
			want: with(container([]string{"sleep", "inf"}, nil, nil), sidecar),
		},
		"resumeSpecs have no effect if the job was never paused": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "worker", Args: []string{"resume.py"}, SkipInitContainer: true}),
			want: template,
		},
		"resumed: a run mode without a pause has no effect": {mode: &batchv1beta1.RunMode{}, pauses: 1, want: template},
		"resumed: resumeSpecs for another type have no effect": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "master", Args: []string{"resume.py"}}), pauses: 1,
			want: template,
		},
		"resumed: args replace those of the template": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "worker", Args: []string{"resume.py"}}), pauses: 1,
			want: with(container([]string{"python"}, []string{"resume.py"}, probe)),
		},
		"resumed: the launcher runs the new args": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "worker", Args: []string{"resume.py"}}), pauses: 2,
			launcher: []string{"torchrun"},
			want:     with(container([]string{"torchrun"}, []string{"resume.py"}, probe)),
		},
		"resumed: a command replaces only that of the template": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "worker", Command: []string{"python3"}}), pauses: 1,
			want: with(container([]string{"python3"}, []string{"train.py"}, probe)),
		},
		"resumed: a command replaces the whole command line of the launcher": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "worker", Command: []string{"python3", "resume.py"}}), pauses: 1,
			launcher: []string{"torchrun"},
			want:     with(container([]string{"python3", "resume.py"}, nil, probe)),
		},
		"resumed: a command and args replace the command line of the launcher": {
			mode:   resume(batchv1beta1.ResumeSpec{Type: "worker", Command: []string{"python3"}, Args: []string{"resume.py"}}),
			pauses: 1, launcher: []string{"torchrun"},
			want: with(container([]string{"python3"}, []string{"resume.py"}, probe)),
		},
		"resumed: a kind with its own launcher only skips init containers": {
			mode:   resume(batchv1beta1.ResumeSpec{Type: "worker", Args: []string{"resume.py"}, SkipInitContainer: true}),
			pauses: 1, own: true, launcher: []string{"launch", "resume.py"},
			want: with(container([]string{"launch", "resume.py"}, []string{"train.py"}, probe), sidecar),
		},
		"resumed: init containers are skipped, but sidecars are kept": {
			mode: resume(batchv1beta1.ResumeSpec{Type: "worker", SkipInitContainer: true}), pauses: 1,
			want: with(template.Containers[1], sidecar),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := corev1.PodTemplateSpec{Spec: *template.DeepCopy()}
			spec := framework.JobSpec{RunMode: tc.mode, HasLauncher: tc.own}
			decide.Start(spec, tc.pauses, "worker", jobtest.MainContainer, &got, func() {
				if tc.launcher != nil {
					got.Spec.Containers[1].Command = tc.launcher // as the function Wire of a framework would
				}
			})
			jobtest.Diff(t, "pod", tc.want, got.Spec)
		})
	}
}

// If a pod shared a slice with the spec, a change of the pod would change the job in the cache.
func TestStartSharesNoSliceWithTheSpec(t *testing.T) {
	t.Parallel()
	command, args := []string{"sshd", "-D"}, []string{"--resume"}
	for name, mode := range map[string]*batchv1beta1.RunMode{
		"debug": {Debug: &batchv1beta1.DebugMode{
			Enabled: true, ReplicaSpecs: []batchv1beta1.ReplicaDebugSet{{Type: "worker", Command: command}},
		}},
		"resumed": {Pause: &batchv1beta1.PauseMode{
			ResumeSpecs: []batchv1beta1.ResumeSpec{{Type: "worker", Command: command, Args: args}},
		}},
	} {
		for _, launches := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, launched by the framework: %t", name, launches), func(t *testing.T) {
				got := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: jobtest.MainContainer}}}}
				main := &got.Spec.Containers[0]
				decide.Start(framework.JobSpec{RunMode: mode}, 1, "worker", jobtest.MainContainer, &got, func() {
					if launches {
						main.Command = []string{"torchrun"}
					}
				})
				for _, slice := range [][]string{main.Command, main.Args} {
					for i := range slice {
						slice[i] = "changed"
					}
				}
				jobtest.Diff(t, "command of the spec", []string{"sshd", "-D"}, command)
				jobtest.Diff(t, "args of the spec", []string{"--resume"}, args)
			})
		}
	}
}

// Only init containers with the restart policy Always are sidecars. All others end, so they can be skipped.
func TestInitContainersThatRestartOnFailureAreSkipped(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "fetch", RestartPolicy: new(corev1.ContainerRestartPolicyOnFailure)}},
		Containers:     []corev1.Container{{Name: jobtest.MainContainer}},
	}}
	spec := framework.JobSpec{RunMode: &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{
		Enabled: true, ReplicaSpecs: []batchv1beta1.ReplicaDebugSet{{Type: "worker", SkipInitContainer: true}},
	}}}
	decide.Start(spec, 0, "worker", jobtest.MainContainer, template, func() {})
	jobtest.Diff(t, "init containers", 0, len(template.Spec.InitContainers))
}
