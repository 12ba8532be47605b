package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/internal/tree"
)

// rankProgram is a training that only prints its rank and the number of ranks.
const rankProgram = `import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
`

var _ = Describe("A new framework", Label("framework"), Serial, func() {
	It("builds, passes conformance, trains a plain command, and works in kubectl train", func(ctx context.Context) {
		localClusterOrSkip("the image of the framework can be loaded only into the local cluster")
		repository := GinkgoT().TempDir()
		tree.Copy(GinkgoTB(), root, repository)
		in := func(command string) {
			GinkgoHelper()
			By(command)
			shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
			shell.Dir = repository
			// The make that runs this test sets variables. Remove them, so that the commands run as at a shell prompt.
			shell.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") })
			output, err := shell.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s", output)
		}
		in("make new-framework NAME=example")
		in("make images CONTROLLERS=example")
		in("KUBEBUILDER_ASSETS=$(bin/localcluster assets) go test -count=1 ./example/...")

		DeferCleanup(func(ctx context.Context) {
			_, err := kubectl(ctx, "delete", "--ignore-not-found", "-k", filepath.Join(repository, "deploy/example"))
			Expect(err).NotTo(HaveOccurred())
			// kubectl still has the deleted kind in its cache of the category "training". This command refreshes the cache.
			Eventually(ctx, func() (string, error) { return kubectl(ctx, "api-resources", "--output=name") }).
				ShouldNot(ContainSubstring("exampletrainingjobs"))
		})
		in("hack/install.sh example")
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-f", filepath.Join(repository, "examples/example/plain.yaml"))
		n.kubectl(ctx, "wait", "--for=condition=Completed", "examplejob/plain", timeout)
		Expect(now(n.output(ctx, "logs", "plain-worker-0"))).
			To(HaveSuffix("rank 0 of 2, led by plain-worker-0.plain." + string(n) + ".svc.cluster.local"))
		Expect(now(n.output(ctx, "get", "training", "-o", "name"))).
			To(Equal("exampletrainingjob.batch.tensorstack.dev/plain"))

		By("using kubectl train")
		in("make kubectl-train")
		train := func(args ...string) string {
			GinkgoHelper()
			command := exec.CommandContext(ctx, filepath.Join(repository, "bin/kubectl-train"),
				append([]string{"--namespace", string(n)}, args...)...)
			output, err := command.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s", output)
			return string(output)
		}
		folder := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(folder, "train.py"), []byte(rankProgram), 0o600)).To(Succeed())
		Expect(train("run", folder, "--name=own", "--kind=example", "--nodes=2", "--progress=false",
			"--image=tensorstack/pytorch-example:2.6.0", "--", "train.py")).To(ContainSubstring("rank 0 of 2\n"))
		Expect(train("list")).To(And(ContainSubstring("examplejob/own"), ContainSubstring("examplejob/plain")))
		Expect(train("plan", "-f", filepath.Join(repository, "examples/example/plain.yaml"))).To(
			ContainSubstring("plain-worker-0 to plain-worker-1 (2 pods)"))
		Expect(train("watch", "own")).To(ContainSubstring("Succeeded"))
		Expect(train("why", "own")).To(ContainSubstring("succeeded"))
	}, SpecTimeout(20*time.Minute))
})
