package e2e

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/internal/modules"
)

// With $E2E_TRAINING=oldest, all pods run the oldest PyTorch and DeepSpeed that are tested, instead of the newest. An
// admission policy replaces the images, so the specs can apply the examples unchanged.
var _ = SynchronizedBeforeSuite(func(ctx context.Context) {
	if !trainsWithOldest() {
		return
	}
	versions, err := modules.Read(root)
	Expect(err).NotTo(HaveOccurred())
	policy, err := os.ReadFile("testdata/oldest.yaml")
	Expect(err).NotTo(HaveOccurred())
	objects := strings.NewReplacer(
		"$NEWEST_PYTORCH", versions.PyTorch.Newest, "$OLDEST_PYTORCH", versions.PyTorch.Oldest,
		"$NEWEST_DEEPSPEED", versions.DeepSpeed.Newest, "$OLDEST_DEEPSPEED", versions.DeepSpeed.Oldest,
	).Replace(string(policy))
	DeferCleanup(func(ctx context.Context) {
		_, err := kubectlWith(ctx, objects, "delete", "--ignore-not-found", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	})
	_, err = kubectlWith(ctx, objects, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func() (string, error) {
		return kubectl(ctx, "run", "probe", "--image=pytorch-example:"+versions.PyTorch.Newest, "--restart=Never",
			"--dry-run=server", "-o", "jsonpath={.spec.containers[0].image}")
	}).Should(Equal("pytorch-example:" + versions.PyTorch.Oldest))
}, func() {})

// trainsWithOldest reports whether all pods run the oldest PyTorch and DeepSpeed that are tested.
func trainsWithOldest() bool { return os.Getenv("E2E_TRAINING") == "oldest" }
