package plan

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
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
)

// inQueue lets the replicas be scheduled as a gang, from queue lab.
func (b *jobBuilder) inQueue() *jobBuilder {
	b.Spec.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab", Priority: new(int32(10))}}
	b.DependentRetry = time.Minute
	return b
}

// errNotInstalled is the problem of a job whose PodGroup cannot be had.
var errNotInstalled = &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: errors.New("podgroups are not installed")}

func TestGangIsAllOrNothingInAQueue(t *testing.T) {
	t.Parallel()
	nowhere := job(role("worker", 1))
	nowhere.Spec.Scheduler = &batchv1beta1.SchedulePolicy{}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want bool
	}{
		"in a queue":                   {job(role("worker", 1)).inQueue(), true},
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
			tc.job.sees()
			diff(t, "all or nothing", []bool{tc.want}, got)
		})
	}
}

// grouped is an Observation of a PodGroup, nil for none, and pods.
func grouped(g *schedulerv1beta1.PodGroup, pods ...*corev1.Pod) Observation {
	seen := seeing(pods...)
	seen.PodGroup.Object = g
	return seen
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
		view PodGroupView
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
			view: PodGroupView{Object: group(2)}, wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"an admitted group lets the pods be created": {
			view: PodGroupView{Object: group(2, admitted)}, wantCreates: both, wantReason: "Creating", wantMessage: "job-worker-0 is being created",
		},
		"what was admitted before the group was changed does not count": {
			view:       PodGroupView{Object: group(2, admitted, edited)},
			wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"a closed queue admits no pods": {
			view:       PodGroupView{Object: group(2, closed)},
			wantReason: "QueueClosed", wantMessage: "Queue lab is closed", wantEvents: []string{"QueueClosed"}, wantFromCache: true,
		},
		"that a queue is closed is told once": {
			job: job(role("worker", 2)).inQueue().sawIn(grouped(group(2, closed))), view: PodGroupView{Object: group(2, closed)},
			wantReason: "QueueClosed", wantMessage: "Queue lab is closed", wantFromCache: true,
		},
		"a queue that is closed later leaves the pods that are there": {
			job:  job(role("worker", 2)).inQueue().sawIn(grouped(group(2, admitted), running2()...)),
			view: PodGroupView{Object: group(2, closed)}, pods: running2(), wantReason: "ReplicasRunning",
			wantMessage: "all 2 replicas run or have ended", wantFromCache: true,
		},
		"a group of somebody else is left alone": {
			view:       PodGroupView{Object: group(2, admitted, foreignGroup)},
			wantReason: "NameConflict", wantInitialized: "NameConflict",
			wantMessage: "the job needs podgroup job, but one exists that is not the job's: delete it or rename the job",
			wantEvents:  []string{"NameConflict"}, wantWakeIn: time.Minute, wantFromCache: true,
		},
		"a group that is being deleted is waited for": {
			view: PodGroupView{Object: group(2, admitted, deletingGroup)}, wantReason: "Queued",
			wantMessage: "podgroup job is being deleted, and made anew once it is gone", wantFromCache: true,
		},
		"nothing is known yet": {
			view: PodGroupView{Unknown: true}, wantReason: "Queued", wantMessage: "it is not known yet which podgroups there are",
			wantWakeIn: CacheDelay, wantFromCache: true,
		},
		"nothing is known yet of a job whose queue was closed": {
			job:  job(role("worker", 2)).inQueue().sawIn(grouped(group(2, closed))),
			view: PodGroupView{Unknown: true}, wantReason: "QueueClosed", wantMessage: "Queue lab is closed",
			wantWakeIn: CacheDelay, wantFromCache: true,
		},
		"there is no such kind": {
			view:       PodGroupView{Problem: errNotInstalled},
			wantReason: "NotInstalled", wantMessage: errNotInstalled.Error(), wantInitialized: "NotInstalled",
			wantEvents: []string{"NotInstalled"}, wantWakeIn: time.Minute, wantFromCache: true,
		},
		"there is such a kind at last": {
			job:        job(role("worker", 2)).inQueue().sawIn(Observation{PodGroup: PodGroupView{Problem: errNotInstalled}}),
			view:       PodGroupView{Object: group(2)},
			wantReason: "Queued", wantMessage: waits, wantFromCache: true,
		},
		"there is no such kind any more, and all pods run": {
			job:  job(role("worker", 2)).inQueue().sawIn(grouped(group(2, admitted), running2()...)),
			view: PodGroupView{Problem: errNotInstalled}, pods: running2(),
			wantReason: "ReplicasRunning", wantMessage: "all 2 replicas run or have ended", wantInitialized: "NotInstalled",
			wantEvents: []string{"NotInstalled"}, wantWakeIn: time.Minute, wantFromCache: true,
		},
		"a group that somebody deleted is made anew": {
			job:  job(role("worker", 2)).inQueue().sawIn(grouped(group(2, admitted), running2()...)),
			pods: running2(), wantChange: "Create", wantMin: 2, wantReason: "ReplicasRunning", wantMessage: "all 2 replicas run or have ended",
		},
		"a gang that does not fit says so for all": {
			view: PodGroupView{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "Unschedulable", "0 of 2 pods are on nodes"))},
			pods: []*corev1.Pod{pod("job-worker-0", unschedulable), pod("job-worker-1", unschedulable)}, wantReason: "Unschedulable",
			wantMessage: "0 of 2 pods are on nodes", wantFromCache: true,
		},
		"a gang that is about to be scheduled is merely on its way": {
			view: PodGroupView{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "TooFewPods", "1 of 2 pods exist"))},
			pods: []*corev1.Pod{pod("job-worker-0", unschedulable), pod("job-worker-1", unschedulable)}, wantReason: "Pending",
			wantMessage: "job-worker-0 waits to be scheduled with its gang: 1 of 2 pods exist", wantFromCache: true,
		},
		"a pod beyond what the gang needs says by itself what it waits for": {
			view: PodGroupView{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""))},
			pods: []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable)}, wantReason: "Unschedulable",
			wantMessage: "job-worker-1 cannot be scheduled: 0/3 nodes are available", wantFromCache: true,
		},
		"a pod beyond what the gang needs waits for its queue": {
			view: PodGroupView{Object: group(2, admitted,
				withCondition("GroupScheduled", metav1.ConditionTrue, "Scheduled", ""))},
			pods: []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable, gated)}, wantReason: "Pending",
			wantMessage: "job-worker-1, which the gang can do without, waits until its queue has room", wantFromCache: true,
		},
		"an elastic job needs its least number": {
			job: job(role("worker", 0)).elastic(1, 2).inQueue(), wantChange: "Create", wantMin: 1, wantReason: "Queued", wantMessage: waits,
		},
		"an elastic job creates all that are expected": {
			job: job(role("worker", 0)).elastic(1, 2).inQueue(), view: PodGroupView{Object: group(1, admitted)},
			wantCreates: both, wantReason: "Creating", wantMessage: "job-worker-0 is being created",
		},
		"a replacement does not wait for a peer that has succeeded": {
			job: job(role("worker", 3)).scope(scopeReplica).inQueue().sawIn(grouped(group(3, admitted),
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), running), pod("job-worker-2", onNode("a"), exited(0)))),
			view:       PodGroupView{Object: group(3, admitted)},
			pods:       []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), exited(1)), pod("job-worker-2", onNode("a"), exited(0))},
			wantChange: "Update", wantMin: 2, wantReason: "Restarting", wantMessage: "job-worker-1 is being replaced",
		},
		"peers that end one by one leave the group as it is": {
			job: job(role("worker", 3)).scope(scopeReplica).inQueue().sawIn(grouped(group(3, admitted),
				pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), running), pod("job-worker-2", onNode("a"), running))),
			view:       PodGroupView{Object: group(3, admitted)},
			pods:       []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", onNode("a"), exited(0)), pod("job-worker-2", onNode("a"), exited(0))},
			wantReason: "ReplicasRunning", wantMessage: "all 3 replicas run or have ended", wantFromCache: true,
		},
		"a peer that succeeds while a replacement waits is not waited for": {
			job: job(role("worker", 3)).scope(scopeReplica).inQueue(),
			view: PodGroupView{Object: group(3, admitted,
				withCondition("GroupScheduled", metav1.ConditionFalse, "Unschedulable", "2 of 3"))},
			pods: []*corev1.Pod{pod("job-worker-0", onNode("a"), running), pod("job-worker-1", unschedulable), pod("job-worker-2", onNode("a"), exited(0))}, wantChange: "Update", wantMin: 2,
			wantReason: "Unschedulable", wantMessage: "2 of 3",
		},
		"the priority is for administrators to change": {
			view:        PodGroupView{Object: group(2, admitted, func(g *schedulerv1beta1.PodGroup) { g.Spec.Priority = new(int32(99)) })},
			wantCreates: both, wantReason: "Creating", wantMessage: "job-worker-0 is being created",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := tc.job
			if j == nil {
				j = job(role("worker", 2)).inQueue()
			}
			if j.Spec.Elastic != nil && tc.view.Object != nil {
				elasticGroup(tc.view.Object)
			}
			seen := seeing(tc.pods...)
			seen.PodGroup = tc.view
			before := tc.view.Object.DeepCopy()
			d := Decide(j.Job, seen, now)
			diff(t, "change", tc.wantChange, d.PodGroup.Change)
			if tc.wantChange != "" {
				diff(t, "minMember", tc.wantMin, d.PodGroup.Spec.MinMember)
			}
			diff(t, "creations", tc.wantCreates, summarize(d).Creates)
			diff(t, "group that is changed", tc.wantChange == "Update", d.PodGroup.Object != nil)
			condition := meta.FindStatusCondition(d.Status.Conditions, batchv1beta1.ConditionRunning)
			diff(t, "reason", tc.wantReason, condition.Reason)
			diff(t, "reason of the status", cmp.Or(tc.wantInitialized, tc.wantReason), d.Status.Reason)
			if !strings.HasSuffix(condition.Message, tc.wantMessage) {
				t.Errorf("unexpected message %q, want %q", condition.Message, tc.wantMessage)
			}
			diff(t, "reason of Initialized", cmp.Or(tc.wantInitialized, "Accepted"), initialized(d.Status).Reason)
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
			for _, p := range d.Creates {
				diff(t, "group of a pod", "job", p.Labels[schedulerv1beta1.LabelGroupName])
				diff(t, "role of a pod", "worker", p.Labels[schedulerv1beta1.LabelRole])
				diff(t, "scheduler of a pod", "t9k-scheduler", p.Spec.SchedulerName)
			}
			diff(t, "group that was seen", before, tc.view.Object)
		})
	}
}

