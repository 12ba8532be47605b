package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/command"
)

// The API server gets the output of pods from the kubelet, which does not exist here. So these specs do not read the
// output of pods. The specs of test/e2e read it.
var _ = Describe("kubectl train logs", func() {
	// failed creates a job, and waits until the job has failed and its pods are gone.
	failed := func(ctx context.Context, n namespace) {
		GinkgoHelper()
		n.create(ctx, withSpec("PyTorchTrainingJob", "digits", "runPolicy: {cleanUpPolicy: All}, "+workers))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.exit(ctx, "digits-worker-1", 3, "step 7\nno \x1b[31mdata\x1b[0m")
		Eventually(ctx, n.phase(ctx, "digits")).Should(Equal("Failed"))
	}

	DescribeTable("prints the output that status.failures has kept",
		func(ctx context.Context, flag string) {
			n := newNamespace(ctx)
			failed(ctx, n)
			out, errOut, err := n.train(ctx, "logs", "digits", flag)
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(Equal("step 7\nno data\n"))
			Expect(errOut).To(MatchRegexp(`^The pod is gone\. status\.failures has kept the end of its output: ` +
				`digits-worker-1 failed with exit code 3 \(Error\), rank 1, \d+s ago\.\n$`))
		},
		Entry("of the replica that failed first", "--failed"),
		Entry("of a rank", "--rank=1"),
		Entry("of a replica", "--replica=worker-1"),
	)

	It("follows a job that has failed, with the exit code 2", func(ctx context.Context) {
		n := newNamespace(ctx)
		failed(ctx, n)
		out, _, err := n.train(ctx, "logs", "digits", "-f", "--rank=1")
		Expect(out).To(HavePrefix("step 7\n"))
		Expect(err).To(MatchError(ContainSubstring("ptjob/digits has failed (PermanentFailure: ")))
		Expect(command.ExitCode(err)).To(Equal(2))
	})

	It("reports that no output is left", func(ctx context.Context) {
		n := newNamespace(ctx)
		failed(ctx, n)
		_, _, err := n.train(ctx, "logs", "digits")
		Expect(err).To(MatchError(ContainSubstring(
			"digits-worker-0 has no pod, and status.failures of ptjob/digits has no output")))
		_, errOut, err := n.train(ctx, "logs", "digits", "--all")
		Expect(err).NotTo(HaveOccurred())
		Expect(errOut).To(ContainSubstring("digits-worker-0 has no pod, and status.failures has no output of it.\n"))
	})

	It("explains what a replica without output waits for", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		Eventually(ctx, func() error { return api.Get(ctx, n.key("digits-worker-0"), &corev1.Pod{}) }).Should(Succeed())
		_, _, err := n.train(ctx, "logs", "digits")
		Expect(err).To(MatchError(HavePrefix("digits-worker-0 has no output yet: its pod is Pending.")))

		By("following it until somebody deletes the job")
		logs := n.start(ctx, "logs", "digits", "--all", "-f")
		Eventually(ctx, logs.errOut).Should(gbytes.Say(`Waiting: the pod of digits-worker-\d \(Pending: `))
		Expect(api.Delete(ctx, n.object(plain("PyTorchTrainingJob", "digits")))).To(Succeed())
		Eventually(ctx, logs.ended).Should(Receive(MatchError("ptjob/digits was deleted")))
		Expect(api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(n))).To(Succeed())
	})

	It("names the limit when an elastic job gets more replicas than --all may follow", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, elastic("digits"))
		logs := n.start(ctx, "logs", "digits", "--all", "-f", "--max-log-requests=2")
		Eventually(ctx, logs.errOut).Should(gbytes.Say("Waiting"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.start(ctx, "scale", "digits", "3")
		Eventually(ctx, logs.errOut).Should(gbytes.Say(
			"ptjob/digits has more than 2 replicas, and the output of the others is not printed: --max-log-requests raises"))
	})

	It("ends when the user interrupts it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		logs := n.start(ctx, "logs", "digits", "-f")
		Eventually(ctx, logs.errOut).Should(gbytes.Say(`Waiting`))
		logs.interrupt()
		var err error
		Eventually(ctx, logs.ended).Should(Receive(&err))
		Expect(err).To(MatchError("interrupted: ptjob/digits goes on"))
		Expect(command.ExitCode(err)).To(Equal(130))
	})

	DescribeTable("refuses",
		func(ctx context.Context, manifest, wanted string, args ...string) {
			n := newNamespace(ctx)
			n.create(ctx, manifest)
			_, _, err := n.train(ctx, append([]string{"logs", "digits"}, args...)...)
			Expect(err).To(MatchError(ContainSubstring(wanted)))
		},
		Entry("a rank that is too high", plain("PyTorchTrainingJob", "digits"),
			"ptjob/digits has no replica of rank 2: the ranks of its replicas are 0 to 1", "--rank=2"),
		Entry("the rank of a process of torchrun", elastic("digits"), "are 0 to 1. Torchrun starts the processes of a "+
			"replica and numbers them itself", "--rank=2"),
		Entry("an unknown replica", plain("PyTorchTrainingJob", "digits"),
			`ptjob/digits has no replica "ps-0": its 2 replicas are worker-0 to worker-1`, "--replica=ps-0"),
		Entry("a failure that did not happen", plain("PyTorchTrainingJob", "digits"), "no replica of ptjob/digits has failed",
			"--failed"),
		Entry("a negative number of lines", plain("PyTorchTrainingJob", "digits"),
			"--tail=-5 must be a number of lines, or -1 for all lines", "--tail=-5"),
		Entry("a negative time", plain("PyTorchTrainingJob", "digits"), "--since=-5m0s must not be negative", "--since=-5m"),
		Entry("more replicas than it may follow", plain("PyTorchTrainingJob", "digits"),
			"ptjob/digits has 2 replicas, and --max-log-requests allows 1 to be followed",
			"--all", "-f", "--max-log-requests=1"),
	)
})
