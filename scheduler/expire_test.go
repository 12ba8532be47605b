package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

func TestPodsOfGroupsWithoutJobExpireByAge(t *testing.T) {
	t.Parallel()
	limit := v1beta1.Duration("1h30m")
	queue := newQueue(func(s *v1beta1.QueueSpec) { s.MaxDuration = &limit })
	old, young := newPod(running), newPod(running)
	old.CreationTimestamp.Time = now.Add(-90 * time.Minute)
	young.CreationTimestamp.Time = now.Add(-80 * time.Minute)
	ended := newPod(succeeded)
	ended.CreationTimestamp.Time = now.Add(-24 * time.Hour)
	d := decide(native{}, queueView{Queue: queue, Groups: []groupView{
		newGroup("a", 2, old, young, ended), newGroup("foreign", 1, old).unselected(),
	}}, now)
	if len(d.Expired) != 1 || d.Expired[0].Name != "a-0" {
		t.Errorf("the pods %v expire, want only a-0", podNames(d.Expired))
	}
	if until(d.RequeueAt) != 10*time.Minute {
		t.Errorf("the queue is reconciled again after %s, want 10m", until(d.RequeueAt))
	}
}

// ago returns the time that is d before now.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// onNodeFor returns a change that makes a pod run. A scheduler bound the pod the given time ago.
func onNodeFor(d time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		running(pod)
		pod.CreationTimestamp = ago(2 * d)
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(d)},
		}
	}
}

// ofKind returns the group with an owner of the given API version and kind as its controller.
func (g groupView) ofKind(version, kind string) groupView {
	g.Group.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: version, Kind: kind, Name: g.Group.Name, UID: "owner", Controller: new(true)},
	}
	return g
}

// scheduledFor returns the group with the status of a group that was first scheduled the given time ago.
func (g groupView) scheduledFor(d time.Duration) groupView {
	g.Group.Status.ScheduledTime = new(ago(d))
	return g
}

// exceededFor returns the group with the condition MaxDurationExceeded, which became True the given time ago.
func (g groupView) exceededFor(d time.Duration) groupView {
	meta.SetStatusCondition(&g.Group.Status.Conditions, metav1.Condition{
		Type: v1beta1.ConditionMaxDurationExceeded, Status: metav1.ConditionTrue,
		Reason: v1beta1.ReasonMaxDurationExceeded, LastTransitionTime: ago(d),
	})
	return g
}

