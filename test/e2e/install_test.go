package e2e

import (
	"context"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// These specs change the installation with the commands of docs/operate/installing.md, and restore it at the end.
var _ = Describe("An installation", Label("install"), Serial, func() {
	It("is removed in two steps without affecting others, and is installed again with Helm", func(ctx context.Context) {
		localClusterOrSkip(removesController)
		n := newNamespace(ctx)
		isInstalledAgain("tensorboard")
		n.volume(ctx, "digits-logs")
		n.kubectlWith(ctx, claim, "apply", "-f", "-")
		n.follow(ctx, "tensorboard/README.md", "With a job, or alone")

		n.follow(ctx, "docs/operate/installing.md", "Removing a controller")
		Eventually(ctx, n.names(ctx, "pods")).Should(BeEmpty(),
			"the garbage collector deletes the pods of the removed TensorBoards")
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/tensorboard.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-board", timeout)
		Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-board", "-o", "jsonpath={.status.tensorboard.reason}")).
			Should(Equal("NotInstalled"))
		n.kubectl(ctx, "delete", "ptjob", "digits-board")

		n.follow(ctx, "docs/operate/installing.md", "Helm")
	})

	It("can be confined to one namespace", func(ctx context.Context) {
		localClusterOrSkip(removesController)
		const team = namespace("team-a")
		other := newNamespace(ctx)
		isInstalledAgain("tensorflow")
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-k", "deploy/tensorflow/controller")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) {
			_, err := kubectl(ctx, "delete", "namespace", string(team))
			Expect(err).NotTo(HaveOccurred())
		})
		other.follow(ctx, "docs/operate/installing.md", "One namespace")

		for _, n := range []namespace{other, team} {
			n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
			n.kubectl(ctx, "apply", "-f", "examples/tensorflow/multi-worker.yaml")
		}
		team.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-multi-worker", timeout)
		Eventually(ctx,
			other.output(ctx, "get", "tfjob", "digits-multi-worker", "-o", "jsonpath={.status.observedGeneration}")).
			Should(BeEmpty(), "no controller reconciles a job in another namespace")
		Eventually(ctx, other.output(ctx, "get", "pods", "--output=name")).Should(BeEmpty())
	})

	It("provides a ServiceMonitor and alerts to the Prometheus operator", func(ctx context.Context) {
		cluster := localClusterOrSkip("the test removes custom resource definitions and a namespace that others might use")
		n := newNamespace(ctx)
		source, err := cluster.SourceDir(ctx, "prometheus-operator")
		Expect(err).NotTo(HaveOccurred())
		for _, resource := range []string{"servicemonitors", "prometheusrules"} {
			crd := filepath.Join(source, "example/prometheus-operator-crd/monitoring.coreos.com_"+resource+".yaml")
			n.kubectl(ctx, "create", "-f", crd)
			DeferCleanup(func(ctx context.Context) error { _, err := kubectl(ctx, "delete", "-f", crd); return err })
			n.kubectl(ctx, "wait", "--for=condition=Established", "-f", crd, timeout)
		}
		DeferCleanup(func(ctx context.Context) {
			for _, args := range [][]string{
				{"delete", "-k", "pytorch/config/servicemonitor", "-n", "t9k-pytorch"}, {"delete", "namespace", "monitoring"},
			} {
				_, err := kubectl(ctx, args...)
				Expect(err).NotTo(HaveOccurred())
			}
		})
		n.follow(ctx, "docs/operate/installing.md", "Metrics")

		endpoints := namespace("t9k-pytorch").output(ctx, "get", "endpointslices", "-l",
			"kubernetes.io/service-name=pytorch-controller-metrics",
			"-o", "jsonpath={.items[0].ports[0].name} {.items[0].ports[0].port}")
		Eventually(ctx, endpoints).Should(Equal("metrics 8080"),
			"the Service that the ServiceMonitor selects leads to the controller's port")
	})
})

// removesController is the reason why some specs run only on the local cluster.
const removesController = "the test removes a controller that others might use"

// isInstalledAgain installs a controller again after the test.
func isInstalledAgain(controller string) {
	DeferCleanup(func(ctx context.Context) {
		for _, args := range [][]string{
			{"apply", "-k", "deploy/" + controller},
			{"-n", "t9k-" + controller, "rollout", "status", "deployment/" + controller + "-controller", timeout},
		} {
			// A namespace that is being deleted accepts no new objects, so retry.
			Eventually(ctx, func() error { _, err := kubectl(ctx, args...); return err }).Should(Succeed(),
				strings.Join(args, " "))
		}
	})
}
