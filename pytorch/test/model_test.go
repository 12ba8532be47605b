package test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/kit/model"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// apiServer is the real API server or the model of it, with what a test asks of it and what it answered.
type apiServer struct {
	client.Client
	namespace string
	// change lets a kubelet change a pod.
	change func(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod))
	// answers are what there was to see, line by line.
	answers []string
}

func (s *apiServer) note(format string, args ...any) {
	s.answers = append(s.answers, fmt.Sprintf(format, args...))
}

// tell notes how a request ended.
func (s *apiServer) tell(request string, err error) {
	s.note("%s: %s", request, apierrors.ReasonForError(err))
}

func (s *apiServer) createPod(ctx context.Context) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: "pod", Labels: map[string]string{batchv1beta1.LabelJobKind: "TestJob"},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	s.tell("create", s.Create(ctx, pod))
	return s.see(ctx, pod)
}

// see reads a pod and notes what matters of it.
func (s *apiServer) see(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	before := pod.ResourceVersion
	seen := &corev1.Pod{}
	if err := s.Get(ctx, client.ObjectKeyFromObject(pod), seen); err != nil {
		s.tell("pod", err)
		return pod
	}
	grace := ""
	if seen.DeletionTimestamp != nil {
		grace = fmt.Sprintf(", deleted with %d s of grace, which are over in %.0f s", *seen.DeletionGracePeriodSeconds,
			time.Until(seen.DeletionTimestamp.Time).Round(10*time.Second).Seconds())
	}
	s.note("pod: %s, has a UID: %t, changed: %t%s", seen.Status.Phase, seen.UID != "", seen.ResourceVersion != before,
		grace)
	return seen
}

// run binds the pod to a node, where it runs.
func (s *apiServer) run(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	s.change(ctx, pod, func(p *corev1.Pod) { kubelet.Run(p, "node", time.Now()) })
	return s.see(ctx, pod)
}

func (s *apiServer) createJob(ctx context.Context) *v1beta1.PyTorchTrainingJob {
	job := &v1beta1.PyTorchTrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "job"},
		Spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{{
			Type: "worker", Replicas: new(int32(0)), // so that the controller leaves it alone
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}}},
	}
	s.tell("create", s.Create(ctx, job))
	return job
}

// patch changes the status of a job from the version that is given.
func (s *apiServer) patch(ctx context.Context, job *v1beta1.PyTorchTrainingJob, change func(*batchv1beta1.JobStatus)) {
	base := job.DeepCopy()
	change(job.JobStatus())
	err := s.Status().Patch(ctx, job, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	s.tell("patch", err)
	if err == nil {
		s.note("job: generation %d, changed: %t, backoffCount %d, %d failures, selector %q", job.Generation,
			job.ResourceVersion != base.ResourceVersion, job.Status.BackoffCount, len(job.Status.Failures), job.Status.Selector)
	}
}

func realAPIServer(ctx context.Context) *apiServer {
	return &apiServer{Client: cluster.Client, namespace: cluster.NewNamespace(ctx), change: func(ctx context.Context,
		pod *corev1.Pod, change func(*corev1.Pod),
	) {
		Expect(cluster.ChangePod(ctx, pod, change)).To(Succeed())
	}}
}

func modelAPIServer() *apiServer {
	modelled := model.NewCluster(cluster.Client.Scheme(), clock.RealClock{})
	return &apiServer{Client: modelled.Client(), namespace: "ns", change: func(_ context.Context, pod *corev1.Pod,
		change func(*corev1.Pod),
	) {
		modelled.Change(pod, change)
	}}
}

var _ = DescribeTable("The model of the API server, on which the crash tests run, answers as the real one",
	func(ctx context.Context, ask func(context.Context, *apiServer), want string) {
		server, modelled := realAPIServer(ctx), modelAPIServer()
		ask(ctx, server)
		ask(ctx, modelled)
		Expect(modelled.answers).To(Equal(server.answers))
		Expect(strings.Join(server.answers, "\n")).To(ContainSubstring(want))
	},
	Entry("to a pod that is created twice", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		pod.ResourceVersion = ""
		s.tell("create", s.Create(ctx, pod))
	}, "create: AlreadyExists"),
	Entry("to the deletion of a pod without a node", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		s.tell("delete", s.Delete(ctx, pod))
		s.see(ctx, pod)
	}, "pod: NotFound"),
	Entry("to the deletion of a pod that runs", func(ctx context.Context, s *apiServer) {
		pod := s.run(ctx, s.createPod(ctx))
		s.tell("delete", s.Delete(ctx, pod))
		pod = s.see(ctx, pod)
		s.tell("delete", s.Delete(ctx, pod))
		pod = s.see(ctx, pod)
		s.tell("delete by force", s.Delete(ctx, pod, client.GracePeriodSeconds(0)))
		s.see(ctx, pod)
	}, "deleted with 30 s of grace, which are over in 30 s"),
	Entry("to the deletion of a pod that has ended", func(ctx context.Context, s *apiServer) {
		pod := s.run(ctx, s.createPod(ctx))
		s.change(ctx, pod, func(p *corev1.Pod) { kubelet.Exit(p, 1, "", time.Now()) })
		s.tell("delete", s.Delete(ctx, pod))
		s.see(ctx, pod)
	}, "pod: NotFound"),
	Entry("to the deletion of a pod of another UID", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		s.tell("delete", s.Delete(ctx, pod, client.Preconditions{UID: new(types.UID("another"))}))
		s.tell("delete", s.Delete(ctx, s.see(ctx, pod), client.Preconditions{UID: &pod.UID}))
	}, "delete: Conflict"),
	Entry("to the deletion of a pod of another version", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		s.run(ctx, pod)
		s.tell("delete", s.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}))
		s.see(ctx, pod)
	}, "delete: Conflict"),
	Entry("to the deletion of no pod", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		pod.Name = "another"
		s.tell("delete", s.Delete(ctx, pod))
	}, "delete: NotFound"),
	Entry("to a patch of the status of a job", func(ctx context.Context, s *apiServer) {
		job := s.createJob(ctx)
		if s.namespace != "ns" { // the controller writes to the real job once
			Eventually(ctx, func() string { return cluster.Get(ctx, job).Status.Reason }).ShouldNot(BeEmpty())
		}
		s.patch(ctx, job, func(status *batchv1beta1.JobStatus) {
			status.BackoffCount = 3
			status.Selector = ""
			failure := batchv1beta1.ReplicaFailure{Replica: "job-worker-0", Reason: batchv1beta1.ReasonError, Time: metav1.Now()}
			status.Failures = []batchv1beta1.ReplicaFailure{failure, failure}
		})
		old := job.DeepCopy()
		s.patch(ctx, job, func(*batchv1beta1.JobStatus) {})
		s.patch(ctx, job, func(status *batchv1beta1.JobStatus) {
			status.BackoffCount = 0
			status.Failures = nil
		})
		s.patch(ctx, old, func(status *batchv1beta1.JobStatus) { status.BackoffCount = 9 })
	}, "patch: Conflict"),
)
