package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/policy"
)

// anyJob draws a job that was never reconciled.
func anyJob(t *rapid.T) *jobBuilder {
	policies := rapid.SampledFrom([]batchv1beta1.RestartPolicy{
		batchv1beta1.RestartPolicyAlways, batchv1beta1.RestartPolicyOnFailure,
		batchv1beta1.RestartPolicyNever, batchv1beta1.RestartPolicyExitCode,
	})
	var roles []framework.Role
	for _, roleType := range []string{"master", "worker", "ps"}[:rapid.IntRange(1, 3).Draw(t, "roles")] {
		r := role(roleType, rapid.Int32Range(0, 3).Draw(t, roleType+" replicas"))
		roles = append(roles, restarting(r, policies.Draw(t, roleType+" restartPolicy")))
	}
	j := job(roles...)
	j.Spec.RunPolicy = batchv1beta1.RunPolicy{
		RestartScope: rapid.SampledFrom([]batchv1beta1.RestartScope{
			"", scopeJob, scopeReplica,
		}).Draw(t, "restartScope"),
		BackoffLimit:          rapid.Ptr(rapid.Int32Range(0, 3), true).Draw(t, "backoffLimit"),
		ActiveDeadlineSeconds: rapid.Ptr(rapid.Int64Range(1, 5000), true).Draw(t, "activeDeadlineSeconds"),
		CleanUpPolicy: rapid.SampledFrom([]batchv1beta1.CleanUpPolicy{
			"", batchv1beta1.CleanUpPolicyAll, batchv1beta1.CleanUpPolicyUnfinished, batchv1beta1.CleanUpPolicyNone,
		}).Draw(t, "cleanUpPolicy"),
	}
	if rapid.Bool().Draw(t, "elastic") {
		j.Spec.Elastic = &batchv1beta1.ElasticConfig{
			Enabled: true, MinReplicas: rapid.Ptr(rapid.Int32Range(1, 3), false).Draw(t, "minReplicas"),
			MaxReplicas: new(int32(12)),
		}
		j.Spec.Rendezvous = rapid.Bool().Draw(t, "rendezvous")
	}
	if rapid.Bool().Draw(t, "in a queue") {
		j.InQueue()
	}
	if rapid.Bool().Draw(t, "reports progress") {
		anyDeadlines(t, j)
	}
	j.PeerGrace = rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "peerGrace")
	return j
}

// anyDeadlines makes the training of a job report its progress, and draws its deadlines and the policy.
func anyDeadlines(t *rapid.T, j *jobBuilder) {
	deadline := rapid.SampledFrom([]int64{0, 60, 3000})
	j.Reporting(deadline.Draw(t, "progressDeadlineSeconds"), deadline.Draw(t, "startupDeadlineSeconds"),
		rapid.SampledFrom([]batchv1beta1.ProgressPolicy{"", notify, restart}).Draw(t, "progressPolicy"))
	j.Spec.FirstProcess = rapid.SampledFrom([]framework.FirstProcess{
		"", framework.FirstProcessByName, framework.FirstProcessAnywhere,
	}).Draw(t, "first process")
}

// anyEdit draws an edit of a job by its user, who can pause or resume it, and can scale it if it is elastic.
func anyEdit(t *rapid.T, j *jobBuilder) {
	j.Paused(rapid.IntRange(0, 3).Draw(t, "paused") == 0)
	if j.Spec.Elastic == nil {
		return
	}
	j.Spec.Roles = slices.Clone(j.Spec.Roles)
	for i := range j.Spec.Roles {
		j.Spec.Roles[i].Replicas = rapid.Int32Range(0, 4).Draw(t, j.Spec.Roles[i].Type+" scaled to")
	}
}

func members(j *jobBuilder) []framework.Member {
	return framework.NewGang(j.Namespace, j.Name, j.UID, j.ClusterDomain, 0, j.Spec.Roles).Members
}

// attempt holds an attempt of the job and an attempt of a replica.
type attempt struct{ job, replica int32 }

// attempts returns the current attempt of each replica. No pod has a later one, because the status is written first.
func attempts(status batchv1beta1.JobStatus) map[string]attempt {
	current := map[string]attempt{}
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			current[r.Name] = attempt{job: plan.JobAttempt(status), replica: r.Attempt}
		}
	}
	return current
}

