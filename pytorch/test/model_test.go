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

// apiServer is the real API server or its model. It records the answers to the requests of a test.
type apiServer struct {
	client.Client
	namespace string
	// change changes a pod as the kubelet would.
	change func(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod))
	// answers are the recorded answers, one per line.
	answers []string
}

func (s *apiServer) note(format string, args ...any) {
	s.answers = append(s.answers, fmt.Sprintf(format, args...))
}

// tell records the result of a request.
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

// see reads a pod and records the fields that matter to a controller.
func (s *apiServer) see(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	before := pod.ResourceVersion
	seen := &corev1.Pod{}
	if err := s.Get(ctx, client.ObjectKeyFromObject(pod), seen); err != nil {
		s.tell("pod", err)
		return pod
	}
	grace := ""
	if seen.DeletionTimestamp != nil {
		grace = fmt.Sprintf(", deleted with %d s of grace, which end in %.0f s", *seen.DeletionGracePeriodSeconds,
			time.Until(seen.DeletionTimestamp.Time).Round(10*time.Second).Seconds())
	}
	s.note("pod: %s, has a UID: %t, changed: %t%s", seen.Status.Phase, seen.UID != "", seen.ResourceVersion != before,
		grace)
	return seen
}

// run binds the pod to a node and makes it run.
func (s *apiServer) run(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	s.change(ctx, pod, func(p *corev1.Pod) { kubelet.Run(p, "node", time.Now()) })
	return s.see(ctx, pod)
}

func (s *apiServer) createJob(ctx context.Context) *v1beta1.PyTorchTrainingJob {
	job := &v1beta1.PyTorchTrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "job"},
		Spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{{
			Type: "worker", Replicas: new(int32(0)), // so that the controller creates no pod
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}}},
	}
	s.tell("create", s.Create(ctx, job))
	return job
}

// patch patches the status of a job. The patch fails if the job has changed since it was read.
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

var _ = DescribeTable("The model of the API server, which the crash tests use, answers like the real one",
	func(ctx context.Context, ask func(context.Context, *apiServer), want string) {
		server, modelled := realAPIServer(ctx), modelAPIServer()
		ask(ctx, server)
		ask(ctx, modelled)
		Expect(modelled.answers).To(Equal(server.answers))
		Expect(strings.Join(server.answers, "\n")).To(ContainSubstring(want))
	},
	Entry("when a pod is created twice", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		pod.ResourceVersion = ""
		s.tell("create", s.Create(ctx, pod))
	}, "create: AlreadyExists"),
	Entry("when a pod without a node is deleted", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		s.tell("delete", s.Delete(ctx, pod))
		s.see(ctx, pod)
	}, "pod: NotFound"),
	Entry("when a running pod is deleted", func(ctx context.Context, s *apiServer) {
		pod := s.run(ctx, s.createPod(ctx))
		s.tell("delete", s.Delete(ctx, pod))
		pod = s.see(ctx, pod)
		s.tell("delete", s.Delete(ctx, pod))
		pod = s.see(ctx, pod)
		s.tell("delete by force", s.Delete(ctx, pod, client.GracePeriodSeconds(0)))
		s.see(ctx, pod)
	}, "deleted with 30 s of grace, which end in 30 s"),
	Entry("when a pod that has ended is deleted", func(ctx context.Context, s *apiServer) {
		pod := s.run(ctx, s.createPod(ctx))
		s.change(ctx, pod, func(p *corev1.Pod) { kubelet.Exit(p, 1, "", time.Now()) })
		s.tell("delete", s.Delete(ctx, pod))
		s.see(ctx, pod)
	}, "pod: NotFound"),
	Entry("when a pod is deleted with the precondition of another UID", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		s.tell("delete", s.Delete(ctx, pod, client.Preconditions{UID: new(types.UID("another"))}))
		s.tell("delete", s.Delete(ctx, s.see(ctx, pod), client.Preconditions{UID: &pod.UID}))
	}, "delete: Conflict"),
	Entry("when a pod is deleted with the precondition of an old version", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		s.run(ctx, pod)
		s.tell("delete", s.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}))
		s.see(ctx, pod)
	}, "delete: Conflict"),
	Entry("when a pod that does not exist is deleted", func(ctx context.Context, s *apiServer) {
		pod := s.createPod(ctx)
		pod.Name = "another"
		s.tell("delete", s.Delete(ctx, pod))
	}, "delete: NotFound"),
	Entry("when the status of a job is patched", func(ctx context.Context, s *apiServer) {
		job := s.createJob(ctx)
		if s.namespace != "ns" { // wait until the controller has written the status of the real job
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
