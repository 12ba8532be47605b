package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/report"
)

// quotas is a reader of a cluster that has at most one ResourceQuota, in the field only. Nil means that the cluster
// has none.
type quotas struct {
	client.Reader

	only      *corev1.ResourceQuota
	forbidden bool
}

func (q quotas) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if q.forbidden {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "resourcequotas"}, key.Name, errors.New("no right"))
	}
	if q.only == nil || q.only.Name != key.Name {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "resourcequotas"}, key.Name)
	}
	q.only.DeepCopyInto(into.(*corev1.ResourceQuota)) // nothing else is read
	return nil
}

// dryRuns is a client that only accepts dry runs of creations.
type dryRuns struct {
	client.Client

	// requests are the requests that an admission webhook sets for each container. Nil means that it changes nothing.
	requests corev1.ResourceList
	// answer is the error that the API server returns. Nil means success.
	answer error
}

func (d dryRuns) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	var asked client.CreateOptions
	if asked.ApplyOptions(options); len(asked.DryRun) == 0 {
		return errors.New("the pod would be created")
	}
	if pod, ok := object.(*corev1.Pod); ok && d.requests != nil {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				containers[i].Resources.Requests = d.requests
			}
		}
	}
	return d.answer
}

func TestAwaitRoom(t *testing.T) {
	t.Parallel()
	const exceeded = `creating pod job-worker-1: pods "job-worker-1" is forbidden: exceeded quota: few, requested: ` +
		`cpu=2, used: cpu=6, limited: cpu=8`
	const newer = `creating pod job-worker-1: pods "job-worker-1" is forbidden: exceeded quota: few, requested: ` +
		`cpu=2.5, used: cpu=6, limited: cpu=8`
	rejection := func(quota, cpu string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "job-worker-1", fmt.Errorf(
			"exceeded quota: %s, requested: cpu=%s, used: cpu=6, limited: cpu=8", quota, cpu))
	}
	const younger = "other jobs of the namespace wait for room in the ResourceQuota few"
	// list returns a ResourceList with an amount of CPU.
	list := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	limited := func(used string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Scopes: scopes},
			Status: corev1.ResourceQuotaStatus{Hard: list("8"), Used: list(used)},
		}
	}
	two := jobtest.Role("worker", 2)
	two.Template.Spec.Containers[0].Resources.Requests = list("2")
	for name, tc := range map[string]struct {
		quota *corev1.ResourceQuota
		// message is the message of the condition Initialized. Empty means that there is no such condition.
		message string
		// ahead is the number of CPUs that an older job needs. The older job waits for the same ResourceQuota. Empty means
		// that there is no such job.
		ahead string
		// alone reports whether the job can use each pod without the others.
		alone bool
		// reason is the reason of the condition Initialized. Empty means ReasonResourceQuotaExceeded.
		reason string
		// tried is the client that receives the dry runs. Before admission by the API server, each pod requests 2 CPUs, as
		// in its template.
		tried dryRuns
		// forbidden reports whether the controller cannot read ResourceQuotas.
		forbidden bool
		// want is the message of the refusal. Empty means that the job can create its pods.
		want string
	}{
		"a job that was not refused creates its pods": {quota: limited("8")},
		"a job waits until the quota has room for all its pods": {
			quota: limited("5"), message: exceeded, want: exceeded,
		},
		"a job creates its pods when there is room for all": {quota: limited("4"), message: exceeded},
		"a job creates its pods when the quota is gone":     {message: exceeded},
		"a job that can use each pod creates what fits":     {quota: limited("7"), message: exceeded, alone: true},
		"what admission makes of a pod counts": {
			quota: limited("4"), message: exceeded, tried: dryRuns{requests: list("3")}, want: exceeded,
		},
		"what admission makes of a pod counts if it is less": {
			quota: limited("6"), message: exceeded, tried: dryRuns{requests: list("1")},
		},
		"what the API server rejects counts": {
			quota: limited("4"), message: exceeded, tried: dryRuns{answer: rejection("few", "2.5")}, want: newer,
		},
		"the message stays if the pod still requests the same": {
			quota: limited("7"), message: exceeded, tried: dryRuns{answer: rejection("few", "2")}, want: exceeded,
		},
		"the last rejection counts if the API server cannot try the pod": {
			quota: limited("5"), message: exceeded, tried: dryRuns{answer: errors.New("no dry run")}, want: exceeded,
		},
		"the API server decides if ResourceQuotas cannot be read": {quota: limited("7"), message: exceeded, forbidden: true},
		"a job with another problem does not wait, and nobody waits for it": {
			quota: limited("8"), message: "violates PodSecurity", reason: batchv1beta1.ReasonCreateFailed, ahead: "4",
		},
		"a new job waits behind an older one":                           {quota: limited("4"), ahead: "4", want: younger},
		"a new job goes beside an older one":                            {quota: limited("0"), ahead: "4"},
		"a new job does not wait behind an older one that does not fit": {quota: limited("4"), ahead: "6"},
		"a job that waited behind an older one waits on": {
			quota: limited("4"), message: younger, ahead: "4", want: younger,
		},
		"a job that waited behind an older one goes": {quota: limited("4"), message: younger},
		"a new job does not wait for a quota with scopes": {
			quota: limited("8", corev1.ResourceQuotaScopeNotTerminating), ahead: "4",
		},
		"a job that a quota with scopes has refused waits": {
			quota: limited("5", corev1.ResourceQuotaScopeNotTerminating), message: exceeded, want: exceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jobtest.NewJob(two).Sees()
			if tc.alone {
				d.Together = 0
			}
			r := &Reconciler[*testJob]{
				cluster: Cluster{APIReader: quotas{only: tc.quota, forbidden: tc.forbidden}, Client: tc.tried},
				gvk:     testKind,
			}
			memory := &Memory{}
			r.options.Clock, r.options.Memory = testingclock.NewFakePassiveClock(now), memory
			if tc.ahead != "" {
				memory.waiting.Ask("few", types.NamespacedName{Namespace: "ns", Name: "old"}, now.Add(-time.Hour),
					list(tc.ahead), list("0"), now)
			}
			status := batchv1beta1.JobStatus{}
			if tc.message != "" {
				status.Conditions = []metav1.Condition{{
					Type: batchv1beta1.ConditionInitialized, Status: metav1.ConditionFalse,
					Reason: cmp.Or(tc.reason, batchv1beta1.ReasonResourceQuotaExceeded), Message: tc.message,
				}}
			}
			job := &testJob{corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "job", UID: "job-uid", CreationTimestamp: metav1.NewTime(now),
			}}, status}
			err := r.awaitRoom(t.Context(), job, d)
			got := ""
			if refused, ok := errors.AsType[*report.RefusedError](err); ok {
				diff(t, "reason", batchv1beta1.ReasonResourceQuotaExceeded, refused.Reason)
				got = refused.Error()
			} else if err != nil {
				t.Fatal(err)
			}
			diff(t, "refusal", tc.want, got)
		})
	}
}

