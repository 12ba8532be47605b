package plan_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

func TestInvalidTemplateHoldsCreations(t *testing.T) {
	t.Parallel()
	const refused = `the template of type "worker" has no container`
	j := job(role("worker", 2)).Refusing(refused)
	d := j.Sees()
	diff(t, "decision", summary{
		Phase: batchv1beta1.JobPhasePending, Reason: batchv1beta1.ReasonInvalidTemplate,
	}, summarize(d))
	diff(t, "Initialized", condition{metav1.ConditionFalse, batchv1beta1.ReasonInvalidTemplate, refused},
		conditionOf(d, batchv1beta1.ConditionInitialized))

	t.Run("replicas keep running after their template became invalid", func(t *testing.T) {
		t.Parallel()
		d := j.Sees(pod("job-worker-0", running))
		diff(t, "deletions", []string(nil), names(d.Deletes))
		diff(t, "reason", batchv1beta1.ReasonInvalidTemplate, d.Status.Reason)
	})
	t.Run("pods are created after the template is fixed", func(t *testing.T) {
		t.Parallel()
		fixed := job(role("worker", 2))
		fixed.Status = d.Status
		d := fixed.Sees()
		diff(t, "creations", []string{created("job-worker-0", "0"), created("job-worker-1", "0")}, summarize(d).Creates)
		diff(t, "Initialized", batchv1beta1.ReasonAccepted, conditionOf(d, batchv1beta1.ConditionInitialized).Reason)
	})
}

// The condition Initialized shows a rejection by the API server until a retry succeeds.
func TestRejectionStaysUntilTheCreationSucceeds(t *testing.T) {
	t.Parallel()
	both := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for _, reason := range []string{
		batchv1beta1.ReasonNameConflict, batchv1beta1.ReasonCreateFailed, batchv1beta1.ReasonAdmissionChangedPod,
	} {
		refused := func() *jobBuilder {
			j := job(role("worker", 2)).Saw(time.Minute)
			meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{
				Type: batchv1beta1.ConditionInitialized, Status: metav1.ConditionFalse, Reason: reason, Message: "refused",
				ObservedGeneration: 1, LastTransitionTime: ago(time.Minute),
			})
			return j
		}
		for name, tc := range map[string]struct {
			pods       []*corev1.Pod
			noService  bool
			noPolicy   bool
			want       string
			wantReason string
		}{
			"stays while a pod is missing": {pods: both[:1], want: reason, wantReason: reason},
			"stays while a pod has no attempt": {
				pods: []*corev1.Pod{both[0], pod("job-worker-1", withoutAttempt)}, want: reason, wantReason: reason,
			},
			"stays while the Service is missing":       {pods: both, noService: true, want: reason, wantReason: reason},
			"stays while the NetworkPolicy is missing": {pods: both, noPolicy: true, want: reason, wantReason: reason},
			"ends when every object exists": {
				pods: both, want: batchv1beta1.ReasonAccepted, wantReason: batchv1beta1.ReasonReplicasRunning,
			},
		} {
			t.Run(reason+" "+name, func(t *testing.T) {
				t.Parallel()
				seen := seeing(tc.pods...)
				seen.HasService, seen.NeedsNetworkPolicy = !tc.noService, tc.noPolicy
				j := refused()
				d := plan.Decide(j.Job, seen, now)
				diff(t, "Initialized", tc.want, conditionOf(d, batchv1beta1.ConditionInitialized).Reason)
				diff(t, "reason", tc.wantReason, d.Status.Reason)
				if tc.want == reason {
					diff(t, "the condition", meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionInitialized),
						meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionInitialized))
				}
			})
		}
	}
}

// kubectl get shows the message of the condition Running. So if the job waits, this message reports that the API
// server rejects an object.
func TestARejectionIsTheMessageOfAJobThatWaits(t *testing.T) {
	t.Parallel()
	refused := &report.RefusedError{Reason: batchv1beta1.ReasonCreateFailed, Err: errors.New("exceeded quota: few")}
	want := condition{metav1.ConditionFalse, batchv1beta1.ReasonCreateFailed, "exceeded quota: few"}
	j := job(role("worker", 2)).Saw(time.Minute)
	one := seeing(pod("job-worker-0", running))

	d := plan.Decide(j.Job, one, now)
	if !status.Refuse(&d.Status, refused, 1, now) {
		t.Error("the first rejection changes nothing")
	}
	diff(t, "Running", want, conditionOf(d, batchv1beta1.ConditionRunning))
	diff(t, "Initialized", want, conditionOf(d, batchv1beta1.ConditionInitialized))
	if status.Refuse(&d.Status, refused, 1, now.Add(time.Minute)) {
		t.Error("the same rejection changes the status again")
	}

	j.Status = d.Status
	next := plan.Decide(j.Job, one, now)
	diff(t, "the status of the next reconcile", d.Status, next.Status)

	j.Status = next.Status
	running := plan.Decide(j.Job, seeing(pod("job-worker-0", running), pod("job-worker-1", running)), now)
	diff(t, "Running when the pod exists",
		condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"},
		conditionOf(running, batchv1beta1.ConditionRunning))
}

