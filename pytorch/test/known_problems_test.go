package test

import (
	"context"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// The tests of this file prove the promises of docs/contribute/known-problems.md that no other test of this package
// covers.

// podCreations is the gate for the controller's requests that create pods.
var podCreations gate

// gate holds requests back, so that a test can see which requests are in flight at the same time.
type gate struct{ held sync.Map } // maps the path of a request to a chan release

// release lets a held request continue.
type release func()

// hold holds back every request that creates a pod in a namespace. For each request, the channel receives a function
// that lets the request continue.
func (g *gate) hold(namespace string) <-chan release {
	arrivals := make(chan release)
	g.held.Store("/api/v1/namespaces/"+namespace+"/pods", arrivals)
	return arrivals
}

// wrap sends a client's requests through the gate.
func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		arrivals, held := g.held.Load(request.URL.Path)
		if request.Method != http.MethodPost || !held {
			return next.RoundTrip(request)
		}
		released := make(chan struct{})
		select {
		case arrivals.(chan release) <- func() { close(released) }:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		select {
		case <-released:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var _ = Describe("A job with many replicas", func() {
	It("creates its pods in parallel, in batches that double in size", func(ctx context.Context) {
		namespace := cluster.NewNamespace(ctx)
		creations := podCreations.hold(namespace)
		job := cluster.Create(ctx, namespace, integration.ReplicaSpecs("type: worker, replicas: 7"))
		for _, atOnce := range []int{1, 2, 4} {
			var batch []release
			for range atOnce {
				var next release
				Eventually(ctx, creations).Should(Receive(&next), "%d creations are in flight at the same time", atOnce)
				batch = append(batch, next)
			}
			for _, next := range batch {
				next()
			}
		}
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(7))
		Expect(cluster.Writes.In(namespace, "/services")).To(HaveLen(1), "all replicas share one Service")
	})

	It("recovers as one: when one of 128 replicas fails, all restart, which counts once", func(ctx context.Context) {
		const replicas = 128
		patient := func(actual any) AsyncAssertion {
			return Eventually(ctx, actual).WithTimeout(2 * time.Minute).WithPolling(200 * time.Millisecond)
		}
		began := time.Now()
		job := cluster.Create(ctx, cluster.NewNamespace(ctx),
			integration.ReplicaSpecs("type: worker, replicas: 128, restartPolicy: OnFailure"))
		patient(cluster.Pods(ctx, job)).Should(HaveLen(replicas))
		cluster.Run(ctx, job, cluster.PodNames(ctx, job)...)
		patient(cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		before := podUIDs(ctx, job)
		cluster.Exit(ctx, job, "job-worker-77", 1, "")
		patient(func() map[string]types.UID { return podUIDs(ctx, job) }).Should(And(
			HaveLen(
				replicas,
			),
			Satisfy(func(now map[string]types.UID) bool { return !sharesPod(before, now) }),
		), "every pod is replaced")
		cluster.Run(ctx, job, cluster.PodNames(ctx, job)...)
		patient(func() string { return cluster.Get(ctx, job).Status.Ready }).Should(Equal("128/128"))
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Tasks[0].RestartCount).To(Equal(int32(replicas)))

		// The controller batches status changes that only follow from changes of replicas. So the number of writes depends
		// on the time, and not on the number of replicas.
		intervals := int(time.Since(began)/integration.StatusInterval) + 1
		Expect(len(cluster.Writes.In(job.Namespace, "/status"))).To(BeNumerically("<=", intervals+6), "in %d intervals",
			intervals)
	})
})

// podUIDs returns the UIDs of the job's pods by name.
func podUIDs(ctx context.Context, job *v1beta1.PyTorchTrainingJob) map[string]types.UID {
	var list corev1.PodList
	Expect(cluster.Client.List(ctx, &list, client.InNamespace(job.Namespace))).To(Succeed())
	uids := map[string]types.UID{}
	for _, p := range list.Items {
		uids[p.Name] = p.UID
	}
	return uids
}

// sharesPod reports whether a pod is in both maps.
func sharesPod(before, now map[string]types.UID) bool {
	for name, uid := range before {
		if now[name] == uid {
			return true
		}
	}
	return false
}

// rejectDeletions creates an admission policy by which the API server rejects the deletion of pods in a namespace.
// The returned function deletes the policy.
func rejectDeletions(ctx context.Context, namespace string) (allow func()) {
	const reason = "pods in this namespace cannot be deleted"
	meta := metav1.ObjectMeta{Name: namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: reason}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	Expect(cluster.Client.Create(ctx, policy)).To(Succeed())
	Expect(cluster.Client.Create(ctx, binding)).To(Succeed())
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	Expect(cluster.Client.Create(ctx, probe)).To(Succeed())
	Eventually(
		ctx,
		func() error { return cluster.Client.Delete(ctx, probe, client.DryRunAll) },
	).Should(MatchError(ContainSubstring(reason)))
	return func() {
		Expect(cluster.Client.Delete(ctx, binding)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
	}
}

var _ = Describe("A job that has ended", func() {
	It("retries while the API server rejects the deletion of its pods, and keeps its result", func(ctx context.Context) {
		namespace := cluster.NewNamespace(ctx)
		allow := rejectDeletions(ctx, namespace)
		job := cluster.Create(ctx, namespace, twoWorkers("OnFailure", "activeDeadlineSeconds: 1"))
		Eventually(ctx, func() bool { return cluster.Get(ctx, job).Status.Decided() }).Should(BeTrue())
		decided := job.Status.DeepCopy()
		deletions := func() int { return len(cluster.Writes.In(namespace, "/pods/job-worker-")) }
		Eventually(ctx, deletions).Should(BeNumerically(">=", 3), "the controller retries without an event")
		Expect(cluster.PodNames(ctx, job)).To(HaveLen(2))
		Expect(cluster.Get(ctx, job).Status).To(Equal(*decided), "the job has not finished")

		allow()
		Eventually(ctx, cluster.Pods(ctx, job)).Should(BeEmpty())
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseFailed))
		for _, c := range decided.Conditions {
			if c.Type == batchv1beta1.ConditionFailureTarget {
				Expect(job.Status.Conditions).To(ContainElement(c))
			}
		}
	})

	It("does not run again when somebody deletes its pods and its Service", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, twoWorkers("Always", "cleanUpPolicy: None"))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 1, Running: 1}))
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseSucceeded))
		ended := cluster.Get(ctx, job).DeepCopy()
		created := len(cluster.Writes.In(job.Namespace, "/pods"))

		Expect(cluster.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(job.Namespace),
			client.GracePeriodSeconds(0))).To(Succeed())
		Expect(cluster.Client.Delete(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name},
		})).To(Succeed())
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 1, Deleted: 1}),
			"the controller has seen that the pods are gone")
		// When the controller has observed a later change, it has also handled the deletions.
		cluster.Edit(ctx, job, "spec: {runPolicy: {backoffLimit: 7}}")
		Eventually(ctx,
			func() bool { return cluster.Get(ctx, job).Status.ObservedGeneration == job.Generation }).Should(BeTrue())

		Expect(cluster.PodNames(ctx, job)).To(BeEmpty())
		Expect(cluster.Writes.In(job.Namespace, "/pods")).To(HaveLen(created))
		Expect(cluster.Writes.In(job.Namespace, "/services")).To(HaveLen(1))
		Expect(job.Status.Conditions).To(Equal(ended.Status.Conditions))
		Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseSucceeded))
	})
})

