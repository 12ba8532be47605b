package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan/decide"
)

func TestAvoidedNodeIsAllowedAgain(t *testing.T) {
	t.Parallel()
	a, b := avoidedNode("a", 20*time.Minute), avoidedNode("b", 10*time.Minute)
	waits := pod("job-worker-0", avoiding("a"), unschedulable)
	gated := pod("job-worker-0", avoiding("a"), func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Status: "False", Reason: "SchedulingGated"}}
	})
	const minute = time.Minute
	type result struct {
		Avoided   []batchv1beta1.AvoidedNode
		Deletes   []string
		RequeueIn time.Duration
		Urgent    bool
		Event     string
	}
	ignores := avoider(a)
	ignores.Spec.RunPolicy.BadNodePolicy = batchv1beta1.BadNodePolicyIgnore
	list := func(nodes ...batchv1beta1.AvoidedNode) []batchv1beta1.AvoidedNode { return nodes }
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pod  *corev1.Pod
		want result
	}{
		"a node is avoided for an hour": {
			job: avoider(a, b), pod: pod("job-worker-0", running), want: result{Avoided: list(a, b), RequeueIn: 40 * minute},
		},
		"after the hour the node is allowed": {
			job: avoider(avoidedNode("a", time.Hour), b), pod: pod("job-worker-0", running),
			want: result{
				Avoided: list(b), RequeueIn: 50 * minute, Event: "new pods can run on node a again: its time is over",
			},
		},
		"the node is allowed because its time is over if the last pod has just got a node": {
			job: avoider(until(a, 0)), pod: pod("job-worker-0", running, onNode("c")),
			want: result{Avoided: list(), Event: "new pods can run on node a again: its time is over"},
		},
		"a pod that still waits is replaced after the hour": {
			job: avoider(avoidedNode("a", time.Hour)), pod: gated,
			want: result{
				Avoided: list(), Deletes: []string{"job-worker-0"}, Event: "new pods can run on node a again: its time is over",
			},
		},
		"a pod that cannot be scheduled brings the end of the oldest node forward": {
			job: avoider(a, b), pod: waits,
			want: result{Avoided: list(until(a, 5*minute), b), RequeueIn: 5 * minute, Urgent: true},
		},
		"the end is not brought forward again": {
			job: avoider(until(a, 2*minute), b), pod: waits,
			want: result{Avoided: list(until(a, 2*minute), b), RequeueIn: 2 * minute, Urgent: true},
		},
		"the end is not postponed": {
			job: avoider(avoidedNode("a", 58*minute)), pod: waits,
			want: result{Avoided: list(avoidedNode("a", 58*minute)), RequeueIn: 2 * minute, Urgent: true},
		},
		"a pod that got a node restores the end": {
			job: avoider(until(a, 2*minute), b), pod: pod("job-worker-0", avoiding("a"), onNode("c"), unschedulable),
			want: result{Avoided: list(a, b), RequeueIn: 40 * minute},
		},
		"a pod that waits in a queue after it could not be scheduled does not restore the end": {
			job: avoider(until(a, 2*minute), b), pod: gated,
			want: result{Avoided: list(until(a, 2*minute), b), RequeueIn: 2 * minute},
		},
		"a pod that waits in a queue does not bring the end forward": {
			job: avoider(a, b), pod: gated, want: result{Avoided: list(a, b), RequeueIn: 40 * minute},
		},
		"a condition of another controller does not bring the end forward": {
			job: avoider(a, b), pod: pod("job-worker-0", avoiding("a"), func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: "example.com/Queue", Status: "False", Reason: "Unschedulable"}}
			}),
			want: result{Avoided: list(a, b), RequeueIn: 40 * minute},
		},
		"a pod that avoids no node does not bring the end forward": {
			job: avoider(a, b), pod: pod("job-worker-0", unschedulable),
			want: result{Avoided: list(a, b), RequeueIn: 40 * minute},
		},
		"after the patience the oldest node is allowed and the pod is replaced": {
			job: avoider(until(a, 0), b), pod: waits,
			want: result{
				Avoided: list(until(b, 5*minute)), RequeueIn: 5 * minute, Urgent: true, Deletes: []string{"job-worker-0"},
				Event: "new pods can run on node a again: replicas of the job have waited for a node",
			},
		},
		"a pod that avoids a node of a list before a crash is replaced": {
			job: avoider(b), pod: pod("job-worker-0", avoiding("a")),
			want: result{Avoided: list(b), RequeueIn: 50 * minute, Deletes: []string{"job-worker-0"}},
		},
		"a pod that has got a node is not replaced": {
			job: avoider(b), pod: pod("job-worker-0", avoiding("a"), onNode("c")),
			want: result{Avoided: list(b), RequeueIn: 50 * minute},
		},
		"a pod that is being deleted is not deleted again": {
			job: avoider(b), pod: pod("job-worker-0", avoiding("a"), deleting),
			want: result{Avoided: list(b), RequeueIn: untilOverdue},
		},
		"a job that opts out replaces the pod that waits": {
			job: ignores, pod: waits,
			want: result{
				Deletes: []string{"job-worker-0"}, Event: "new pods can run on node a again: runPolicy.badNodePolicy is Ignore",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := tc.job.Sees(tc.pod)
			got := result{
				Avoided: d.Status.AvoidedNodes, Deletes: names(d.CleanUps), RequeueIn: summarize(d).RequeueIn, Urgent: d.Urgent,
			}
			for _, event := range d.Events {
				if event.Reason == batchv1beta1.EventNodeAllowed {
					got.Event = event.Message
				}
			}
			diff(t, "decision", tc.want, got, cmpopts.EquateEmpty())
			diff(t, "restarts", []decide.Restart(nil), d.Restarts)
		})
	}
}

// Before AvoidNodesPatience is over, Kueue can evict a job because its pods do not start in time. When the job gets
// its next pods, AvoidNodesPatience must not begin again.
func TestEndOfAnAvoidedNodeIsNotPostponedWhileThePodsAreGone(t *testing.T) {
	t.Parallel()
	j := avoider(avoidedNode("a", 20*time.Minute))
	waits := pod("job-worker-0", avoiding("a"), unschedulable)
	j.Status = j.Sees(waits).Status
	want := ago(-5 * time.Minute)
	for _, pods := range [][]*corev1.Pod{{}, {pod("job-worker-0", avoiding("a"))}, {waits}} {
		d := j.DecideAt(now.Add(3*time.Minute), seeing(pods...))
		diff(t, "end", want, d.Status.AvoidedNodes[0].Until)
		j.Status = d.Status
	}
}
