package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// admits reports whether a PodGroup belongs to the job and is admitted with its current spec.
func admits(view admission.PodGroup) bool {
	g := view.Object
	return g != nil && g.OwnerReferences != nil && g.DeletionTimestamp == nil &&
		g.Status.ObservedGeneration == g.Generation &&
		meta.IsStatusConditionTrue(g.Status.Conditions, "Admitted")
}

// checkGroup checks how a decision changes the PodGroup of a job, and which pods it creates for the PodGroup.
func checkGroup(t *rapid.T, j *jobBuilder, seen view.Observation, d plan.Decision) {
	change := d.Admission.Action
	view, _ := seen.Admission.(admission.PodGroup)
	switch {
	case j.Spec.Scheduler == nil && change != "":
		t.Fatalf("the decision changes a PodGroup (%s), but the job needs none", change)
	case j.Spec.Scheduler == nil:
		return
	case len(d.Creates) > 0 && (!admits(view) || !d.NeedsLiveRead):
		t.Fatalf("pods are created, but no live read has shown an admitted PodGroup of the job: %+v", view)
	case len(d.Creates) > 0 && change != "":
		t.Fatalf("pods are created while their PodGroup is changed (%s)", change)
	case change == batchv1beta1.ActionCreate && (d.Status.Decided() || j.Spec.RunMode.Pausing()):
		t.Fatal("a PodGroup is created for a job that ends or pauses")
	case change != "" && change != batchv1beta1.ActionCreate && d.Admission.Seen.GetOwnerReferences() == nil:
		t.Fatalf("the decision changes a PodGroup of another owner (%s)", change)
	}
	own := view.Object != nil && view.Object.OwnerReferences != nil && view.Object.DeletionTimestamp == nil
	released := change == batchv1beta1.ActionDelete
	if own && released != (d.Status.Decided() || j.Spec.RunMode.Pausing()) {
		t.Fatalf("the PodGroup is released: %t, but the phase of the job is %s, and it pauses: %t", released,
			d.Status.Phase, j.Spec.RunMode.Pausing())
	}
	members := int32(0) // counts the new pods in the scheduling group
	for _, p := range podsToCreate(d) {
		if p.Spec.SchedulingGroup != nil {
			members++
		}
		if p.Labels[schedulerv1beta1.LabelGroupName] != "job" || p.Spec.SchedulerName != schedulerv1beta1.SchedulerName {
			t.Fatalf("pod %s is not a member of the PodGroup", p.Name)
		}
	}
	if len(d.Creates) > int(members) && members < view.Object.Spec.MinMember {
		t.Fatalf("%d of %d new pods have a scheduling group, want at least %d", members, len(d.Creates),
			view.Object.Spec.MinMember)
	}
}

// The invariants hold for every decision, whatever the history of the job and the state of its objects.
func TestDecisionKeepsItsInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob(t)
		for n := rapid.IntRange(0, 4).Draw(t, "earlier reconciles"); n > 0; n-- {
			at := now.Add(-time.Duration(n) * time.Hour)
			j.Status = plan.Decide(j.Job, anyPods(t, j, n, at), at).Status
			anyEdit(t, j)
		}
		seen, status := anyPods(t, j, 0, now), j.Status.DeepCopy()
		d := actedOn(plan.Decide(j.Job, seen, now))

		if diff := cmp.Diff(*status, j.Status); diff != "" {
			t.Fatalf("Decide changes the status of the job that it is given:\n%s", diff)
		}
		if again := actedOn(plan.Decide(j.Job, seen, now)); cmp.Diff(d, again, sameCreations) != "" {
			t.Fatalf("the same arguments give different decisions:\n%s", cmp.Diff(d, again, sameCreations))
		}
		checkWrites(t, j, seen, d)
		checkGroup(t, j, seen, d)
		checkCounts(t, j, d)
		checkStall(t, j, d)

		accounted := j.Status
		j.Status = d.Status
		again := plan.Decide(j.Job, seen, now)
		type counts struct {
			Backoff, Attempt, Pauses int32
			Restarts                 map[string]int32
			Failures                 []batchv1beta1.ReplicaFailure
		}
		of := func(d plan.Decision) counts {
			return counts{d.Status.BackoffCount, d.Status.Attempt, d.Status.Pauses, restartsOf(d), d.Status.Failures}
		}
		if d := cmp.Diff(of(d), of(again)); d != "" {
			t.Fatalf("a second reconcile counts something again, after %+v:\n%s", accounted, d)
		}
		if d.Stall.Reaction() != "" && again.Stall.Reaction() != "" {
			t.Fatalf("a second reconcile reports a stall again, after %+v", accounted)
		}
	})
}

