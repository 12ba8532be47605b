package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("kubectl train delete", func() {
	// There is no garbage collector, so the specs delete the pods.
	deletePods := func(ctx context.Context, n namespace) {
		GinkgoHelper()
		Expect(api.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(n))).To(Succeed())
	}

	It("waits until the job and its pods are gone", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		deletion := n.start(ctx, "delete", "digits")
		Eventually(ctx, deletion.errOut).Should(gbytes.Say("Waiting: remaining pods: 2\n"))
		deletePods(ctx, n)
		Eventually(ctx, deletion.ended).Should(Receive(BeNil()))
		Expect(deletion.out.Contents()).To(BeEquivalentTo(
			"pytorchtrainingjob.batch.tensorstack.dev \"digits\" deleted from " + string(n) + " namespace\n"))
		Expect(api.Get(ctx, n.key("digits"), n.object(plain("PyTorchTrainingJob", "digits")))).
			To(MatchError(ContainSubstring("not found")))
	})

	It("explains which finalizer keeps the job", func(ctx context.Context) {
		n := newNamespace(ctx)
		job := n.object(plain("DeepSpeedJob", "words"))
		job.SetFinalizers([]string{"example.com/hold"})
		Expect(api.Create(ctx, job)).To(Succeed())
		deletion := n.start(ctx, "delete", "words")
		Eventually(ctx, deletion.errOut).Should(gbytes.Say(
			"Waiting: the job still exists, with the finalizers example.com/hold\n"))
		Expect(api.Patch(ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": []}}`)))).
			To(Succeed())
		deletePods(ctx, n)
		Eventually(ctx, deletion.ended).Should(Receive(BeNil()))
	})

	It("keeps the pods with --cascade=orphan", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		deletion := n.start(ctx, "delete", "digits", "--cascade=orphan", "-o", "name")
		// In a cluster, the garbage collector removes the finalizer orphan after it has orphaned the pods. Here, the test
		// removes the finalizer.
		job := n.object(plain("PyTorchTrainingJob", "digits"))
		Eventually(ctx, func() []string {
			_ = api.Get(ctx, n.key("digits"), job)
			return job.GetFinalizers()
		}).Should(ConsistOf(metav1.FinalizerOrphanDependents))
		Expect(api.Patch(ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": []}}`)))).
			To(Succeed())
		Eventually(ctx, deletion.ended).Should(Receive(BeNil()))
		Expect(deletion.out.Contents()).To(BeEquivalentTo("pytorchtrainingjob.batch.tensorstack.dev/digits\n"))
		var pods corev1.PodList
		Expect(api.List(ctx, &pods, client.InNamespace(n))).To(Succeed())
		Expect(pods.Items).To(HaveLen(2))
	})

	DescribeTable("changes nothing in a dry run",
		func(ctx context.Context, dryRun, printed string) {
			n := newNamespace(ctx)
			n.create(ctx, plain("PyTorchTrainingJob", "digits"))
			out, _, err := n.train(ctx, "delete", "digits", "--dry-run="+dryRun)
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(HaveSuffix(" namespace" + printed + "\n"))
			job := n.object(plain("PyTorchTrainingJob", "digits"))
			Expect(api.Get(ctx, n.key("digits"), job)).To(Succeed())
			Expect(job.GetDeletionTimestamp()).To(BeNil())
		},
		Entry("of the client", "client", " (dry run)"),
		Entry("of the server", "server", " (server dry run)"),
	)

	DescribeTable("refuses an unknown value",
		func(ctx context.Context, flag, wanted string) {
			n := newNamespace(ctx)
			n.create(ctx, plain("PyTorchTrainingJob", "digits"))
			_, _, err := n.train(ctx, "delete", "digits", flag)
			Expect(err).To(MatchError(wanted))
		},
		Entry("of --cascade", "--cascade=up", `invalid argument "up" for "--cascade" flag: use background, foreground or orphan`),
		Entry("of --output", "--output=yaml", `invalid argument "yaml" for "-o, --output" flag: use name`),
	)
})
