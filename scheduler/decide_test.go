package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// outcome is a decision in a form that tests can compare. It has the reasons of conditions instead of whole statuses.
type outcome struct {
	// Queue and Groups are the types and reasons of the conditions in the order of the status, such as "Active=Open".
	Queue  []string
	Groups map[string][]string
	// Gated are the keys of the groups whose pods need the gate according to the new status. Release and Expired are the
	// names of the pods to release and to delete.
	Gated, Release, Expired []string
	RequeueIn               time.Duration
}

func outcomeOf(d decision) outcome {
	reasons := func(conditions []metav1.Condition) []string {
		var all []string
		for _, c := range conditions {
			all = append(all, c.Type+"="+c.Reason)
		}
		return all
	}
	o := outcome{
		Queue:   reasons(d.Queue.Conditions),
		Release: podNames(d.Release), Expired: podNames(d.Expired), RequeueIn: until(d.RequeueAt),
	}
	for key, status := range d.Groups {
		if o.Groups == nil {
			o.Groups = map[string][]string{}
		}
		o.Groups[key] = reasons(status.Conditions)
		if status.Gated {
			o.Gated = append(o.Gated, key)
		}
	}
	return o
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		fairShare = "FairShareHonoured=NotSupportedByEngine"
		open      = "Active=Open"
		admitted  = "Admitted=Admitted"
		enough    = "SufficientGroupMember=EnoughPods"
		placed    = "GroupScheduled=Scheduled"
	)
	const class = "t9k-native-10"
	// of returns the PodGroup "a", which needs one pod and has a group of kube-scheduler.
	of := func(pods ...*corev1.Pod) groupView { return newGroup("a", 1, pods...).ofClass(class) }
	ofRoles := of(newPod(grouped), newPod(grouped)).withRoles(v1beta1.PodGroupRole{Name: "w", MinMember: 1})
	failing := newGroup("failing", 1)
	failing.Unknown = true
	limited := newQueue(func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: cpu("1")} })
	for name, tc := range map[string]struct {
		engine engine
		view   queueView
		want   outcome
	}{
		"a waiting group is compared with the group of the engine every minute": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{of(newPod(grouped))}},
			want: outcome{
				Queue: []string{open, fairShare}, RequeueIn: time.Minute,
				Groups: map[string][]string{"team/a": {admitted, enough, "GroupScheduled=Scheduling"}},
			},
		},
		"a queue whose groups are on nodes is not reconciled again by itself": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{of(newPod(grouped, running))}},
			want: outcome{
				Queue: []string{open, fairShare}, Groups: map[string][]string{"team/a": {admitted, enough, placed}},
			},
		},
		"a queue is reconciled again at the time that was observed": {
			view: queueView{
				Queue: newQueue(nil), Groups: []groupView{of(newPod(grouped, running))}, RequeueAt: now.Add(time.Second),
			},
			want: outcome{
				Queue: []string{open, fairShare}, RequeueIn: time.Second,
				Groups: map[string][]string{"team/a": {admitted, enough, placed}},
			},
		},
		"conditions report what the engine does not support": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{ofRoles}},
			want: outcome{
				Queue: []string{open, fairShare}, RequeueIn: time.Minute,
				Groups: map[string][]string{"team/a": {
					admitted, "SufficientGroupMember=TooFewPods", "GroupScheduled=TooFewPods",
					"RolesHonoured=NotSupportedByEngine",
				}},
			},
		},
		"pods wait for a quota that the engine does not enforce": {
			view: queueView{Queue: limited, Groups: []groupView{of(newPod(grouped, gated, ofClass(class)))}},
			want: outcome{
				Queue: []string{open, fairShare}, Gated: []string{"team/a"}, Release: []string{"a-0"}, RequeueIn: time.Minute,
				Groups: map[string][]string{"team/a": {admitted, enough, "GroupScheduled=Scheduling"}},
			},
		},
		"a pod without the PriorityClass of its group is not released to kube-scheduler": {
			view: queueView{Queue: limited, Groups: []groupView{of(newPod(grouped, gated))}},
			want: outcome{
				Queue: []string{open, fairShare}, Gated: []string{"team/a"}, RequeueIn: time.Minute,
				Groups: map[string][]string{"team/a": {admitted, enough, "GroupScheduled=PriorityClassMismatch"}},
			},
		},
		"a pod without the PriorityClass of its group is released to Volcano": {
			engine: volcano{},
			view: queueView{
				Queue: limited, Groups: []groupView{newGroup("a", 1, newPod(gated)).ofClass("t9k-volcano-10")},
			},
			want: outcome{
				Queue: []string{open}, Release: []string{"a-0"}, RequeueIn: time.Minute,
				Groups: map[string][]string{"team/a": {admitted, enough, "GroupScheduled=Scheduling"}},
			},
		},
		"a group without a queue waits for it": {
			view: queueView{Groups: []groupView{of(newPod(grouped))}},
			want: outcome{RequeueIn: time.Minute, Groups: map[string][]string{
				"team/a": {"Admitted=QueueNotFound", enough, "GroupScheduled=QueueNotFound"},
			}},
		},
		"an engine that cannot schedule groups is checked again after half a minute": {
			view: queueView{
				Queue: newQueue(nil), Groups: []groupView{newGroup("a", 1)}, Blocker: newBlocker("not installed", now),
			},
			want: outcome{
				Queue: []string{open, fairShare}, RequeueIn: 30 * time.Second,
				Groups: map[string][]string{"team/a": {
					"Admitted=EngineNotReady", "SufficientGroupMember=TooFewPods", "GroupScheduled=EngineNotReady",
				}},
			},
		},
		"a group without a known state keeps its status, and the others do not wait for it": {
			view: queueView{Queue: newQueue(nil), Groups: []groupView{failing, of(newPod(grouped, running))}},
			want: outcome{
				Queue: []string{open, fairShare}, RequeueIn: time.Minute,
				Groups: map[string][]string{"team/a": {admitted, enough, placed}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.engine == nil {
				tc.engine = native{}
			}
			before := slices.Clone(tc.view.Groups)
			got := outcomeOf(decide(tc.engine, tc.view, now))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.view.Groups); diff != "" {
				t.Errorf("decide changed its argument (-before +after):\n%s", diff)
			}
		})
	}
}
