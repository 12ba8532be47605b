package e2e

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A job whose pods get more containers at admission", Label("mesh"), func() {
	BeforeEach(func() { waitLonger(2) }) // several jobs start together

	DescribeTable("completes and releases the quota of its pods",
		func(ctx context.Context, code, example, named, job string) {
			n := newNamespace(ctx)
			n.mesh(ctx)
			n.kubectl(ctx, "create", "quota", "held", "--hard=pods=100")
			n.kubectl(ctx, "apply", "-k", code)
			manifest, err := os.ReadFile(root + "/" + example)
			Expect(err).NotTo(HaveOccurred())
			// No framework has a main container named train, so the first container of the template is the main container.
			renamed := strings.Replace(string(manifest), "- name: "+named+"\n", "- name: train\n", 1)
			Expect(renamed).NotTo(Equal(string(manifest)))
			n.kubectlWith(ctx, renamed, "apply", "-f", "-")

			n.kubectl(ctx, "wait", "--for=condition=Completed", job, timeout)
			status := func(fields string) func() (string, error) {
				return n.output(ctx, "get", job, "-o", "jsonpath="+fields)
			}
			Eventually(ctx, status("{.status.phase} {.status.backoffCount} {.status.tasks[0].replicas[0].phase}")).
				Should(Equal("Succeeded 0 Succeeded"))
			Eventually(ctx, status("{.status.tasks[*].replicas[*].containers[*].name}")).
				Should(Equal("agent proxy train agent proxy train"))
			Eventually(ctx, n.output(ctx, "get", "quota", "held", "-o", "jsonpath={.status.used.pods}")).Should(Equal("0"))
		},
		Entry("with PyTorch", "examples/pytorch/code", "examples/pytorch/plain.yaml", "pytorch", "ptjob/digits-plain"),
		Entry("with TensorFlow", "examples/tensorflow/code", "examples/tensorflow/multi-worker.yaml", "tensorflow",
			"tfjob/digits-multi-worker"),
		Entry("with DeepSpeed", "examples/deepspeed/code", "examples/deepspeed/zero.yaml", "worker", "dsjob/digits-zero"),
	)

	It("restarts when a replica fails, and reports that replica", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.mesh(ctx)
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/failing.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/failing", timeout)
		failure := HavePrefix("failing-worker-1 Error 1 counted=true")
		Eventually(ctx, n.failures(ctx, "ptjob/failing")).Should(HaveEach(failure))
		end := n.output(ctx, "get", "ptjob", "failing", "-o", "jsonpath={.status.reason} {.status.backoffCount}")
		Eventually(ctx, end).Should(Equal("BackoffLimitExceeded 1"))
	})
})

// mesh creates an admission policy that adds containers to the pods of the namespace, and waits until the policy
// applies.
func (n namespace) mesh(ctx context.Context) {
	GinkgoHelper()
	policy, err := os.ReadFile("testdata/mesh.yaml")
	Expect(err).NotTo(HaveOccurred())
	objects := strings.ReplaceAll(string(policy), "$NAMESPACE", string(n))
	DeferCleanup(func(ctx context.Context) {
		_, err := kubectlWith(ctx, objects, "delete", "--ignore-not-found", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	})
	_, err = kubectlWith(ctx, objects, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	probe := n.output(ctx, "run", "probe", "--image=none", "--restart=Never", "--dry-run=server",
		"-o", "jsonpath={.spec.initContainers[*].name} {.spec.containers[*].name}")
	Eventually(ctx, probe).Should(Equal("network proxy probe agent"))
}
