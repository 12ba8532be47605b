package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

var _ = Describe("The shell completion of kubectl train", func() {
	It("lists the jobs with their kinds and phases", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.create(ctx, plain("TensorFlowTrainingJob", "digits"))
		n.create(ctx, plain("DeepSpeedJob", "words"))
		Eventually(ctx, n.phase(ctx, "words")).Should(Equal("Pending"))
		queue := &schedulerv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: string(n)}}
		Expect(api.Create(ctx, queue)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(api.Delete(ctx, queue)).To(Succeed()) })
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys", Namespace: string(n)}}
		Expect(api.Create(ctx, secret)).To(Succeed())
		complete := func(args ...string) string {
			GinkgoHelper()
			out, _, err := n.train(ctx, append([]string{"__complete"}, args...)...)
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		for _, verb := range []string{"logs", "pause", "resume", "scale", "delete", "debug", "board", "watch", "why"} {
			Expect(complete(verb, "w")).To(Equal("words\tDeepSpeedJob Pending\n:4\n"), verb)
		}
		Expect(complete("logs", "")).To(MatchRegexp(
			"^words\tDeepSpeedJob Pending\nptjob/digits\tPyTorch.*\ntfjob/digits\t.*\n:4\n$"))
		Expect(complete("logs", "tfjob/")).To(MatchRegexp("^tfjob/digits\tTensorFlowTrainingJob .*\n:4\n$"))
		Expect(complete("logs", "words", "")).To(Equal(":4\n"))
		Expect(complete("logs", "words", "--replica", "")).To(Equal("worker-0\nworker-1\n:4\n"))
		Expect(complete("run", "--queue", string(n))).To(Equal(string(n) + "\n:4\n"))
		Expect(complete("run", "--env-from", "k")).To(Equal("keys\n:4\n"))
		Expect(complete("logs", "words", "--rank", "")).To(Equal(":4\n"), "a number is no file")
		Expect(complete("logs", "--kubeconfig", "")).To(Equal(":0\n"), "the shell completes files")
		Expect(complete("logs", "--namespace", string(n)[:len(n)-1])).To(ContainSubstring(string(n) + "\n"))
	})
})
