package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// It is Serial, since the pods of the attack are many and large for the cluster, too.
var _ = Describe("A tenant", Label("tenants"), Serial, func() {
	It("cannot stop the controller of the others by one large job", func(ctx context.Context) {
		attacker, victim := newNamespace(ctx), newNamespace(ctx)
		restarts := namespace("t9k-pytorch").output(ctx, "get", "pods", "-l", "app.kubernetes.io/name=pytorch-controller",
			"-o", `jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
		before := now(restarts)

		const most = 1000
		tolerations := strings.TrimSuffix(strings.Repeat("{operator: Exists, key: somewhere}, ", 12*most), ", ")
		_, err := kubectlWith(ctx, job("many-tolerations", most, "tolerations: ["+tolerations+"]", ""),
			"-n", string(attacker), "apply", "--server-side", "-f", "-")
		Expect(err).To(MatchError(And(
			ContainSubstring("spec.replicaSpecs[0].template.spec.tolerations"), ContainSubstring("must have at most"))))

		// All of this job is within the limits.
		const replicas = 300
		var env []string
		for i := range 6 {
			env = append(env, fmt.Sprintf("{name: LONG_%d, value: %s}", i, strings.Repeat("a", 100<<10)))
		}
		attacker.kubectlWith(ctx, job("long-values", replicas, "nodeSelector: {no-such-node: here}",
			"env: ["+strings.Join(env, ", ")+"]"), "apply", "--server-side", "-f", "-")

		victim.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		victim.kubectl(ctx, "apply", "-f", "examples/pytorch/plain.yaml")
		victim.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-plain", patience)

		Eventually(ctx, attacker.output(ctx, "get", "ptjob", "long-values", "-o", "jsonpath={.status.replicas}")).
			Should(Equal(fmt.Sprint(replicas)), "the attack is over: all of its pods were made")
		Expect(now(restarts)).To(Equal(before), "the controller has not restarted")
	})

	It("has the rights and limits that the documentation of a shared cluster gives it", func(ctx context.Context) {
		localClusterOrSkip("it changes how controllers are installed")
		isInstalledAgain("pytorch")
		isInstalledAgain("tensorboard")
		DeferCleanup(func(ctx context.Context) {
			_, err := kubectl(ctx, "delete", "--ignore-not-found", "-k", "examples/install/tenant")
			Expect(err).NotTo(HaveOccurred())
		})
		newNamespace(ctx).follow(ctx, "docs/security.md", "Locking down a shared cluster")
	})
})

// job returns a PyTorchTrainingJob with additions to the spec of its pods and to their container.
func job(name string, replicas int, ofPod, ofContainer string) string {
	return fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: %s}
spec:
  replicaSpecs:
  - type: worker
    replicas: %d
    template:
      spec:
        %s
        containers:
        - name: pytorch
          image: training
          %s
`, name, replicas, ofPod, ofContainer)
}
