package controller

import (
	"context"
	"errors"
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
	"tensorstack.dev/jobs/common/report"
)

// quotas is a reader that has only one ResourceQuota. Nil means none.
type quotas struct {
	client.Reader

	only *corev1.ResourceQuota
}

func (q quotas) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if q.only == nil || q.only.Name != key.Name {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "resourcequotas"}, key.Name)
	}
	q.only.DeepCopyInto(into.(*corev1.ResourceQuota)) //nolint:forcetypeassert // nothing else is read
	return nil
}

func TestAwaitRoom(t *testing.T) {
	t.Parallel()
	const exceeded = `creating pod job-worker-1: pods "job-worker-1" is forbidden: exceeded quota: few, requested: ` +
		`cpu=2, used: cpu=6, limited: cpu=8`
	const younger = "older jobs of the namespace wait for room in the ResourceQuota few"
	// list returns an amount of CPU, as a list.
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
	unset := jobtest.Role("worker", 2)
	for name, tc := range map[string]struct {
		quota *corev1.ResourceQuota
		// message is the message of the condition Initialized about a ResourceQuota. Empty means that there is none.
		message string
		// ahead is how many CPUs an older job needs that waits for the ResourceQuota. Empty means that there is none.
		ahead string
		// alone reports whether the job can use each pod alone, and unset whether its pods have no requests.
		alone, unset bool
		// want is the message of the refusal. Empty means that the pods are created.
		want string
	}{
		"a job that was not refused creates its pods": {quota: limited("8")},
		"a job waits until the quota has room for all its pods": {
			quota: limited("5"), message: exceeded, want: exceeded,
		},
		"a job creates its pods when there is room for all": {quota: limited("4"), message: exceeded},
		"a job creates its pods when the quota is gone":     {message: exceeded},
		"a job that can use each pod creates what fits":     {quota: limited("7"), message: exceeded, alone: true},
		"what admission adds to the refused pod counts": {
			quota: limited("5"), message: exceeded, unset: true, want: exceeded,
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
			role := two
			if tc.unset {
				role = unset
			}
			b := jobtest.NewJob(role)
			d := b.Sees()
			if tc.alone {
				d.Together = 0
			}
			r := &Reconciler[*testJob]{apiReader: quotas{only: tc.quota}, gvk: testKind}
			r.options.Clock = testingclock.NewFakePassiveClock(now)
			if tc.ahead != "" {
				r.waiting.Ask(types.NamespacedName{Namespace: "ns", Name: "few"},
					types.NamespacedName{Namespace: "ns", Name: "old"}, now.Add(-time.Hour), list(tc.ahead), list("0"), now)
			}
			status := batchv1beta1.JobStatus{}
			if tc.message != "" {
				status.Conditions = []metav1.Condition{{
					Type: batchv1beta1.ConditionInitialized, Status: metav1.ConditionFalse,
					Reason: batchv1beta1.ReasonResourceQuotaExceeded, Message: tc.message,
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
