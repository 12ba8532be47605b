package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A PyTorchTrainingJob with FSDP2", Label("pytorch", "fsdp"), func() {
	It("continues with other numbers of processes, and trains as one process does", func(ctx context.Context) {
		waitLonger(2) // the test trains three times
		n, job := newNamespace(ctx), "ptjob/digits-fsdp"
		n.volume(ctx, "digits-checkpoints")
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/fsdp.yaml")
		log := n.output(ctx, "logs", "digits-fsdp-worker-0", "-c", "pytorch")

		Eventually(ctx, log).Should(ContainSubstring("epoch  2  loss"))
		n.kubectl(ctx, "exec", "digits-fsdp-worker-1", "-c", "pytorch", "--", "sh", "-c", "kill -9 -1")
		Eventually(ctx, log).Should(MatchRegexp(`continuing after epoch [1-9](.|\n)*epoch .* processes 4`))

		n.kubectl(ctx, "patch", job, "--type=merge", "-p", `{"spec":{"runMode":{"pause":{"enabled":true}}}}`)
		n.kubectl(ctx, "wait", "--for=condition=Paused", job, timeout)
		n.kubectl(ctx, "patch", job, "--type=json", "-p",
			`[{"op":"replace","path":"/spec/replicaSpecs/0/replicas","value":1}]`)
		n.kubectl(ctx, "patch", job, "--type=merge", "-p", `{"spec":{"runMode":{"pause":{"enabled":false}}}}`)
		n.kubectl(ctx, "wait", "--for=condition=Completed", job, timeout)
		Eventually(ctx, log).Should(MatchRegexp(`continuing after epoch [1-9](.|\n)*epoch 40 .* processes 2`))
		sharded := lastLoss(now(log))

		manifest, err := os.ReadFile(filepath.Join(root, "examples/pytorch/fsdp.yaml"))
		Expect(err).NotTo(HaveOccurred())
		alone := newNamespace(ctx)
		alone.volume(ctx, "digits-checkpoints")
		alone.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		alone.kubectlWith(ctx, strings.NewReplacer(
			`procPerNode: "2"`, `procPerNode: "1"`, "replicas: 2", "replicas: 1", "--pause=1, ", "",
		).Replace(string(manifest)), "apply", "-f", "-")
		alone.kubectl(ctx, "wait", "--for=condition=Completed", job, timeout)
		log = alone.output(ctx, "logs", "digits-fsdp-worker-0", "-c", "pytorch")
		Eventually(ctx, log).Should(MatchRegexp(`epoch 40 .* processes 1`))
		// With SGD, the loss is different if the gradients of the processes are added up instead of averaged.
		loss := lastLoss(now(log))
		Expect(sharded).To(BeNumerically("~", loss, loss/10))
	})
})

// lastLoss returns the last loss in the log of an example for PyTorch or DeepSpeed.
func lastLoss(log string) float64 {
	GinkgoHelper()
	losses := regexp.MustCompile(`epoch +\d+  loss (\S+)`).FindAllStringSubmatch(log, -1)
	Expect(losses).NotTo(BeEmpty(), "the log has no loss: %s", log)
	loss, err := strconv.ParseFloat(losses[len(losses)-1][1], 64)
	Expect(err).NotTo(HaveOccurred())
	return loss
}
