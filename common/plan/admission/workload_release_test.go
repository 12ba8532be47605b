package admission_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
)

func TestADeadlineDoesNotRunWhileAJobWaitsForKueue(t *testing.T) {
	t.Parallel()
	waits := job(role("worker", 1))
	waits.Spec.RunPolicy.ActiveDeadlineSeconds = new(int64(60))
	waits.Created = now.Add(-time.Hour)
	w := workload(func(w *kueuev1beta2.Workload) { w.Spec.PodSets[0].Count = 1 })
	d := plan.Decide(waits.SawIn(withWorkload(w)).Job, withWorkload(w), now.Add(time.Hour))
	diff(t, "phase", batchv1beta1.JobPhasePending, d.Status.Phase)
	diff(t, "requeue", true, d.RequeueAt.IsZero())
}

// With topology-aware scheduling, Kueue assigns the nodes of pods. If a pod avoided its assigned node, it would never
// start.
func TestKueueAssignsTheNodesOfAPodWithATopology(t *testing.T) {
	t.Parallel()
	withTopology := func(w *kueuev1beta2.Workload) {
		w.Status.Admission.PodSetAssignments[0].TopologyAssignment = &kueuev1beta2.TopologyAssignment{}
	}
	for name, tc := range map[string]struct {
		workload *kueuev1beta2.Workload
		want     bool
	}{
		"a workload that waits has no nodes":                             {workload: workload()},
		"a workload without a topology has only the nodes of its flavor": {workload: workload(admittedFor(2))},
		"a workload with a topology has nodes": {
			workload: workload(admittedFor(2), withTopology), want: true,
		},
		"a workload that was evicted has its nodes until its pods are gone": {
			workload: workload(admittedFor(2), withTopology, evicted("Preempted")), want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "AssignsNodes", tc.want, seenWorkload(tc.workload).Standing("job-uid").AssignsNodes)
		})
	}
}

func TestReleaseWorkload(t *testing.T) {
	t.Parallel()
	end := func(conditionType string) *metav1.Condition {
		return &metav1.Condition{Type: conditionType, Reason: "TheReason"}
	}
	for name, tc := range map[string]struct {
		rest view.Rest
		view admission.Workload
		want string
	}{
		"a paused job deletes its workload when its pods are gone": {view: seenWorkload(workload()), want: "Delete"},
		"a paused job keeps its workload while a pod is left": {
			view: seenWorkload(workload()), rest: view.Rest{Pods: 1},
		},
		"the success of a job is reported": {
			view: seenWorkload(workload()), rest: view.Rest{End: end("SuccessCriteriaMet")},
			want: "Update Finished=True Succeeded",
		},
		"the failure of a job is reported": {
			view: seenWorkload(workload()), rest: view.Rest{End: end("FailureTarget")}, want: "Update Finished=True Failed",
		},
		"a paused job keeps its prebuilt workload": {view: prebuilt(workload(admittedFor(2)))},
		"a paused job returns the quota of its prebuilt workload when it is evicted": {
			view: prebuilt(workload(admittedFor(2), evicted("Preempted"))),
			want: "Update Admitted=False NoReservation QuotaReserved=False Pending Requeued=True Preempted without admission",
		},
		"a paused job keeps a finished workload": {
			view: seenWorkload(workload(has("Finished", metav1.ConditionTrue, "Succeeded", ""))),
		},
		"an end is reported once": {
			view: seenWorkload(workload(has("Finished", metav1.ConditionTrue, "Succeeded", ""))),
			rest: view.Rest{End: end("SuccessCriteriaMet")},
		},
		"a job without a workload has nothing to release": {rest: view.Rest{End: end("FailureTarget")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "change", tc.want, describeChange(tc.view.Withdraw(&job(role("worker", 2)).Job, tc.rest).Change))
		})
	}
}

func TestAWorkloadInAnotherClusterIsAdmittedAsAWhole(t *testing.T) {
	t.Parallel()
	for elsewhere, want := range map[bool]*int32{false: new(int32(1)), true: nil} {
		j := job(role("worker", 2)).Elastic(1, 4)
		answer := admission.Workload{Queue: "lab"}.Request(&j.Job, view.Need{Roles: j.Spec.Roles, Elsewhere: elsewhere})
		diff(t, "minCount", want, answer.Change.Wanted.(*kueuev1beta2.Workload).Spec.PodSets[0].MinCount)
	}
}

func TestGatesOfAWorkloadAreOnlyRemoved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		job, workload string
		want          string
	}{
		"the same gates":  {"a/x,b/x", "a/x,b/x", ""},
		"a removed gate":  {"b/x", "a/x,b/x", "Update"},
		"no gate anymore": {"", "a/x", "Update"},
		"an added gate":   {"a/x,b/x", "a/x", ""},
		"another gate":    {"c/x", "a/x,b/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gated := admission.Gated(seenWorkload(workload(func(w *kueuev1beta2.Workload) {
				w.Annotations = map[string]string{kueuev1beta2.AnnotationAdmissionGatedBy: tc.workload}
			})), tc.job)
			j := job(role("worker", 2))
			change := gated.Request(&j.Job, view.Need{Roles: j.Spec.Roles}).Change
			diff(t, "change", tc.want, change.Action)
			if tc.want != "" {
				diff(t, "gates", tc.job, change.Wanted.GetAnnotations()[kueuev1beta2.AnnotationAdmissionGatedBy])
			}
		})
	}
}
