package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// ending is a job whose replicas have pod specs of their own.
const ending = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: ending}
spec:
  replicaSpecs:
    - {type: master, restartPolicy: Never, template: {spec: %s}}
    - {type: worker, restartPolicy: Never, template: {spec: %s}}
`

// endingWith returns the job with a command of Python for each replica. A Python without a handler ignores SIGTERM. So
// its grace period, in seconds, decides when it ends after its deletion.
func endingWith(grace int, master, worker string) string {
	spec := func(code string) string {
		return fmt.Sprintf(`{terminationGracePeriodSeconds: %d, containers: [{
			name: pytorch, image: "tensorstack/pytorch-example:1.13.1", command: [python3, -c, %q]
		}]}`, grace, code)
	}
	return fmt.Sprintf(ending, spec(master), spec(worker))
}

var _ = Describe("The end of a job", Label("pytorch", "ending"), func() {
	It("is decided when the leader succeeds, and is final when its peer has ended", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectlWith(ctx, endingWith(5, "import time; time.sleep(5)", "import time; time.sleep(20)"), "apply", "-f", "-")
		n.kubectl(ctx, "wait", "--for=condition=SuccessCriteriaMet", "ptjob/ending", patience)
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/ending", patience)
		Expect(now(n.running(ctx))).To(BeEmpty())
		Expect(now(n.output(ctx, "get", "ptjob", "ending", "-o", "jsonpath={.status.phase} {.status.ready}"))).
			To(Equal("Succeeded 2/2"))
	})

	It("is decided when a replica fails for good, and is final when no other runs", func(ctx context.Context) {
		n := newNamespace(ctx)
		job := endingWith(600, "import time; time.sleep(600)", "import time; time.sleep(5); exit(3)")
		n.kubectlWith(ctx, job, "apply", "-f", "-")
		n.kubectl(ctx, "wait", "--for=condition=FailureTarget", "ptjob/ending", patience)
		// As docs/upgrading.md shows it.
		Eventually(ctx, n.output(ctx, "get", "training", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.namespace} `+
			`{.metadata.name} {.status.conditions[?(@.type=="Running")].reason}{"\n"}{end}`)).
			Should(Equal(fmt.Sprintf("PyTorchTrainingJob %s ending Finishing", n)))
		n.kubectl(ctx, "delete", "pod", "ending-master-0", "--force", "--grace-period=0")
		n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/ending", patience)
		Expect(now(n.running(ctx))).To(BeEmpty())
		Expect(now(n.output(ctx, "get", "ptjob", "ending", "-o", "jsonpath={.status.phase} {.status.reason}"))).
			To(Equal("Failed PermanentFailure"))
	})
})

// running returns a function that returns the pods that have a container which runs, or is yet to run.
func (n namespace) running(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		// The kubelet reports the ends of containers before that of their pod.
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
