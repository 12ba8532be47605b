package admission_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

func TestPlanPodGroup(t *testing.T) {
	t.Parallel()
	const waits = "podgroup job waits for the scheduler-controller"
	running2 := func() []*corev1.Pod {
		return []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), running)}
	}
	both := []string{created("job-worker-0", "0"), created("job-worker-1", "0")}
	closed := withCondition("Admitted", metav1.ConditionFalse, "QueueClosed", "Queue lab is closed")
	for name, tc := range map[string]struct {
		job  *jobBuilder
		view admission.PodGroup
		pods []*corev1.Pod

		wantChange string
		// wantMin is minMember of the PodGroup that is created or updated.
		wantMin     int32
		wantCreates []string
		wantReason  string
		wantMessage string
		// wantInitialized is the reason of the condition Initialized.
		wantInitialized string
		wantEvents      []string
		wantRequeueIn   time.Duration
		// wantFromCache reports whether the controller can act on the decision without a live read.
		wantFromCache bool
	}{
		"a new job creates its group before its pods": {
			wantChange: "Create", wantMin: 2, wantReason: "Queued", wantMessage: waits,
		},
		"no pods are created before the group has a status": {
			view: podGroup{Object: group(2)}, wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"pods are created after the group is admitted": {
			view: podGroup{Object: group(2, admitted)}, wantCreates: both, wantReason: "Creating",
			wantMessage: "job-worker-0 is being created",
		},
		"an admission of an older spec of the group does not count": {
			view:       podGroup{Object: group(2, admitted, edited)},
			wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"no pods are created while the queue is closed": {
			view:       podGroup{Object: group(2, closed)},
			wantReason: "QueueClosed", wantMessage: "Queue lab is closed", wantEvents: []string{"QueueClosed"},
			wantFromCache: true,
		},
		"the event of a closed queue is emitted once": {
			job: job(role("worker", 2)).InQueue().SawIn(grouped(group(2, closed))), view: podGroup{Object: group(2, closed)},
			wantReason: "QueueClosed", wantMessage: "Queue lab is closed", wantFromCache: true,
		},
		"a queue that is closed later does not affect running pods": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, admitted), running2()...)),
			view: podGroup{Object: group(2, closed)}, pods: running2(), wantReason: "ReplicasRunning",
			wantMessage: "all 2 replicas run or have ended", wantFromCache: true,
		},
		"a group of another owner is a name conflict": {
			view:       podGroup{Object: group(2, admitted, foreignGroup)},
			wantReason: "NameConflict", wantInitialized: "NameConflict",
			wantMessage: "the job needs podgroup job, but one exists that is not the job's: delete it or rename the job",
			wantEvents:  []string{"NameConflict"}, wantRequeueIn: time.Minute, wantFromCache: true,
		},
		"a job waits while its group is being deleted": {
			view: podGroup{Object: group(2, admitted, deletingGroup)}, wantReason: "Queued",
			wantMessage: "podgroup job is being deleted and will be recreated", wantFromCache: true,
		},
		"a job waits while its group cannot be read yet": {
			view: podGroup{Unknown: true}, wantReason: "Queued", wantMessage: "podgroup job cannot be read yet",
			wantRequeueIn: view.CacheDelay, wantFromCache: true,
		},
		"the reason is kept while the group cannot be read yet": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, closed))),
			view: podGroup{Unknown: true}, wantReason: "QueueClosed", wantMessage: "Queue lab is closed",
			wantRequeueIn: view.CacheDelay, wantFromCache: true,
		},
		"a job reports that PodGroups are not installed": {
			view:       podGroup{Problem: errNotInstalled},
			wantReason: "NotInstalled", wantMessage: errNotInstalled.Error(), wantInitialized: "NotInstalled",
			wantEvents: []string{"NotInstalled"}, wantRequeueIn: time.Minute, wantFromCache: true,
		},
		"a job waits for its group after PodGroups were installed": {
			job:        job(role("worker", 2)).InQueue().SawIn(view.Observation{Admission: podGroup{Problem: errNotInstalled}}),
			view:       podGroup{Object: group(2)},
			wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"running pods are kept if PodGroups are no longer installed": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, admitted), running2()...)),
			view: podGroup{Problem: errNotInstalled}, pods: running2(),
			wantReason: "ReplicasRunning", wantMessage: "all 2 replicas run or have ended", wantInitialized: "NotInstalled",
			wantEvents: []string{"NotInstalled"}, wantRequeueIn: time.Minute, wantFromCache: true,
		},
		"a deleted group is recreated": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, admitted), running2()...)),
			pods: running2(), wantChange: "Create", wantMin: 2, wantReason: "ReplicasRunning",
			wantMessage: "all 2 replicas run or have ended",
		},
		"an unschedulable gang has the reason of its group": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "Unschedulable", "0 of 2 pods are on nodes"))},
			pods:        []*corev1.Pod{pod("job-worker-0", unschedulable), pod("job-worker-1", unschedulable)},
			wantReason:  "Unschedulable",
			wantMessage: "0 of 2 pods are on nodes", wantFromCache: true,
		},
		"a gang with too few pods is pending": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "TooFewPods", "1 of 2 pods exist"))},
			pods: []*corev1.Pod{pod("job-worker-0", unschedulable), pod("job-worker-1", unschedulable)}, wantReason: "Pending",
			wantMessage: "job-worker-0 waits to be scheduled with its gang: 1 of 2 pods exist", wantFromCache: true,
		},
		"a pod that a scheduled gang does not need has its own reason": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""))},
			pods:        []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable)},
			wantReason:  "Unschedulable",
			wantMessage: "job-worker-1 cannot be scheduled: 0/3 nodes are available", wantFromCache: true,
		},
		"a gated pod that a scheduled gang does not need waits for its queue": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""))},
			pods:        []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable, gated)},
			wantReason:  "Pending",
			wantMessage: "job-worker-1 is not needed by its gang and waits until its queue has room", wantFromCache: true,
		},
		"the group of an elastic job needs its minimum number of replicas": {
			job: job(role("worker", 0)).Elastic(1, 2).InQueue(), wantChange: "Create", wantMin: 1, wantReason: "Queued",
			wantMessage: waits,
		},
		"an elastic job creates all expected replicas": {
			job: job(role("worker", 0)).Elastic(1, 2).InQueue(), view: podGroup{Object: group(1, admitted)},
			wantCreates: both, wantReason: "Creating", wantMessage: "job-worker-0 is being created",
		},
		"the group of a replacement does not need a peer that has succeeded": {
			job: job(role("worker", 3)).Scope(scopeReplica).InQueue().SawIn(grouped(group(3, admitted),
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), running),
				pod("job-worker-2", onNode("a"), exited(0)))),
			view: podGroup{Object: group(3, admitted)},
			pods: []*corev1.Pod{
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), exited(1)),
				pod("job-worker-2", onNode("a"), exited(0)),
			},
			wantChange: "Update", wantMin: 2, wantReason: "Restarting", wantMessage: "job-worker-1 is being replaced",
		},
		"the group is not updated while peers end one by one": {
			job: job(role("worker", 3)).Scope(scopeReplica).InQueue().SawIn(grouped(group(3, admitted),
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), running),
				pod("job-worker-2", onNode("a"), running))),
			view: podGroup{Object: group(3, admitted)},
			pods: []*corev1.Pod{
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), exited(0)),
				pod("job-worker-2", onNode("a"), exited(0)),
			},
			wantReason: "ReplicasRunning", wantMessage: "all 3 replicas run or have ended", wantFromCache: true,
		},
		"the group does not need a peer that succeeds while a replacement waits": {
			job: job(role("worker", 3)).Scope(scopeReplica).InQueue(),
			view: podGroup{Object: group(3, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "Unschedulable", "2 of 3"))},
			pods: []*corev1.Pod{
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable),
				pod("job-worker-2", onNode("a"), exited(0)),
			},
			wantChange: "Update", wantMin: 2,
			wantReason: "Unschedulable", wantMessage: "2 of 3",
		},
		"a priority that an administrator changed is kept": {
			view: podGroup{
				Object: group(2, admitted, func(g *schedulerv1beta1.PodGroup) { g.Spec.Priority = new(int32(99)) }),
			},
			wantCreates: both, wantReason: "Creating", wantMessage: "job-worker-0 is being created",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job
			if j == nil {
				j = job(role("worker", 2)).InQueue()
			}
			if j.Spec.Elastic != nil && tc.view.Object != nil {
				elasticGroup(tc.view.Object)
			}
			seen := seeing(tc.pods...)
			seen.Admission = tc.view
			before := tc.view.Object.DeepCopy()
			d := plan.Decide(j.Job, seen, now)
			diff(t, "change", tc.wantChange, d.Admission.Action)
			if tc.wantChange != "" {
				diff(t, "minMember", tc.wantMin, d.Admission.Wanted.(*schedulerv1beta1.PodGroup).Spec.MinMember)
			}
			diff(t, "creations", tc.wantCreates, summarize(d).Creates)
			diff(t, "whether the change has the current group", tc.wantChange == "Update", d.Admission.Seen != nil)
			condition := meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionRunning)
			diff(t, "reason", tc.wantReason, condition.Reason)
			diff(t, "reason of the status", cmp.Or(tc.wantInitialized, tc.wantReason), d.Status.Reason)
			if !strings.HasSuffix(condition.Message, tc.wantMessage) {
				t.Errorf("unexpected message %q, want %q", condition.Message, tc.wantMessage)
			}
			initialized := meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionInitialized)
			diff(t, "reason of Initialized", cmp.Or(tc.wantInitialized, "Accepted"), initialized.Reason)
			var warnings []string
			for _, e := range d.Events {
				if e.Type == corev1.EventTypeWarning && e.Reason != "Restarting" {
					warnings = append(warnings, e.Reason)
				}
			}
			diff(t, "warnings", tc.wantEvents, warnings)
			diff(t, "time until the requeue", tc.wantRequeueIn, summarize(d).RequeueIn)
			if d.NeedsLiveRead == tc.wantFromCache {
				t.Errorf("NeedsLiveRead is %t, want %t", d.NeedsLiveRead, !tc.wantFromCache)
			}
			for _, p := range podsToCreate(d) {
				diff(t, "group of a pod", "job", p.Labels[schedulerv1beta1.LabelGroupName])
				diff(t, "role of a pod", "worker", p.Labels[schedulerv1beta1.LabelRole])
				diff(t, "scheduler of a pod", "t9k-scheduler", p.Spec.SchedulerName)
			}
			diff(t, "observed group after the decision", before, tc.view.Object)
		})
	}
}

