package dependents_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/dependents"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

func TestGangIsAllOrNothingInAQueue(t *testing.T) {
	t.Parallel()
	nowhere := job(role("worker", 1))
	nowhere.Spec.Scheduler = &batchv1beta1.SchedulePolicy{}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want bool
	}{
		"in a queue":                   {job(role("worker", 1)).InQueue(), true},
		"without a scheduler":          {job(role("worker", 1)), false},
		"with a scheduler of no queue": {nowhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []bool
			tc.job.Wire = func(gang framework.Gang, _ framework.Member, _ *corev1.PodTemplateSpec) error {
				got = append(got, gang.AllOrNothing)
				return nil
			}
			tc.job.Sees()
			diff(t, "all or nothing", []bool{tc.want}, got)
		})
	}
}

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
		view dependents.PodGroup
		pods []*corev1.Pod

		wantChange string
		// wantMin is what the group is to need once it is created or changed.
		wantMin     int32
		wantCreates []string
		wantReason  string
		wantMessage string
		// wantInitialized is the reason of the condition of that name.
		wantInitialized string
		wantEvents      []string
		wantWakeIn      time.Duration
		// wantFromCache reports whether the cache is good enough to decide.
		wantFromCache bool
	}{
		"a new job has its group before its pods": {
			wantChange: "Create", wantMin: 2, wantReason: "Queued", wantMessage: waits,
		},
		"a group that nobody has looked at admits no pods": {
			view: podGroup{Object: group(2)}, wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"an admitted group lets the pods be created": {
			view: podGroup{Object: group(2, admitted)}, wantCreates: both, wantReason: "Creating",
			wantMessage: "job-worker-0 is being created",
		},
		"what was admitted before the group was changed does not count": {
			view:       podGroup{Object: group(2, admitted, edited)},
			wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"a closed queue admits no pods": {
			view:       podGroup{Object: group(2, closed)},
			wantReason: "QueueClosed", wantMessage: "Queue lab is closed", wantEvents: []string{"QueueClosed"},
			wantFromCache: true,
		},
		"that a queue is closed is told once": {
			job: job(role("worker", 2)).InQueue().SawIn(grouped(group(2, closed))), view: podGroup{Object: group(2, closed)},
			wantReason: "QueueClosed", wantMessage: "Queue lab is closed", wantFromCache: true,
		},
		"a queue that is closed later leaves the pods that are there": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, admitted), running2()...)),
			view: podGroup{Object: group(2, closed)}, pods: running2(), wantReason: "ReplicasRunning",
			wantMessage: "all 2 replicas run or have ended", wantFromCache: true,
		},
		"a group of somebody else is left alone": {
			view:       podGroup{Object: group(2, admitted, foreignGroup)},
			wantReason: "NameConflict", wantInitialized: "NameConflict",
			wantMessage: "the job needs podgroup job, but one exists that is not the job's: delete it or rename the job",
			wantEvents:  []string{"NameConflict"}, wantWakeIn: time.Minute, wantFromCache: true,
		},
		"a group that is being deleted is waited for": {
			view: podGroup{Object: group(2, admitted, deletingGroup)}, wantReason: "Queued",
			wantMessage: "podgroup job is being deleted, and made anew once it is gone", wantFromCache: true,
		},
		"nothing is known yet": {
			view: podGroup{Unknown: true}, wantReason: "Queued", wantMessage: "it is not known yet which podgroups there are",
			wantWakeIn: plan.CacheDelay, wantFromCache: true,
		},
		"nothing is known yet of a job whose queue was closed": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, closed))),
			view: podGroup{Unknown: true}, wantReason: "QueueClosed", wantMessage: "Queue lab is closed",
			wantWakeIn: plan.CacheDelay, wantFromCache: true,
		},
		"there is no such kind": {
			view:       podGroup{Problem: errNotInstalled},
			wantReason: "NotInstalled", wantMessage: errNotInstalled.Error(), wantInitialized: "NotInstalled",
			wantEvents: []string{"NotInstalled"}, wantWakeIn: time.Minute, wantFromCache: true,
		},
		"there is such a kind at last": {
			job:        job(role("worker", 2)).InQueue().SawIn(plan.Observation{Admission: podGroup{Problem: errNotInstalled}}),
			view:       podGroup{Object: group(2)},
			wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"there is no such kind any more, and all pods run": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, admitted), running2()...)),
			view: podGroup{Problem: errNotInstalled}, pods: running2(),
			wantReason: "ReplicasRunning", wantMessage: "all 2 replicas run or have ended", wantInitialized: "NotInstalled",
			wantEvents: []string{"NotInstalled"}, wantWakeIn: time.Minute, wantFromCache: true,
		},
		"a group that somebody deleted is made anew": {
			job:  job(role("worker", 2)).InQueue().SawIn(grouped(group(2, admitted), running2()...)),
			pods: running2(), wantChange: "Create", wantMin: 2, wantReason: "ReplicasRunning",
			wantMessage: "all 2 replicas run or have ended",
		},
		"a gang that does not fit says so for all": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "Unschedulable", "0 of 2 pods are on nodes"))},
			pods:        []*corev1.Pod{pod("job-worker-0", unschedulable), pod("job-worker-1", unschedulable)},
			wantReason:  "Unschedulable",
			wantMessage: "0 of 2 pods are on nodes", wantFromCache: true,
		},
		"a gang that is about to be scheduled is merely on its way": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "TooFewPods", "1 of 2 pods exist"))},
			pods: []*corev1.Pod{pod("job-worker-0", unschedulable), pod("job-worker-1", unschedulable)}, wantReason: "Pending",
			wantMessage: "job-worker-0 waits to be scheduled with its gang: 1 of 2 pods exist", wantFromCache: true,
		},
		"a pod beyond what the gang needs says by itself what it waits for": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""))},
			pods:        []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable)},
			wantReason:  "Unschedulable",
			wantMessage: "job-worker-1 cannot be scheduled: 0/3 nodes are available", wantFromCache: true,
		},
		"a pod beyond what the gang needs waits for its queue": {
			view: podGroup{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""))},
			pods:        []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable, gated)},
			wantReason:  "Pending",
			wantMessage: "job-worker-1, which the gang can do without, waits until its queue has room", wantFromCache: true,
		},
		"an elastic job needs its least number": {
			job: job(role("worker", 0)).Elastic(1, 2).InQueue(), wantChange: "Create", wantMin: 1, wantReason: "Queued",
			wantMessage: waits,
		},
		"an elastic job creates all that are expected": {
			job: job(role("worker", 0)).Elastic(1, 2).InQueue(), view: podGroup{Object: group(1, admitted)},
			wantCreates: both, wantReason: "Creating", wantMessage: "job-worker-0 is being created",
		},
		"a replacement does not wait for a peer that has succeeded": {
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
		"peers that end one by one leave the group as it is": {
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
		"a peer that succeeds while a replacement waits is not waited for": {
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
		"the priority is for administrators to change": {
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
			diff(t, "group that is changed", tc.wantChange == "Update", d.Admission.Seen != nil)
			condition := meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionRunning)
			diff(t, "reason", tc.wantReason, condition.Reason)
			diff(t, "reason of the status", cmp.Or(tc.wantInitialized, tc.wantReason), d.Status.Reason)
			if !strings.HasSuffix(condition.Message, tc.wantMessage) {
				t.Errorf("unexpected message %q, want %q", condition.Message, tc.wantMessage)
			}
			initialized := meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionInitialized)
			diff(t, "reason of Initialized", cmp.Or(tc.wantInitialized, "Accepted"), initialized.Reason)
			var told []string
			for _, e := range d.Events {
				if e.Type == corev1.EventTypeWarning && e.Reason != "Restarting" {
					told = append(told, e.Reason)
				}
			}
			diff(t, "warnings", tc.wantEvents, told)
			diff(t, "wake", tc.wantWakeIn, summarize(d).WakeIn)
			if d.NeedsLiveRead == tc.wantFromCache {
				t.Errorf("NeedsLiveRead is %t", d.NeedsLiveRead)
			}
			for _, p := range podsToCreate(d) {
				diff(t, "group of a pod", "job", p.Labels[schedulerv1beta1.LabelGroupName])
				diff(t, "role of a pod", "worker", p.Labels[schedulerv1beta1.LabelRole])
				diff(t, "scheduler of a pod", "t9k-scheduler", p.Spec.SchedulerName)
			}
			diff(t, "group that was seen", before, tc.view.Object)
		})
	}
}

