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

var _ = Describe("kubectl train pause", func() {
	It("waits until the pods of the job are gone, and prints what it waits for", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		release := n.hold(ctx, "digits-worker-1")
		pause := n.start(ctx, "pause", "digits")
		Eventually(ctx, pause.errOut).Should(gbytes.Say(
			`Waiting: Pausing: remaining pods: \d\nPress Ctrl-C to stop waiting: the job is being paused\.\n`))
		Expect(pause.ended).NotTo(Receive())
		release(ctx)
		Eventually(ctx, pause.ended).Should(Receive(BeNil()))
		Expect(pause.out.Contents()).To(BeEquivalentTo("pytorchtrainingjob.batch.tensorstack.dev/digits paused\n"))
		var pods corev1.PodList
		Expect(api.List(ctx, &pods, client.InNamespace(n))).To(Succeed())
		Expect(pods.Items).To(BeEmpty())

		By("pausing it again, which changes nothing")
		out, errOut, err := n.train(ctx, "pause", "ptjob/digits", "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("pytorchtrainingjob.batch.tensorstack.dev/digits\n"))
		Expect(errOut).To(BeEmpty())
	})

	It("explains after a timeout what is missing", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		release := n.hold(ctx, "digits-worker-0")
		DeferCleanup(release)
		_, _, err := n.train(ctx, "pause", "digits", "--timeout=2s")
		Expect(err).To(MatchError(
			MatchRegexp(`^the job is being paused, but timed out after 2s: Pausing: remaining pods: \d$`)))
		Expect(command.ExitCode(err)).To(Equal(1))
	})

	It("explains after an interrupt what goes on", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("DeepSpeedJob", "words"))
		release := n.hold(ctx, "words-worker-0")
		pause := n.start(ctx, "pause", "words")
		Eventually(ctx, pause.errOut).Should(gbytes.Say("Waiting"))
		pause.interrupt()
		var err error
		Eventually(ctx, pause.ended).Should(Receive(&err))
		Expect(err).To(MatchError("interrupted: the job is being paused, and this command no longer waits"))
		Expect(command.ExitCode(err)).To(Equal(130))
		release(ctx)
		Eventually(ctx, n.phase(ctx, "words")).Should(Equal("Paused"))
	})

	It("fails if the job ends before it is paused", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.exit(ctx, "digits-worker-1", 0, "")
		n.exit(ctx, "digits-worker-0", 0, "")
		Eventually(ctx, n.phase(ctx, "digits")).Should(Equal("Succeeded"))
		_, _, err := n.train(ctx, "pause", "digits")
		Expect(err).To(MatchError(MatchRegexp(
			`^ptjob/digits has succeeded \(LeaderSucceeded: .*\), so there is nothing to pause$`)))
	})

	It("refuses a job in debug mode", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, debugging("digits"))
		_, _, err := n.train(ctx, "pause", "digits")
		Expect(err).To(MatchError("ptjob/digits is in debug mode, and a job in debug mode cannot be paused: " +
			"to free its resources, delete it with kubectl train delete " + n.typed("ptjob/digits")))
	})

	DescribeTable("changes nothing in a dry run",
		func(ctx context.Context, dryRun, printed string) {
			n := newNamespace(ctx)
			n.create(ctx, plain("TensorFlowTrainingJob", "digits"))
			out, _, err := n.train(ctx, "pause", "digits", "--dry-run="+dryRun)
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(Equal("tensorflowtrainingjob.batch.tensorstack.dev/digits paused" + printed + "\n"))
			out, _, err = n.train(ctx, "pause", "digits", "--dry-run="+dryRun, "-o", "jsonpath={.spec.runMode.pause.enabled}")
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(Equal("true"))
			out, _, err = n.train(ctx, "list", "-o", "jsonpath={.items[0].spec.runMode}")
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(BeEmpty())
		},
		Entry("of the client", "client", " (dry run)"),
		Entry("of the server", "server", " (server dry run)"),
	)

	It("refuses an unknown dry run", func(ctx context.Context) {
		_, _, err := newNamespace(ctx).train(ctx, "pause", "digits", "--dry-run=maybe")
		Expect(err).To(MatchError(`invalid argument "maybe" for "--dry-run" flag: use none, client or server`))
	})
})