func TestMaxDurationOfQueue(t *testing.T) {
	t.Parallel()
	const jobs = "batch.tensorstack.dev/v1beta1"
	limit := v1beta1.Duration("1h")
	type result struct {
		Scheduled *metav1.Time
		Exceeded  string
		Status    metav1.ConditionStatus
		Reason    string
		Expired   []string
		RequeueIn time.Duration
	}
	young := newPod(onNodeFor(time.Minute))
	for name, tc := range map[string]struct {
		group groupView
		// orphans are pods of the queue whose group is gone.
		orphans []*corev1.Pod
		// unlimited removes maxDuration from the queue.
		unlimited bool
		want      result
	}{
		"the time of a job does not start before its group is scheduled, however old its pods are": {
			group: newGroup("a", 2, newPod(gated), newPod(gated)).ofKind(jobs, "DeepSpeedJob"),
			want:  result{RequeueIn: waitingDelay},
		},
		"the time starts when the first pod was bound": {
			group: newGroup("a", 2, young, newPod(onNodeFor(50*time.Minute))).ofKind(jobs, "DeepSpeedJob"),
			want:  result{Scheduled: new(ago(50 * time.Minute)), RequeueIn: 10 * time.Minute},
		},
		"the time starts when the first pod was bound, in whatever order the pods are listed": {
			group: newGroup("a", 2, newPod(onNodeFor(50*time.Minute)), young).ofKind(jobs, "DeepSpeedJob"),
			want:  result{Scheduled: new(ago(50 * time.Minute)), RequeueIn: 10 * time.Minute},
		},
		"other conditions of pods do not start the time": {
			group: newGroup("a", 1, newPod(onNodeFor(10*time.Minute)), newPod(onNodeFor(10*time.Minute), func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)},
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Hour)},
				}
			})).ofKind(jobs, "DeepSpeedJob"),
			want: result{Scheduled: new(ago(10 * time.Minute)), RequeueIn: 50 * time.Minute},
		},
		"no scheduledTime is recorded in a queue without maxDuration": {
			group: newGroup("a", 1, young).ofKind(jobs, "DeepSpeedJob"), unlimited: true,
		},
		"a job continues if maxDuration was removed": {
			group:     newGroup("a", 1, young).ofKind(jobs, "DeepSpeedJob").scheduledFor(2 * time.Hour),
			unlimited: true,
			want:      result{Scheduled: new(ago(2 * time.Hour))},
		},
		"pods whose group is gone expire one by one": {
			group:   newGroup("a", 1),
			orphans: []*corev1.Pod{newPod(onNodeFor(time.Hour), func(pod *corev1.Pod) { pod.Name = "orphan" })},
			want:    result{Expired: []string{"orphan"}, RequeueIn: waitingDelay},
		},
		"a pod that is being deleted is not deleted again": {
			group: newGroup("a", 1, newPod(onNodeFor(time.Hour), deleting)),
			want:  result{Scheduled: new(ago(time.Hour))},
		},
		"the queue is requeued when the next pod expires": {
			group: newGroup("a", 3,
				newPod(onNodeFor(10*time.Minute)), newPod(onNodeFor(25*time.Minute)), newPod(onNodeFor(5*time.Minute))),
			want: result{Scheduled: new(ago(25 * time.Minute)), RequeueIn: 10 * time.Minute},
		},
		"restarts of pods do not extend the time": {
			group: newGroup("a", 1, young).ofKind(jobs, "DeepSpeedJob").scheduledFor(50 * time.Minute),
			want:  result{Scheduled: new(ago(50 * time.Minute)), RequeueIn: 10 * time.Minute},
		},
		"MaxDurationExceeded becomes True before any pod is deleted": {
			group: newGroup("a", 1, young).ofKind(jobs, "DeepSpeedJob").scheduledFor(time.Hour),
			want: result{
				Scheduled: new(ago(time.Hour)), RequeueIn: 30 * time.Second,
				Exceeded: `the group was on nodes for longer than spec.maxDuration (1h) of Queue "lab"`,
				Status:   metav1.ConditionTrue, Reason: "MaxDurationExceeded",
			},
		},
		"the job controller has half a minute to end the job": {
			group: newGroup("a", 1, young).ofKind(jobs, "DeepSpeedJob").
				scheduledFor(2 * time.Hour).exceededFor(20 * time.Second),
			want: result{
				Scheduled: new(ago(2 * time.Hour)), RequeueIn: 10 * time.Second,
				Exceeded: `the group was on nodes for longer than spec.maxDuration (1h) of Queue "lab"`,
				Status:   metav1.ConditionTrue, Reason: "MaxDurationExceeded",
			},
		},
		"the pods of a job are deleted if the job does not end within half a minute": {
			group: newGroup("a", 3, young, newPod(succeeded), newPod(running, deleting)).ofKind(jobs, "DeepSpeedJob").
				scheduledFor(2 * time.Hour).exceededFor(30 * time.Second),
			want: result{
				Scheduled: new(ago(2 * time.Hour)), Expired: []string{"a-0"},
				Exceeded: `the group was on nodes for longer than spec.maxDuration (1h) of Queue "lab"`,
				Status:   metav1.ConditionTrue, Reason: "MaxDurationExceeded",
			},
		},
		"pods of a TensorBoard expire one by one, since a TensorBoard cannot end": {
			group: newGroup("a", 2, young, newPod(onNodeFor(time.Hour))).ofKind("tensorstack.dev/v1beta1", "TensorBoard"),
			want: result{
				Scheduled: new(ago(time.Hour)), Expired: []string{"a-1"}, RequeueIn: 58 * time.Minute,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.MaxDuration = &limit })
			if tc.unlimited {
				queue.Spec.MaxDuration = nil
			}
			d := decide(native{}, queueView{Queue: queue, Groups: []groupView{tc.group}, Orphans: tc.orphans}, now)
			got := result{Scheduled: d.Groups["team/a"].ScheduledTime, RequeueIn: until(d.RequeueAt)}
			if c := meta.FindStatusCondition(d.Groups["team/a"].Conditions, v1beta1.ConditionMaxDurationExceeded); c != nil {
				got.Exceeded, got.Status, got.Reason = c.Message, c.Status, c.Reason
			}
			for _, pod := range d.Expired {
				got.Expired = append(got.Expired, pod.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected decision (-want +got):\n%s", diff)
			}
		})
	}
}
