package deepspeed

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/agent"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/kit/hostile"
)

// crdFile is the file with the CRD of the kind.
const crdFile = "config/crd/batch.tensorstack.dev_deepspeedjobs.yaml"

// FuzzSpec looks for jobs that the CRD accepts and that the controller does not handle correctly.
func FuzzSpec(f *testing.F) {
	manifests, err := hostile.Manifests(v1beta1.Kind, "testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	hostile.Fuzz(f, Controller(), crdFile, manifests, checkCommand)
}

func TestLimitsBoundTheMemoryThatAJobUses(t *testing.T) {
	hostile.CheckSize(t, Controller(), crdFile)
}

func TestRealJobsAreFarFromTheLimits(t *testing.T) {
	t.Parallel()
	hostile.CheckRealJobs(t, v1beta1.Kind, crdFile, "testdata/examples.yaml", "testdata/large.yaml")
}

// checkCommand checks that every worker runs the agent with valid flags and has the mounts that the agent needs. The
// agent of worker 0 must launch a command, and the other agents must not. Jobs with a custom command for debug mode
// are skipped.
func checkCommand(begun hostile.Begun[*v1beta1.DeepSpeedJob]) error {
	mode := begun.Job.Spec.RunMode
	hasCommand := func(spec batchv1beta1.ReplicaDebugSet) bool { return len(spec.Command) > 0 }
	if mode.Debugging() && slices.ContainsFunc(mode.Debug.ReplicaSpecs, hasCommand) {
		return nil
	}
	var errs []error
	for i := range begun.Pods {
		pod := &begun.Pods[i]
		main := framework.MainContainer(deepspeed{}.MainContainers(), pod.Spec.Containers)
		subcommand := "serve"
		if pod.Name == framework.MemberName(begun.Job.Name, v1beta1.WorkerType, 0) && !mode.Debugging() {
			subcommand = "launch"
		}
		if len(main.Command) < 2 || main.Command[0] != "/t9k/agent/agent" || main.Command[1] != subcommand ||
			main.Args != nil {
			errs = append(errs,
				fmt.Errorf("pod %s runs %q with the args %q, want the agent with the subcommand %s",
					pod.Name, main.Command, main.Args, subcommand))
			continue
		}
		command, flags, err := agent.Command().Find(main.Command[1:])
		if err == nil {
			err = command.ParseFlags(flags)
		}
		if err == nil {
			err = command.ValidateArgs(command.Flags().Args())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the agent of pod %s does not accept %q: %w", pod.Name, main.Command, err))
		}
		for _, path := range []string{agent.Folder, agent.Hostfile, "/t9k/ssh"} {
			if !slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path }) {
				errs = append(errs, fmt.Errorf("pod %s has no mount at %s", pod.Name, path))
			}
		}
	}
	return errors.Join(errs...)
}