func TestOnlyTheRefusalByAQuotaHasItsReason(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`pods "a" is forbidden: exceeded quota: few, requested: pods=1, used: pods=6, limited: pods=6`: batchv1beta1.ReasonResourceQuotaExceeded,
		`pods "a" is forbidden: violates PodSecurity "restricted:latest"`:                              batchv1beta1.ReasonCreateFailed,
	} {
		refused := &report.RefusedError{Reason: batchv1beta1.ReasonCreateFailed, Err: errors.New(message)}
		if err := ofQuota(refused); !errors.Is(err, refused) || refused.Reason != want {
			t.Errorf("the reason of %q is %s, want %s", message, refused.Reason, want)
		}
	}
	if err := ofQuota(nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}

// A job that needs its pods together sometimes has no pods to create, for example while its earlier pods terminate.
func TestAJobWithoutPodsToCreateKeepsItsPlaceOnlyWhileItWaits(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "ns", Name: "job"}
	ending := batchv1beta1.JobStatus{Conditions: []metav1.Condition{{
		Type: batchv1beta1.ConditionFailureTarget, Status: metav1.ConditionTrue, Reason: batchv1beta1.ReasonDeadlineExceeded,
	}}}
	for name, tc := range map[string]struct {
		reason  string
		decided batchv1beta1.JobStatus
		want    []string
	}{
		"a job that waits for its ResourceQuota": {reason: batchv1beta1.ReasonResourceQuotaExceeded, want: []string{"few"}},
		"a job that does not wait any longer":    {reason: batchv1beta1.ReasonAccepted, want: []string{}},
		"a job that ends while it waits": {
			reason: batchv1beta1.ReasonResourceQuotaExceeded, decided: ending, want: []string{},
		},
	} {
		memory := &Memory{}
		r := &Reconciler[*testJob]{gvk: testKind}
		r.options.Memory = memory
		memory.waiting.Ask("few", key, now, nil, nil, now)
		job := &testJob{corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job"}}, batchv1beta1.JobStatus{
			Conditions: []metav1.Condition{{Type: batchv1beta1.ConditionInitialized, Reason: tc.reason}},
		}}
		d := plan.Decision{
			Facts:     decide.Facts{Changes: decide.Changes{Together: 4}},
			Rendering: status.Rendering{Status: tc.decided},
		}
		if err := r.awaitRoom(t.Context(), job, d); err != nil {
			t.Errorf("%s is rejected: %v", name, err)
		}
		diff(t, name+": the quotas that others wait for", tc.want,
			memory.waiting.Quotas(types.NamespacedName{Namespace: "ns", Name: "other"}))
	}
}