// anyPods draws what a reconcile of a job observes: pods of any attempt and in any state, and perhaps a pod that
// belongs to no replica. Each reconcile observes other pods, because a pod that has ended must not change its end.
func anyPods(t *rapid.T, j *jobBuilder, reconcile int, at time.Time) plan.Observation {
	var pods []*corev1.Pod
	current := attempts(j.Status)
	candidates := []string{"job-gone-0"}
	for _, m := range members(j) {
		candidates = append(candidates, m.Name)
	}
	for name := range current { // an elastic job can have pods of other replicas
		if !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	slices.Sort(candidates)
	for _, name := range candidates {
		options := []podOption{of(plan.AttemptLabel(
			rapid.Int32Range(0, current[name].job).Draw(t, name+" attempt"),
			rapid.Int32Range(0, current[name].replica).Draw(t, name+" attempt alone"),
		))}
		switch rapid.SampledFrom([]string{"none", "pending", "running", "exited", "rejected", "unknown"}).Draw(t, name) {
		case "none":
			continue
		case "running":
			options = append(options, running)
		case "exited":
			code := rapid.SampledFrom([]int32{0, 1, 137}).Draw(t, name+" exit code")
			before := rapid.IntRange(0, 120).Draw(t, name+" seconds ago")
			options = append(options, exitedAgo(code, time.Duration(before)*time.Second))
		case "rejected":
			options = append(options, rejected)
		case "unknown":
			options = append(options, unreachable)
		}
		for _, option := range []podOption{disrupted, sidecarRunning, deleting} {
			if rapid.IntRange(0, 4).Draw(t, name+" option") == 0 {
				options = append(options, option)
			}
		}
		p := pod(name, options...)
		p.UID = types.UID(fmt.Sprintf("%s-uid-of-reconcile-%d", name, reconcile))
		pods = append(pods, p)
	}
	seen := seeing(pods...)
	seen.HasService = rapid.Bool().Draw(t, "service")
	seen.NeedsNetworkPolicy = rapid.Bool().Draw(t, "network policy")
	if j.Spec.Scheduler != nil {
		seen.Admission = anyGroup(t)
	}
	addReadings(t, &seen, at)
	return seen
}

// addReadings draws readings of the progress of the pods, and a reading of a pod that is gone. It also draws when the
// next write for progress alone is due. A job that does not report ignores them.
func addReadings(t *rapid.T, seen *plan.Observation, at time.Time) {
	uids := []types.UID{"former-uid"}
	for _, p := range seen.Pods {
		uids = append(uids, p.UID)
	}
	slices.Sort(uids)
	seen.Readings = map[types.UID]plan.Reading{}
	for _, uid := range uids {
		draw := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(t, string(uid)+" "+what) }
		read := plan.Reading{Time: at.Add(time.Duration(-draw("read seconds ago", 0, 60)) * time.Second)}
		switch draw("reading", 0, 2) {
		case 0:
			continue
		case 1:
			reported := step(int64(draw("step", 0, 1000)), 0)
			read.Status = reported.Status
			read.Silence = time.Duration(draw("silent seconds", 0, 4000)) * time.Second
			if draw("starts again", 0, 1) == 1 {
				read.Started = read.Time.Add(-time.Duration(draw("started seconds ago", 0, 4000)) * time.Second)
			}
			read.Announced = time.Duration(draw("announced seconds", 0, 1)*100) * time.Second
			read.Status.LastReportTime = new(metav1.NewTime(read.Time.Add(-read.Silence)))
		}
		seen.Readings[uid] = read
	}
	seen.ProgressDue = at.Add(time.Duration(rapid.IntRange(-30, 30).Draw(t, "progress due in")) * time.Second)
}

// anyGroup draws the PodGroup of a job, in any state, or none.
func anyGroup(t *rapid.T) dependents.PodGroup {
	options := []jobtest.GroupOption{admitted}
	switch rapid.SampledFrom([]string{
		"none", "unknown", "problem", "new", "not admitted", "changed", "being deleted", "foreign", "admitted",
	}).Draw(t, "group") {
	case "none":
		return dependents.PodGroup{}
	case "unknown":
		return dependents.PodGroup{Unknown: true}
	case "problem":
		return dependents.PodGroup{Problem: jobtest.ErrNotInstalled}
	case "new":
		options = nil
	case "not admitted":
		options = []jobtest.GroupOption{withCondition("Admitted", "False", "QueueClosed", "Queue lab is closed")}
	case "changed":
		options = append(options, edited)
	case "being deleted":
		options = append(options, deletingGroup)
	case "foreign":
		options = append(options, foreignGroup)
	}
	return dependents.PodGroup{Object: group(rapid.Int32Range(1, 4).Draw(t, "minMember"), options...)}
}

// admits reports whether a PodGroup belongs to the job and may have pods now.
func admits(view dependents.PodGroup) bool {
	g := view.Object
	return g != nil && g.OwnerReferences != nil && g.DeletionTimestamp == nil &&
		g.Status.ObservedGeneration == g.Generation &&
		meta.IsStatusConditionTrue(g.Status.Conditions, "Admitted")
}