// In random observations, stalls are rare. So this test checks the invariants of stalls with jobs whose pods all run,
// at least until the last reconcile.
func TestStallsKeepTheirInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j, at := anyJob(t), now.Add(-24*time.Hour)
		j.Spec.Scheduler = nil
		for n := rapid.IntRange(1, 8).Draw(t, "reconciles"); n > 0; n-- {
			anyDeadlines(t, j)
			at = at.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds later")) * time.Second)
			seen := allRunning(j)
			addReadings(t, &seen, at)
			if n == 1 {
				anyEnd(t, &seen)
			}
			d := plan.Decide(j.Job, seen, at)
			checkStall(t, j, d)
			checkCounts(t, j, d)
			if d.Status.BackoffCount > j.Status.BackoffCount+1 {
				t.Fatalf("one decision raises backoffCount from %d to %d", j.Status.BackoffCount, d.Status.BackoffCount)
			}
			j.Status = d.Status
			again := plan.Decide(j.Job, seen, at)
			if d.Stall.Reaction() != "" && (again.Stall.Reaction() != "" || again.Status.BackoffCount != d.Status.BackoffCount) {
				t.Fatal("a second reconcile counts a stall again")
			}
		}
	})
}

// checkWrites checks which objects a decision deletes and creates.
func checkWrites(t *rapid.T, j *jobBuilder, seen view.Observation, d plan.Decision) {
	touched := map[string]string{}
	for _, p := range slices.Concat(d.Deletes, d.CleanUps) {
		if touched[p.Name] != "" {
			t.Fatalf("pod %s is deleted twice", p.Name)
		}
		touched[p.Name] = "deleted"
		if p.DeletionTimestamp != nil {
			t.Fatalf("pod %s is deleted although it is already being deleted", p.Name)
		}
		if seen.Pods[p.Name] != p {
			t.Fatalf("the deleted pod %s is not the pod that was observed", p.Name)
		}
	}
	for _, p := range podsToCreate(d) {
		if touched[p.Name] != "" {
			t.Fatalf("pod %s is created and %s", p.Name, touched[p.Name])
		}
		touched[p.Name] = "created"
		if seen.Pods[p.Name] != nil {
			t.Fatalf("pod %s is created although it exists", p.Name)
		}
	}
	if d.EnsureNetworkPolicy && !seen.NeedsNetworkPolicy {
		t.Fatal("the NetworkPolicy is changed although it is up to date")
	}
	if len(d.Creates) > 0 && d.EnsureNetworkPolicy != seen.NeedsNetworkPolicy {
		t.Fatal("pods are created without the NetworkPolicy of the job")
	}
	if d.Status.Decided() && (len(d.Creates) > 0 || d.CreateService || d.EnsureNetworkPolicy) {
		t.Fatal("something is created for a job whose end is decided")
	}
	if j.Spec.RunMode.Pausing() && (len(d.Creates) > 0 || d.CreateService || d.EnsureNetworkPolicy) {
		t.Fatal("something is created for a job that pauses")
	}
	if view.IsPaused(d.Status) && len(seen.Pods) > 0 {
		t.Fatal("a job is Paused although it has pods")
	}
	if d.Status.Finished() && !j.Status.Finished() && j.Spec.RunPolicy.CleanUpPolicy != batchv1beta1.CleanUpPolicyNone {
		for _, p := range seen.Pods {
			if policy.MayRun(p) || !d.NeedsLiveRead {
				t.Fatalf("the job finishes without a live read, or while pod %s runs", p.Name)
			}
		}
	}
	sameProgress := j.Status
	sameProgress.Progress, sameProgress.RestartsInPlace = d.Status.Progress, d.Status.RestartsInPlace
	if j.Status.Decided() && !j.Status.Finished() && !d.Status.Finished() &&
		!plan.OnlyFollowsReplicas(sameProgress, d.Status) {
		t.Fatalf("the status of a job whose end is decided changes:\n%s", cmp.Diff(j.Status, d.Status))
	}
	if j.Status.Finished() && !plan.OnlyFollowsReplicas(j.Status, d.Status) {
		t.Fatalf("the status of a finished job changes:\n%s", cmp.Diff(j.Status, d.Status))
	}
}

