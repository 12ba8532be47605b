package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// These specs do not connect to a TensorBoard, because that needs a kubelet and the tensorboard-controller. test/e2e
// has both.
var _ = Describe("kubectl train board", func() {
	const board = `tensorboardSpec: {trainingLogFilesets: ["t9k://pvc/logs/runs"]}, `

	It("waits until the TensorBoard is ready, and ends when the user interrupts it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, withSpec("PyTorchTrainingJob", "digits", board+workers))
		call := n.start(ctx, "board", "digits")
		Eventually(ctx, call.errOut).Should(gbytes.Say("Waiting: the controller has not seen the TensorBoard digits yet\n"))
		call.interrupt()
		Eventually(ctx, call.ended).Should(Receive(BeNil()))
	})

	It("starts a suspended TensorBoard only with --resume", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, withSpec("TensorFlowTrainingJob", "digits", board+chiefAndWorkers))
		object := &tensorboardv1beta1.TensorBoard{}
		Eventually(ctx, func() error { return api.Get(ctx, n.key("digits"), object) }).Should(Succeed())
		Expect(api.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": true}}`)))).
			To(Succeed())
		_, _, err := n.train(ctx, "board", "digits")
		Expect(err).To(MatchError("the TensorBoard digits is suspended: start it again with --resume"))

		call := n.start(ctx, "board", "digits", "--resume")
		Eventually(ctx, call.errOut).Should(gbytes.Say("Waiting: the controller has not seen the TensorBoard digits yet\n"))
		Expect(api.Get(ctx, n.key("digits"), object)).To(Succeed())
		Expect(object.Spec.Suspend).To(BeFalse())
		call.interrupt()
		Eventually(ctx, call.ended).Should(Receive(BeNil()))
	})

	DescribeTable("refuses a job without a TensorBoard",
		func(ctx context.Context, kind, wanted string) {
			n := newNamespace(ctx)
			n.create(ctx, plain(kind, "digits"))
			_, _, err := n.train(ctx, "board", "digits")
			Expect(err).To(MatchError(ContainSubstring(wanted)))
		},
		Entry("that can have one", "PyTorchTrainingJob", "ptjob/digits has no TensorBoard: pause the job, add "+
			"spec.tensorboardSpec"),
		Entry("whose kind has none", "DeepSpeedJob", "a DeepSpeedJob has no TensorBoard of its own"),
	)
})
