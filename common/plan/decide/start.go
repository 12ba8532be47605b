package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
)

// start overrides how a replica starts. The zero value overrides nothing.
type start struct {
	skipInitContainers bool
	// idles reports whether the replica does not train, because the job is in debug mode. It then runs the field
	// command, if set.
	idles         bool
	command, args []string
}

// startOf returns how the replicas of a type start: in debug mode, after a pause, or normally.
func startOf(spec framework.JobSpec, pauses int32, roleType string) start {
	mode := spec.RunMode
	switch {
	case mode.Debugging():
		s := start{idles: true}
		if !spec.HasLauncher {
			s.command = []string{"sleep", "inf"}
		}
		for _, spec := range mode.Debug.ReplicaSpecs {
			if spec.Type == roleType {
				s.skipInitContainers = spec.SkipInitContainer
				if len(spec.Command) > 0 {
					s.command = spec.Command
				}
			}
		}
		return s
	case mode != nil && mode.Pause != nil && pauses > 0:
		for _, resume := range mode.Pause.ResumeSpecs {
			if resume.Type != roleType {
				continue
			}
			s := start{skipInitContainers: resume.SkipInitContainer}
			if !spec.HasLauncher {
				s.command, s.args = resume.Command, resume.Args
			}
			return s
		}
	}
	return start{}
}

// prepare applies the overrides that the framework must see, because it builds its command line from the template.
func (s start) prepare(template *corev1.PodTemplateSpec, main *corev1.Container) {
	if s.skipInitContainers {
		ends := func(c corev1.Container) bool { // false for a sidecar
			return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
		}
		template.Spec.InitContainers = slices.DeleteFunc(template.Spec.InitContainers, ends)
	}
	if s.idles {
		return
	}
	if len(s.command) > 0 {
		main.Command = slices.Clone(s.command)
	}
	if len(s.args) > 0 {
		main.Args = slices.Clone(s.args)
	}
}

// complete applies the overrides that must come after the framework has wired the template: a replica that idles gets
// no probes, and the command of the override replaces any other command.
func (s start) complete(main *corev1.Container) {
	if s.idles {
		main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = nil, nil, nil
	}
	// If the framework has set a command of its own, such as torchrun, the args are the arguments of that command. The
	// override then replaces both.
	if len(s.command) > 0 && (s.idles || !slices.Equal(main.Command, s.command)) {
		main.Command, main.Args = slices.Clone(s.command), slices.Clone(s.args)
	}
}
