package train

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/internal/faults"
)

var _ = Describe("kubectl train, if a job is deleted and another one gets its name,", func() {
	// replace deletes a job and creates another one from the same manifest.
	replace := func(ctx context.Context, n namespace, manifest string) {
		GinkgoHelper()
		Expect(api.Delete(ctx, n.object(manifest), client.PropagationPolicy("Background"))).To(Succeed())
		Eventually(ctx, func() bool {
			object := n.object(manifest)
			return apierrors.IsNotFound(api.Get(ctx, client.ObjectKeyFromObject(object), object))
		}).Should(BeTrue())
		n.create(ctx, manifest)
	}

	DescribeTable("does not change the other job",
		func(ctx context.Context, manifest string, args ...string) {
			n := newNamespace(ctx)
			n.create(ctx, manifest)
			if strings.Contains(manifest, "pause:") {
				Eventually(ctx, n.phase(ctx, "digits")).Should(Equal("Paused"))
			}
			before := n.job(ctx, "digits")
			_, _, err := n.train(ctx, n.through(&faults.Proxy{Before: func(int, string) faults.Fault {
				defer GinkgoRecover()
				replace(ctx, n, manifest)
				return faults.None
			}}, args)...)
			Expect(err).To(HaveOccurred())
			after := n.job(ctx, "digits")
			Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
			Expect(after.GetGeneration()).To(BeEquivalentTo(1))
		},
		Entry("by a pause", plain("PyTorchTrainingJob", "digits"), "pause", "digits"),
		Entry("by a resume", pausedJob, "resume", "digits"),
		Entry("by other arguments", pausedJob, "resume", "digits", "--", "--epochs=20"),
		Entry("by scaling", elastic("digits"), "scale", "digits", "3"),
	)

	It("does not print the output of the pods of the other job", func(ctx context.Context) {
		n := newNamespace(ctx)
		manifest := plain("PyTorchTrainingJob", "digits")
		n.create(ctx, manifest)
		n.run(ctx, "digits-worker-0")
		release := n.hold(ctx, "digits-worker-0")
		replace(ctx, n, manifest)
		_, _, err := n.train(ctx, "logs", "digits")
		Expect(err).To(MatchError(HavePrefix("digits-worker-0 has no pod")))
		logs := n.start(ctx, "logs", "digits", "-f")
		Eventually(ctx, logs.errOut).Should(gbytes.Say("Waiting: the pod of digits-worker-0"))
		release(ctx)
	})
})

// pausedJob is the manifest of a job that is created paused.
var pausedJob = withSpec("PyTorchTrainingJob", "digits", "runMode: {pause: {enabled: true}}, "+workers)