// Of the pods of an elastic job kube-scheduler has to know as many as are needed, and the others must not be in their way.
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
			job: job(role("worker", 2)).inQueue(), wantMembers: []string{"job-worker-0", "job-worker-1"},
		},
		"of a new job the first are": {
			job:         job(role("worker", 0)).elastic(2, 4).inQueue(),
			wantMembers: []string{"job-worker-0", "job-worker-1"}, wantExtra: []string{"job-worker-2", "job-worker-3"},
		},
		"another takes the place of one that was": {
			job:  job(role("worker", 0)).elastic(2, 3).inQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(2)}, wantMembers: []string{"job-worker-1"},
		},
		"another takes the place of one that was not": {
			job:  job(role("worker", 0)).elastic(2, 3).inQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(1, member)}, wantExtra: []string{"job-worker-2"},
		},
		"who is being deleted will not do its part": {
			job:  job(role("worker", 0)).elastic(2, 3).inQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(1, member, deleting)}, wantMembers: []string{"job-worker-2"},
		},
		"the leader always is": {
			job:  job(role("worker", 0)).elastic(2, 3).inQueue(),
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
			for _, p := range Decide(tc.job.Job, grouped(g, tc.pods...), now).Creates {
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

// sawIn lets the job be reconciled a minute ago, when this is what there was, and keeps the status that came of it.
func (b *jobBuilder) sawIn(seen Observation) *jobBuilder {
	b.Status = Decide(b.Job, seen, now.Add(-time.Minute)).Status
	return b
}

// A template that makes no pod needs no group to say so.
func TestPodGroupAndTemplateThatMakesNoPod(t *testing.T) {
	t.Parallel()
	d := Decide(job(role("worker", 2)).inQueue().refusing("no container").Job, grouped(group(2)), now)
	diff(t, "reason", batchv1beta1.ReasonInvalidTemplate, d.Status.Reason)
	diff(t, "creations", []string(nil), summarize(d).Creates)
}

// What a job does not need any more is for others at once.
func TestPodGroupIsReleased(t *testing.T) {
	t.Parallel()
	started := func() *jobBuilder {
		return job(role("worker", 1)).inQueue().deadline(3600).sawIn(grouped(group(1, admitted), pod("job-worker-0", running)))
	}
	finished := func() *jobBuilder {
		return started().sawIn(grouped(group(1, admitted), pod("job-worker-0", exited(0))))
	}
	for name, tc := range map[string]struct {
		job        *jobBuilder
		seen       Observation
		wantChange string
		wantWakeIn time.Duration
	}{
		"as the job succeeds": {
			job: started(), seen: grouped(group(1, admitted), pod("job-worker-0", exited(0))), wantChange: "Delete",
		},
		"as the job fails": {
			job:  started().backoffLimit(0),
			seen: grouped(group(1, admitted), pod("job-worker-0", exited(1))), wantChange: "Delete",
		},
		"as the job is paused": {
			job: started().paused(true), seen: grouped(group(1, admitted), pod("job-worker-0", running)), wantChange: "Delete",
		},
		"of a job that is paused while it waits": {
			job: job(role("worker", 1)).inQueue().sawIn(grouped(group(1))).paused(true), seen: grouped(group(1)), wantChange: "Delete",
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
			job: finished(), seen: Observation{PodGroup: PodGroupView{Unknown: true}}, wantWakeIn: CacheDelay,
		},
		"as soon as it can be read": {
			job:        finished(),
			seen:       Observation{PodGroup: PodGroupView{Problem: &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: errors.New("forbidden")}}},
			wantWakeIn: time.Minute,
		},
		"and where there is no such kind there is nothing to release": {
			job: finished(), seen: Observation{PodGroup: PodGroupView{Problem: errNotInstalled}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(tc.job.Job, tc.seen, now)
			diff(t, "change", tc.wantChange, d.PodGroup.Change)
			diff(t, "wake", tc.wantWakeIn, summarize(d).WakeIn)
			diff(t, "creations", 0, len(d.Creates))
		})
	}
}