// checkStall checks how a decision reacts to a stall of the training.
func checkStall(t *rapid.T, j *jobBuilder, d plan.Decision) {
	isRestart := slices.ContainsFunc(d.Restarts, func(r decide.Restart) bool {
		return r.Cause == batchv1beta1.ReasonNoProgress
	})
	hasEnded := d.Status.Decided() && !j.Status.Decided() && len(d.Status.Failures) > 0 &&
		d.Status.Failures[0].Reason == batchv1beta1.ReasonNoProgress
	stalled := meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionStalled)
	reaction := d.Stall.Reaction()
	switch {
	case reaction != "" && (!j.Spec.ReportsProgress || !stalled || !view.IsRunning(j.Status)):
		t.Fatal("a stall is reported of a job that does not report progress, does not run, or has no condition Stalled")
	case reaction == notify && (isRestart || d.Status.Decided() && !j.Status.Decided()):
		t.Fatal("a stall that is only notified restarts or ends the job")
	case reaction == restart && !isRestart && !hasEnded:
		t.Fatal("a stall that restarts the job neither restarts nor ends it")
	case isRestart && (reaction != restart || len(d.Restarts) > 1 || d.Status.BackoffCount != j.Status.BackoffCount+1):
		t.Fatalf("a stall does not count as the only restart: %+v", d.Restarts)
	case stalled && d.Status.StartTime == nil:
		t.Fatal("a job is stalled that does not run")
	}
}

// maxFailures is the maximum number of failures in a status.
const maxFailures = 5

// checkCounts checks the numbers of a status.
func checkCounts(t *rapid.T, j *jobBuilder, d plan.Decision) {
	if limit := j.Spec.RunPolicy.BackoffLimit; limit != nil && d.Status.BackoffCount > *limit {
		t.Fatalf("backoffCount is %d, want at most %d", d.Status.BackoffCount, *limit)
	}
	was, is := ptr.Deref(j.Status.RestartsInPlace, batchv1beta1.RestartsInPlace{}), d.Status.RestartsInPlace
	if added := ptr.Deref(is, batchv1beta1.RestartsInPlace{}).Count - was.Count; added != d.AddedInPlace || added < 0 ||
		added > 0 && !j.Spec.RestartsInPlace {
		t.Fatalf("the number of restarts in place has changed by %d, and %d are announced", added, d.AddedInPlace)
	}
	if len(d.Status.Failures) > maxFailures {
		t.Fatalf("the status has %d failures, want at most %d", len(d.Status.Failures), maxFailures)
	}
	var listed []string
	for _, task := range d.Status.Tasks {
		for _, r := range task.Replicas {
			listed = append(listed, r.Name)
		}
	}
	if replicas := len(members(j)); len(listed) != replicas && j.Spec.Elastic == nil {
		t.Fatalf("the job has %d replicas, but the tasks list %q", replicas, listed)
	}
	a := d.Status.Aggregate
	if a == nil {
		t.Fatal("the status has no aggregate")
	}
	if sum := a.Creating + a.Pending + a.Running + a.Succeeded + a.Failed + a.Unknown +
		a.Deleted; int(sum) != len(listed) {
		t.Fatalf("the aggregate of %d replicas adds up to %d: %+v", len(listed), sum, *a)
	}
}