// The PodGroup is deleted as soon as the job no longer needs it, so that its resources are free for other jobs.
func TestPodGroupIsReleased(t *testing.T) {
	t.Parallel()
	started := func() *jobBuilder {
		return job(role("worker", 1)).InQueue().Deadline(3600).SawIn(grouped(group(1, admitted),
			pod("job-worker-0", running)))
	}
	finished := func() *jobBuilder {
		return started().SawIn(grouped(group(1, admitted), pod("job-worker-0", exited(0))))
	}
	for name, tc := range map[string]struct {
		job           *jobBuilder
		seen          view.Observation
		wantChange    string
		wantRequeueIn time.Duration
	}{
		"the group is deleted when the job succeeds": {
			job: started(), seen: grouped(group(1, admitted), pod("job-worker-0", exited(0))), wantChange: "Delete",
		},
		"the group is deleted when the job fails": {
			job:  started().BackoffLimit(0),
			seen: grouped(group(1, admitted), pod("job-worker-0", exited(1))), wantChange: "Delete",
		},
		"the group is deleted when the job is paused": {
			job: started().Paused(true), seen: grouped(group(1, admitted), pod("job-worker-0", running)), wantChange: "Delete",
		},
		"the group is deleted when a waiting job is paused": {
			job: job(role("worker", 1)).InQueue().SawIn(grouped(group(1))).Paused(true), seen: grouped(group(1)),
			wantChange: "Delete",
		},
		"the group is deleted later if the controller was stopped": {
			job: finished(), seen: grouped(group(1, admitted), pod("job-worker-0", exited(0))), wantChange: "Delete",
		},
		"a group that is being deleted is not deleted again": {
			job: finished(), seen: grouped(group(1, admitted, deletingGroup), pod("job-worker-0", exited(0))),
		},
		"a finished job does not create a group": {
			job: finished(), seen: grouped(nil, pod("job-worker-0", exited(0))),
		},
		"a group of another owner is not deleted": {
			job: finished(), seen: grouped(group(1, foreignGroup), pod("job-worker-0", exited(0))),
		},
		"a finished job waits until its group can be read": {
			job: finished(), seen: view.Observation{Admission: podGroup{Unknown: true}}, wantRequeueIn: view.CacheDelay,
		},
		"reading the group of a finished job is retried": {
			job: finished(),
			seen: view.Observation{
				Admission: podGroup{
					Problem: &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")},
				},
			},
			wantRequeueIn: time.Minute,
		},
		"nothing is deleted if PodGroups are not installed": {
			job: finished(), seen: view.Observation{Admission: podGroup{Problem: errNotInstalled}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tc.job.Job, tc.seen, now)
			diff(t, "change", tc.wantChange, d.Admission.Action)
			diff(t, "time until the requeue", tc.wantRequeueIn, summarize(d).RequeueIn)
			diff(t, "creations", 0, len(d.Creates))
		})
	}
}

// A new PodGroup has the complete spec. An update changes only minMember and the roles.
func TestRequestedPodGroup(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).InQueue()
	need := view.Need{Roles: j.Spec.Roles, Scheduling: true}
	created := podGroup{}.Request(&j.Job, need).Change
	want := &schedulerv1beta1.PodGroup{ObjectMeta: j.MetaOfOwned(), Spec: group(2).Spec}
	diff(t, "created PodGroup", view.Change{Action: "Create", Wanted: want}, created)

	larger := group(3, admitted, func(g *schedulerv1beta1.PodGroup) { g.Spec.Priority = new(int32(99)) })
	updated := podGroup{Object: larger}.Request(&j.Job, need).Change
	want = larger.DeepCopy()
	want.Spec.MinMember, want.Spec.Roles = 2, group(2).Spec.Roles
	diff(t, "updated PodGroup", view.Change{Action: "Update", Seen: larger, Wanted: want}, updated)
}
