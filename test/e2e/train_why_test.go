package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("kubectl train why", Label("train"), func() {
	It("explains jobs as its documentation shows", func(ctx context.Context) {
		newNamespace(ctx).follow(ctx, "docs/train/kubectl-train.md", "Why a job does not run, or why it failed")
	})

	It("names a program that is not in the image, and the command to type next", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectlWith(ctx, `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: typo}
spec:
  runPolicy: {backoffLimit: 0}
  replicaSpecs:
    - type: worker
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - {name: pytorch, image: "tensorstack/pytorch-example:2.6.0", command: [trian.py]}
`, "apply", "-f", "-")
		n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/typo", timeout)
		Eventually(ctx, func() (string, error) {
			text, err := kubectl(ctx, "train", "why", "typo", "-n", string(n)) // flags must come after the name of a plugin
			return strings.Join(strings.Fields(text), " "), err
		}).Should(And(
			ContainSubstring(`could not start its program: exec: "trian.py": executable file not found in $PATH.`),
			ContainSubstring("kubectl train delete ptjob/typo -n "+string(n)),
		))
	})
})