// checkGroup checks how a decision changes the PodGroup of a job, and which pods it creates for the PodGroup.
func checkGroup(t *rapid.T, j *jobBuilder, seen plan.Observation, d plan.Decision) {
	change := d.Admission.Action
	view, _ := seen.Admission.(dependents.PodGroup)
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
	members := int32(0) // among the new pods
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

// The invariants hold for every decision, whatever the history of the job and whatever the cluster has of it.
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
		d := plan.Decide(j.Job, seen, now)

		if diff := cmp.Diff(*status, j.Status); diff != "" {
			t.Fatalf("Decide changes the status of the job that it is given:\n%s", diff)
		}
		if again := plan.Decide(j.Job, seen, now); cmp.Diff(d, again, sameCreations) != "" {
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
		if d.Stall != "" && again.Stall != "" {
			t.Fatalf("a second reconcile reports a stall again, after %+v", accounted)
		}
	})
}

// The invariants of stalls hold for jobs whose pods all run, and mostly do nothing else.
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
			if d.Stall != "" && (again.Stall != "" || again.Status.BackoffCount != d.Status.BackoffCount) {
				t.Fatal("a second reconcile counts a stall again")
			}
		}
	})
}

// anyEnd draws how one of the pods ends, if any.
func anyEnd(t *rapid.T, seen *plan.Observation) {
	all := slices.Sorted(maps.Keys(seen.Pods))
	if len(all) == 0 {
		return
	}
	p := seen.Pods[rapid.SampledFrom(all).Draw(t, "pod that ends")]
	switch rapid.SampledFrom([]string{"none", "failure", "success", "deletion"}).Draw(t, "end") {
	case "failure":
		exited(1)(p)
	case "success":
		exited(0)(p)
	case "deletion":
		deleting(p)
	}
}

// allRunning returns what a reconcile of a job observes if all replicas run in their current attempts.
func allRunning(j *jobBuilder) plan.Observation {
	var pods []*corev1.Pod
	current := attempts(j.Status)
	for _, m := range members(j) {
		if _, ok := current[m.Name]; !ok {
			current[m.Name] = attempt{}
		}
	}
	for name, a := range current {
		pods = append(pods, pod(name, of(plan.AttemptLabel(a.job, a.replica)), running))
	}
	return seeing(pods...)
}

// checkWrites checks which objects a decision deletes and creates.
func checkWrites(t *rapid.T, j *jobBuilder, seen plan.Observation, d plan.Decision) {
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
	if plan.IsPaused(d.Status) && len(seen.Pods) > 0 {
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
	sameProgress.Progress = d.Status.Progress
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
	isRestart := slices.ContainsFunc(d.Restarts, func(r plan.Restart) bool {
		return r.Cause == batchv1beta1.ReasonNoProgress
	})
	hasEnded := d.Status.Decided() && !j.Status.Decided() && len(d.Status.Failures) > 0 &&
		d.Status.Failures[0].Reason == batchv1beta1.ReasonNoProgress
	stalled := meta.IsStatusConditionTrue(d.Status.Conditions, batchv1beta1.ConditionStalled)
	switch {
	case d.Stall != "" && (!j.Spec.ReportsProgress || !stalled || !plan.IsRunning(j.Status)):
		t.Fatal("a stall is reported of a job that does not report progress, does not run, or has no condition Stalled")
	case d.Stall == notify && (isRestart || d.Status.Decided() && !j.Status.Decided()):
		t.Fatal("a stall that is only notified restarts or ends the job")
	case d.Stall == restart && !isRestart && !hasEnded:
		t.Fatal("a stall that restarts the job neither restarts nor ends it")
	case isRestart && (d.Stall != restart || len(d.Restarts) > 1 || d.Status.BackoffCount != j.Status.BackoffCount+1):
		t.Fatalf("a stall does not count as the only restart: %+v", d.Restarts)
	case stalled && d.Status.StartTime == nil:
		t.Fatal("a job is stalled that does not run")
	}
}

// checkCounts checks the numbers of a status.
func checkCounts(t *rapid.T, j *jobBuilder, d plan.Decision) {
	if limit := j.Spec.RunPolicy.BackoffLimit; limit != nil && d.Status.BackoffCount > *limit {
		t.Fatalf("backoffCount is %d, want at most %d", d.Status.BackoffCount, *limit)
	}
	if len(d.Status.Failures) > plan.MaxFailures {
		t.Fatalf("the status has %d failures, want at most %d", len(d.Status.Failures), plan.MaxFailures)
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