// Of the pods of an elastic job kube-scheduler has to know as many as are needed, and the others must not be in their
// way.
func TestPodsBeyondWhatAGangNeeds(t *testing.T) {
	t.Parallel()
	member := func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("job")} }
	worker := func(index int, options ...podOption) *corev1.Pod {
		return pod(fmt.Sprintf("job-worker-%d", index), append([]podOption{onNode("a"), running}, options...)...)
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		// wantMembers and wantExtra are the pods that are created, those that are needed and the others.
		wantMembers, wantExtra []string
	}{
		"all pods of a job that is not elastic are needed": {
			job: job(role("worker", 2)).InQueue(), wantMembers: []string{"job-worker-0", "job-worker-1"},
		},
		"of a new job the first are": {
			job:         job(role("worker", 0)).Elastic(2, 4).InQueue(),
			wantMembers: []string{"job-worker-0", "job-worker-1"}, wantExtra: []string{"job-worker-2", "job-worker-3"},
		},
		"another takes the place of one that was": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(2)}, wantMembers: []string{"job-worker-1"},
		},
		"another takes the place of one that was not": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(1, member)}, wantExtra: []string{"job-worker-2"},
		},
		"who is being deleted will not do its part": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(1, member, deleting)}, wantMembers: []string{"job-worker-2"},
		},
		"the leader always is": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(1, member), worker(2, member)}, wantMembers: []string{"job-worker-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := group(2, admitted)
			if tc.job.Spec.Elastic != nil {
				elasticGroup(g)
			}
			var members, extra []string
			for _, p := range podsToCreate(plan.Decide(tc.job.Job, grouped(g, tc.pods...), now)) {
				if p.Spec.SchedulingGroup != nil {
					members = append(members, p.Name)
				} else {
					extra = append(extra, p.Name)
				}
			}
			diff(t, "members", tc.wantMembers, members)
			diff(t, "others", tc.wantExtra, extra)
		})
	}
}