func TestARejectionChangesTheStatusIfItChangesACondition(t *testing.T) {
	t.Parallel()
	refused := &report.RefusedError{Reason: batchv1beta1.ReasonCreateFailed, Err: errors.New("exceeded quota: few")}
	want := condition{metav1.ConditionFalse, batchv1beta1.ReasonCreateFailed, "exceeded quota: few"}
	// without returns a job that waits. The API server has rejected one of its objects, but the given condition does not
	// show that.
	without := func(conditionType string) *jobBuilder {
		j := job(role("worker", 2)).Saw(time.Minute)
		before := *meta.FindStatusCondition(j.Status.Conditions, conditionType)
		status.Refuse(&j.Status, refused, 1, now)
		meta.SetStatusCondition(&j.Status.Conditions, before)
		return j
	}
	isRunning := condition{metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning, "all 2 replicas run or have ended"}
	for name, tc := range map[string]struct {
		job         *jobBuilder
		wantRunning condition
	}{
		"a job that runs goes on":                    {job: ran(), wantRunning: isRunning},
		"only Initialized changes":                   {job: without(batchv1beta1.ConditionInitialized), wantRunning: want},
		"only Running changes":                       {job: without(batchv1beta1.ConditionRunning), wantRunning: want},
		"both conditions of a job that waits change": {job: job(role("worker", 2)).Saw(time.Minute), wantRunning: want},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "whether the status changes", true, status.Refuse(&tc.job.Status, refused, 1, now))
			d := decided(tc.job.Status)
			diff(t, "Initialized", want, conditionOf(d, batchv1beta1.ConditionInitialized))
			diff(t, "Running", tc.wantRunning, conditionOf(d, batchv1beta1.ConditionRunning))
		})
	}
}

// withoutAttempt removes the label with the attempt from a pod.
func withoutAttempt(p *corev1.Pod) { delete(p.Labels, batchv1beta1.LabelAttempt) }

func TestIsCreateFailure(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		batchv1beta1.ReasonNameConflict: true, batchv1beta1.ReasonCreateFailed: true, batchv1beta1.ReasonUpdateFailed: true,
		batchv1beta1.ReasonAdmissionChangedPod: true, batchv1beta1.ReasonNotInstalled: true,
		batchv1beta1.ReasonInvalidTemplate: false, batchv1beta1.ReasonAccepted: false,
	} {
		diff(t, "whether the creation failed for "+reason, want, status.IsCreateFailure(reason))
	}
}

// The status reports a rejection by the API server until the rejected object exists.
func TestRejectionIsReportedUntilTheObjectExists(t *testing.T) {
	t.Parallel()
	worker0, succeeded := pod("job-worker-0", running), pod("job-worker-1", exited(0))
	changes := &admitting{answer: view.Answer{Change: view.Change{Action: batchv1beta1.ActionUpdate}}}
	for name, tc := range map[string]struct {
		admission view.Admission
		pods      []*corev1.Pod
		want      string
	}{
		"the rejection is dropped if no pod is missing": {
			pods: []*corev1.Pod{worker0, succeeded}, want: batchv1beta1.ReasonAccepted,
		},
		"the rejection is dropped if only the pod of a succeeded replica is missing": {
			pods: []*corev1.Pod{worker0}, want: batchv1beta1.ReasonAccepted,
		},
		"the rejection stays while a pod is missing": {
			pods: []*corev1.Pod{succeeded}, want: batchv1beta1.ReasonCreateFailed,
		},
		"the rejection stays while the admission must be changed": {
			admission: changes, pods: []*corev1.Pod{worker0, succeeded}, want: batchv1beta1.ReasonCreateFailed,
		},
		"the rejection stays while the admission is unknown": {
			admission: &admitting{standing: view.Standing{Unknown: true}}, pods: []*corev1.Pod{worker0, succeeded},
			want: batchv1beta1.ReasonCreateFailed,
		},
		"the rejection is dropped if the job is admitted": {
			admission: &admitting{}, pods: []*corev1.Pod{worker0, succeeded}, want: batchv1beta1.ReasonAccepted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(role("worker", 2)).Scope(scopeReplica).Saw(time.Minute, worker0, succeeded)
			c := meta.FindStatusCondition(j.Status.Conditions, batchv1beta1.ConditionInitialized)
			c.Status, c.Reason = metav1.ConditionFalse, batchv1beta1.ReasonCreateFailed
			seen := seeing(tc.pods...)
			seen.Admission = tc.admission
			diff(t, "reason", tc.want, view.Initialized(plan.Decide(j.Job, seen, now).Status).Reason)
		})
	}
}
