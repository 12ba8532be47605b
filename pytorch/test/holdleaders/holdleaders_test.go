// Package holdleaders runs the pytorch-controller with --hold-leaders against a real API server. The controller has the
// permissions that are shipped, and the ValidatingAdmissionPolicy that restricts them.
package holdleaders

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: job}
spec:
  replicaSpecs:
  - {type: worker, replicas: 2, template: {spec: {containers: [{name: pytorch, image: training}]}}}
`

const (
	held  = batchv1beta1.FinalizerLeader
	other = "example.org/backup"

	// onFinalizers is a part of the policy's message about a change of the finalizers. onOthers is a part of its message
	// about any other change.
	onFinalizers = "metadata.finalizers:"
	onOthers     = "can change only the finalizers of a pod"
)

var cluster = &integration.Cluster[*v1beta1.PyTorchTrainingJob]{
	Controller: pytorch.Controller(), Namespace: "t9k-pytorch", Valid: valid,
	ConfigFolder: "../../config", HoldLeaders: true,
}

func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }

// finalizers returns a function that returns the finalizers of a pod, or nil if the pod is gone.
func finalizers(ctx context.Context, pod *corev1.Pod) func() ([]string, error) {
	return func() ([]string, error) {
		live := &corev1.Pod{}
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), live)
		if err == nil && live.UID != pod.UID {
			return nil, nil
		}
		return live.Finalizers, client.IgnoreNotFound(err)
	}
}

// isGone returns a function that reports whether a pod no longer exists.
func isGone(ctx context.Context, pod *corev1.Pod) func() bool {
	return func() bool {
		live := &corev1.Pod{}
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), live)
		return apierrors.IsNotFound(err) || err == nil && live.UID != pod.UID
	}
}

// change patches a pod as a user who has all permissions.
func change(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod)) {
	GinkgoHelper()
	changed := pod.DeepCopy()
	change(changed)
	Expect(cluster.Client.Patch(ctx, changed, client.MergeFrom(pod))).To(Succeed())
}

var _ = Describe("The pod of a leader under a controller with --hold-leaders", func() {
	It("is held until the status records the end of the job, and keeps other finalizers", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		leader, peer := cluster.Pod(ctx, job, "job-worker-0"), cluster.Pod(ctx, job, "job-worker-1")
		Expect(leader.Finalizers).To(Equal([]string{held}))
		Expect(peer.Finalizers).To(BeEmpty())
		change(ctx, leader, func(pod *corev1.Pod) { pod.Finalizers = []string{other, held} })
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(finalizers(ctx, leader)()).To(Equal([]string{other, held}))

		cluster.Exit(ctx, job, "job-worker-1", 0, "")
		cluster.Exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, finalizers(ctx, leader)).Should(Equal([]string{other}))
		Expect(cluster.Get(ctx, job).JobStatus().Phase).To(Equal(batchv1beta1.JobPhaseSucceeded))
		Expect(cluster.Writes.In(job.Namespace, "/pods/job-worker-0")).To(HaveLen(1), "the release costs one write")
	})

	It("is deleted if the job is paused", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		leader := cluster.Pod(ctx, job, "job-worker-0")
		cluster.Edit(ctx, job, `{spec: {runMode: {pause: {enabled: true}}}}`)
		Eventually(ctx, isGone(ctx, leader)).Should(BeTrue())
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
	})

	It("is recreated if somebody deletes it by force before all replicas run", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		leader := cluster.Pod(ctx, job, "job-worker-0")
		Expect(cluster.Client.Delete(ctx, leader, client.GracePeriodSeconds(0))).To(Succeed())
		Expect(cluster.Replacement(ctx, leader).Finalizers).To(Equal([]string{held}))
	})

	It("is released if its job is gone", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		leader := cluster.Pod(ctx, job, "job-worker-0")
		Expect(cluster.Client.Delete(ctx, job)).To(Succeed()) // no garbage collector runs here, so the pods stay
		Eventually(ctx, finalizers(ctx, leader)).Should(BeEmpty())
		Expect(isGone(ctx, leader)()).To(BeFalse())
	})

	It("is released if its job is deleted with the propagation policy Orphan", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		leader := cluster.Pod(ctx, job, "job-worker-0")
		Expect(cluster.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, finalizers(ctx, leader)).Should(BeEmpty())
		Expect(isGone(ctx, leader)()).To(BeFalse())
	})

	It("is recreated if somebody removes its label with the kind of the job", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		leader := cluster.Pod(ctx, job, "job-worker-0")
		change(ctx, leader, func(pod *corev1.Pod) { delete(pod.Labels, batchv1beta1.LabelJobKind) })
		Expect(cluster.Replacement(ctx, leader).Finalizers).To(Equal([]string{held}))
	})

	It("is released if no job controls it", func(ctx context.Context) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: cluster.NewNamespace(ctx), Name: "stray", Finalizers: []string{held},
				Labels: map[string]string{
					batchv1beta1.LabelJobKind: "PyTorchTrainingJob", batchv1beta1.LabelJobName: "gone",
				},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "training"}}},
		}
		Expect(cluster.Client.Create(ctx, pod)).To(Succeed())
		Eventually(ctx, finalizers(ctx, pod)).Should(BeEmpty())
	})
})

var _ = Describe("The policy for the pods of a job controller", Ordered, func() {
	var controller client.Client
	var namespace string

	BeforeAll(func(ctx context.Context) {
		var err error
		controller, err = client.New(cluster.ControlPlane.Controller(), client.Options{})
		Expect(err).NotTo(HaveOccurred())
		namespace = cluster.NewNamespace(ctx)
		// The API server enforces a new policy only after a moment, so wait until it rejects a change.
		pod := newPod(ctx, namespace)
		Eventually(ctx, func() error { return patch(ctx, controller, pod, labelled, client.DryRunAll) }).
			Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
	})

	It("lets the controller remove the leader finalizer, also if the pod has other finalizers", func(ctx context.Context) {
		for _, finalizers := range [][]string{{held}, {other, held}, {held, other}} {
			pod := newPod(ctx, namespace, finalizers...)
			Expect(patch(ctx, controller, pod, released)).To(Succeed())
		}
	})

	DescribeTable("does not let the controller", func(ctx context.Context, change func(*corev1.Pod), why string) {
		pod := newPod(ctx, namespace, other, held)
		both := func(pod *corev1.Pod) { released(pod); change(pod) }
		for _, change := range []func(*corev1.Pod){change, both} {
			Expect(patch(ctx, controller, pod, change)).To(MatchError(ContainSubstring(why)))
		}
		Expect(patch(ctx, cluster.Client, pod, change)).To(Succeed(), "other users can do this")
	},
		Entry("add a finalizer", func(pod *corev1.Pod) {
			pod.Finalizers = append(pod.Finalizers, "example.org/new")
		}, onFinalizers),
		Entry("remove another finalizer", func(pod *corev1.Pod) {
			pod.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == other })
		}, onFinalizers),
		Entry("label a pod", labelled, onOthers),
		Entry("remove a label of a pod", func(pod *corev1.Pod) { delete(pod.Labels, "app") }, onOthers),
		Entry("annotate a pod", func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{"note": "mine"}
		}, onOthers),
		Entry("add an owner reference to a pod", func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "uid"}}
		}, onOthers),
		Entry("replace the image of a pod", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other" }, onOthers),
		Entry("set a deadline for a pod", func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(1)) }, onOthers),
	)
})

// newPod creates a pod that belongs to no job.
func newPod(ctx context.Context, namespace string, finalizers ...string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, GenerateName: "pod-", Labels: map[string]string{"app": "mine"}, Finalizers: finalizers,
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "training"}}},
	}
	Expect(cluster.Client.Create(ctx, pod)).To(Succeed())
	return pod
}

// patch patches a pod with the permissions of the given client.
func patch(
	ctx context.Context, as client.Client, pod *corev1.Pod, change func(*corev1.Pod), options ...client.PatchOption,
) error {
	changed := pod.DeepCopy()
	change(changed)
	return as.Patch(ctx, changed, client.MergeFrom(pod), options...)
}

func labelled(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "other"} }

func released(pod *corev1.Pod) {
	pod.Finalizers = slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == held })
}