// A template that makes no pod needs no group to say so.
func TestPodGroupAndTemplateThatMakesNoPod(t *testing.T) {
	t.Parallel()
	d := plan.Decide(job(role("worker", 2)).InQueue().Refusing("no container").Job, grouped(group(2)), now)
	diff(t, "reason", batchv1beta1.ReasonInvalidTemplate, d.Status.Reason)
	diff(t, "creations", []string(nil), summarize(d).Creates)
}

// What a job does not need any more is for others at once.
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
		job        *jobBuilder
		seen       plan.Observation
		wantChange string
		wantWakeIn time.Duration
	}{
		"as the job succeeds": {
			job: started(), seen: grouped(group(1, admitted), pod("job-worker-0", exited(0))), wantChange: "Delete",
		},
		"as the job fails": {
			job:  started().BackoffLimit(0),
			seen: grouped(group(1, admitted), pod("job-worker-0", exited(1))), wantChange: "Delete",
		},
		"as the job is paused": {
			job: started().Paused(true), seen: grouped(group(1, admitted), pod("job-worker-0", running)), wantChange: "Delete",
		},
		"of a job that is paused while it waits": {
			job: job(role("worker", 1)).InQueue().SawIn(grouped(group(1))).Paused(true), seen: grouped(group(1)),
			wantChange: "Delete",
		},
		"later, if the controller was stopped before": {
			job: finished(), seen: grouped(group(1, admitted), pod("job-worker-0", exited(0))), wantChange: "Delete",
		},
		"once": {
			job: finished(), seen: grouped(group(1, admitted, deletingGroup), pod("job-worker-0", exited(0))),
		},
		"and a finished job never gets another": {
			job: finished(), seen: grouped(nil, pod("job-worker-0", exited(0))),
		},
		"but not that of somebody else": {
			job: finished(), seen: grouped(group(1, foreignGroup), pod("job-worker-0", exited(0))),
		},
		"as soon as it is known": {
			job: finished(), seen: plan.Observation{Admission: podGroup{Unknown: true}}, wantWakeIn: plan.CacheDelay,
		},
		"as soon as it can be read": {
			job: finished(),
			seen: plan.Observation{
				Admission: podGroup{
					Problem: &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")},
				},
			},
			wantWakeIn: time.Minute,
		},
		"and where there is no such kind there is nothing to release": {
			job: finished(), seen: plan.Observation{Admission: podGroup{Problem: errNotInstalled}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Decide(tc.job.Job, tc.seen, now)
			diff(t, "change", tc.wantChange, d.Admission.Action)
			diff(t, "wake", tc.wantWakeIn, summarize(d).WakeIn)
			diff(t, "creations", 0, len(d.Creates))
		})
	}
}

// What a job wants of its PodGroup is written as a whole at first, and then only what the gang needs.
func TestPodGroupThatIsWanted(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).InQueue()
	need := plan.Need{Roles: j.Spec.Roles, Scheduling: true}
	created := podGroup{}.Request(&j.Job, need).Change
	want := &schedulerv1beta1.PodGroup{ObjectMeta: j.MetaOfOwned(), Spec: group(2).Spec}
	diff(t, "PodGroup that is created", plan.Change{Action: "Create", Wanted: want}, created)

	larger := group(3, admitted, func(g *schedulerv1beta1.PodGroup) { g.Spec.Priority = new(int32(99)) })
	updated := podGroup{Object: larger}.Request(&j.Job, need).Change
	want = larger.DeepCopy()
	want.Spec.MinMember, want.Spec.Roles = 2, group(2).Spec.Roles
	diff(t, "PodGroup that is updated", plan.Change{Action: "Update", Seen: larger, Wanted: want}, updated)
}
