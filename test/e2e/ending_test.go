package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ending is the manifest of a job, with a placeholder for the pod spec of each replica.
const ending = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: ending}
spec:
  replicaSpecs:
    - {type: master, restartPolicy: Never, template: {spec: %s}}
    - {type: worker, restartPolicy: Never, template: {spec: %s}}
`

// endingWith returns the manifest of the job. The parameters master and worker are the Python code of the replicas,
// and grace is the grace period of the pods in seconds. As PID 1, Python ignores SIGTERM unless the code handles it,
// so a deleted pod runs until its grace period is over.
func endingWith(grace int, master, worker string) string {
	spec := func(code string) string {
		return fmt.Sprintf(`{terminationGracePeriodSeconds: %d, containers: [{
			name: pytorch, image: "tensorstack/pytorch-example:2.6.0", command: [python3, -c, %q]
		}]}`, grace, code)
	}
	return fmt.Sprintf(ending, spec(master), spec(worker))
}

var _ = Describe("A job", Label("pytorch", "ending"), func() {
	It("sets SuccessCriteriaMet when its leader succeeds, and Completed when its peer ends", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectlWith(ctx, endingWith(5, "import time; time.sleep(5)", "import time; time.sleep(20)"), "apply", "-f", "-")
		n.kubectl(ctx, "wait", "--for=condition=SuccessCriteriaMet", "ptjob/ending", timeout)
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/ending", timeout)
		Expect(now(n.running(ctx))).To(BeEmpty())
		Expect(now(n.output(ctx, "get", "ptjob", "ending", "-o", "jsonpath={.status.phase} {.status.ready}"))).
			To(Equal("Succeeded 2/2"))
	})

	It("sets FailureTarget when a replica fails permanently, and Failed when no peer runs", func(ctx context.Context) {
		n := newNamespace(ctx)
		job := endingWith(600, "import time; time.sleep(600)", "import time; time.sleep(5); exit(3)")
		n.kubectlWith(ctx, job, "apply", "-f", "-")
		n.kubectl(ctx, "wait", "--for=condition=FailureTarget", "ptjob/ending", timeout)
		// Before a rollback, administrators look for this reason: see common/CHANGELOG.md.
		Eventually(ctx, n.output(ctx, "get", "training", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.namespace} `+
			`{.metadata.name} {.status.conditions[?(@.type=="Running")].reason}{"\n"}{end}`)).
			Should(Equal(fmt.Sprintf("PyTorchTrainingJob %s ending Finishing", n)))
		n.kubectl(ctx, "delete", "pod", "ending-master-0", "--force", "--grace-period=0")
		n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/ending", timeout)
		Expect(now(n.running(ctx))).To(BeEmpty())
		Expect(now(n.output(ctx, "get", "ptjob", "ending", "-o", "jsonpath={.status.phase} {.status.reason}"))).
			To(Equal("Failed PermanentFailure"))
	})
})

// running returns a function that returns a line for each pod that is Pending or has a running container.
func (n namespace) running(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		// A pod in phase Running can have no running container, because the kubelet reports the end of the containers
		// before the end of their pod.
		output, err := n.output(ctx, "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.phase} `+
			`{.status.containerStatuses[*].state.running} {.status.initContainerStatuses[*].state.running}{"\n"}{end}`)()
		var running []string
		for line := range strings.Lines(output) {
			if fields := strings.Fields(line); len(fields) > 2 || slices.Contains(fields, "Pending") {
				running = append(running, line)
			}
		}
		return running, err
	}
}
