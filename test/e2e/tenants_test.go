package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The specs are Serial because one of them creates many large pods, which slow down the whole cluster.
var _ = Describe("A tenant", Label("tenants"), Serial, func() {
	It("cannot create one large job that stops the controller of all tenants", func(ctx context.Context) {
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

		// Unlike the job many-tolerations, the next job is within all limits.
		const replicas = 300
		var env []string
		for i := range 6 {
			env = append(env, fmt.Sprintf("{name: LONG_%d, value: %s}", i, strings.Repeat("a", 100<<10)))
		}
		attacker.kubectlWith(ctx, job("long-values", replicas, "nodeSelector: {no-such-node: here}",
			"env: ["+strings.Join(env, ", ")+"]"), "apply", "--server-side", "-f", "-")

		victim.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		victim.kubectl(ctx, "apply", "-f", "examples/pytorch/plain.yaml")
		victim.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-plain", timeout)

		Eventually(ctx, attacker.output(ctx, "get", "ptjob", "long-values", "-o", "jsonpath={.status.replicas}")).
			Should(Equal(fmt.Sprint(replicas)), "all pods of the attack have been created")
		Expect(now(restarts)).To(Equal(before), "the controller has not restarted")
	})

	It("has the permissions and limits of docs/operate/security.md in a shared cluster", func(ctx context.Context) {
		localClusterOrSkip("the test changes the installation of controllers")
		for _, controller := range []string{"pytorch", "tensorflow", "deepspeed", "tensorboard"} {
			isInstalledAgain(controller)
		}
		DeferCleanup(func(ctx context.Context) {
			for _, folder := range []string{"examples/install/tenant", "examples/install/tenant-policies"} {
				_, err := kubectl(ctx, "delete", "--ignore-not-found", "-k", folder)
				Expect(err).NotTo(HaveOccurred())
			}
		})
		newNamespace(ctx).follow(ctx, "docs/operate/security.md", "Locking down a shared cluster")

		By("training in the namespace as its user")
		tenant := namespace("team-b")
		tenant.volume(ctx, "work")
		followAs(ctx, as("alice", tenant.kubeconfig(ctx)), "docs/train/first-training.md",
			"Train, and continue after failures", strings.NewReplacer(
				"--gpus=8 ", "", "registry.example.com/team/training:1.0", "tensorstack/pytorch-example:2.6.0"))
	})
})

// job returns the manifest of a PyTorchTrainingJob. ofPod is added to its pod spec, and ofContainer to the container.
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