var _ = Describe("A job with the name of a job that was just deleted", func() {
	It("starts when the pods of the deleted job are gone, and adopts none of them", func(ctx context.Context) {
		former := cluster.Start(ctx, 2)
		old := []*corev1.Pod{cluster.Pod(ctx, former, "job-worker-0"), cluster.Pod(ctx, former, "job-worker-1")}
		for _, p := range old {
			Expect(cluster.ChangePod(ctx, p, func(p *corev1.Pod) { kubelet.Run(p, "node", time.Now()) })).To(Succeed())
		}
		// No garbage collector runs here, so the test deletes the objects that the job owned. The pods terminate gracefully.
		Expect(cluster.Client.Delete(ctx, former)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: former.Namespace, Name: former.Name},
		})).To(Succeed())
		for _, p := range old {
			Expect(cluster.Client.Delete(ctx, p)).To(Succeed())
		}

		job := cluster.Create(ctx, former.Namespace)
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonNameConflict))
		Expect(integration.Condition(job, batchv1beta1.ConditionInitialized).Message).To(ContainSubstring(
			"but one exists that belongs to PyTorchTrainingJob job (UID %s): rename the job", former.UID))
		for _, p := range old {
			Expect(cluster.Pod(ctx, job, p.Name).UID).To(Equal(p.UID))
			Expect(cluster.Client.Delete(ctx, p, client.GracePeriodSeconds(0))).To(Succeed())
		}

		for _, p := range old {
			Expect(metav1.IsControlledBy(cluster.Replacement(ctx, p), job)).To(BeTrue())
		}
		Eventually(ctx, func() metav1.ConditionStatus {
			return integration.Condition(cluster.Get(ctx, job), batchv1beta1.ConditionInitialized).Status
		}).Should(Equal(metav1.ConditionTrue))
		Expect(job.Status.Failures).To(BeEmpty())
		Expect(job.Status.BackoffCount).To(BeZero())
	})
})

var _ = Describe("The metrics", func() {
	It("count as many jobs of each phase as the API server has", func(ctx context.Context) {
		ended := cluster.Start(ctx, 2, twoWorkers("Never", ""))
		cluster.Exit(ctx, ended, "job-worker-0", 0, "")
		failed := cluster.Start(ctx, 2, twoWorkers("Never", ""))
		cluster.Exit(ctx, failed, "job-worker-0", 1, "")
		running := cluster.Start(ctx, 2)
		cluster.Run(ctx, running, "job-worker-0", "job-worker-1")
		Eventually(ctx, cluster.Phase(ctx, ended)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, cluster.Phase(ctx, failed)).Should(Equal(batchv1beta1.JobPhaseFailed))
		Eventually(ctx, cluster.Phase(ctx, running)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Eventually(ctx, func(g Gomega) {
			var list v1beta1.PyTorchTrainingJobList
			g.Expect(cluster.Client.List(ctx, &list)).To(Succeed())
			want := map[string]int{}
			for _, job := range list.Items {
				want[string(job.Status.Phase)]++
			}
			g.Expect(jobsByPhase(g)).To(Equal(want))
		}).Should(Succeed())
	})
})

// jobsByPhase returns the number of jobs of each phase, as Prometheus would read it. Phases without jobs are left out.
func jobsByPhase(g Gomega) map[string]int {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	jobs := map[string]int{}
	for _, family := range families {
		if family.GetName() != "tensorstack_jobs" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if n := int(metric.GetGauge().GetValue()); label.GetName() == "phase" && n > 0 {
					jobs[label.GetValue()] = n
				}
			}
		}
	}
	return jobs
}
