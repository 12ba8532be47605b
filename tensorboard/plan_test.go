package tensorboard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const hash = "hash"

// seenPod returns a pod of the current spec that was created ten minutes ago, and applies the changes to it.
func seenPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "board-tb", Namespace: "team", UID: "pod-uid", CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Minute)),
			Annotations: map[string]string{annotationSpecHash: hash},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func ready(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func unschedulable(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
}

// endingFor returns a change that makes the pod exceed its grace period by the given time.
func endingFor(d time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-d)} }
}

func idleFor(d time.Duration) *answer {
	return &answer{Status: sidecar.Status{IdleSeconds: int64(d / time.Second)}}
}

// boardUID is the UID of the TensorBoard that owns the PodGroup.
const boardUID = "board-uid"

var (
	fromQueue = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "lab"}}
	admitted  = metav1.Condition{Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionTrue}
)

// newGroup returns the PodGroup of the TensorBoard.
func newGroup(conditions ...metav1.Condition) *schedulerv1beta1.PodGroup {
	return &schedulerv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: boardUID, Controller: new(true)}}},
		Status:     schedulerv1beta1.PodGroupStatus{Conditions: conditions},
	}
}

func TestPlanDecidesAboutThePod(t *testing.T) {
	t.Parallel()
	type actions struct {
		Create, Delete, Force    bool
		CreateGroup, DeleteGroup bool
		RequeueIn                time.Duration
		Phase                    v1beta1.TensorBoardPhase
		Reason                   string
	}
	running := actions{RequeueIn: time.Minute, Phase: v1beta1.TensorBoardRunning, Reason: v1beta1.ReasonServing}
	cases := map[string]struct {
		suspend   bool
		scheduler *batchv1beta1.SchedulePolicy
		seen      observation
		want      actions
	}{
		"a pod is created for a new TensorBoard": {
			want: actions{Create: true, Phase: v1beta1.TensorBoardPending, Reason: batchv1beta1.ReasonCreating},
		},
		"a TensorBoard waits for a claim that is not bound, and is requeued": {
			seen: observation{Claims: claims{Reason: v1beta1.ReasonClaimNotReady}},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonClaimNotReady},
		},
		"a TensorBoard fails if its claim is ReadWriteOncePod": {
			seen: observation{Claims: claims{Reason: v1beta1.ReasonClaimExclusive}},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardFailed, Reason: v1beta1.ReasonClaimExclusive},
		},
		"a running pod stays when its claim has disappeared": {
			seen: observation{Pod: seenPod(ready), Claims: claims{Reason: v1beta1.ReasonClaimNotReady}, Answer: idleFor(0)},
			want: running,
		},
		"a ready pod is probed again after the interval": {
			seen: observation{Pod: seenPod(ready), Answer: idleFor(0)},
			want: running,
		},
		"a TensorBoard is pending while its pod starts": {
			seen: observation{Pod: seenPod()},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending, Reason: batchv1beta1.ReasonPending},
		},
		"a TensorBoard whose image cannot be pulled fails with the reason ImagePull": {
			seen: observation{Pod: seenPod(func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name:  mainContainer,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
				}}
			})},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardFailed, Reason: batchv1beta1.ReasonImagePull},
		},
		"a TensorBoard whose container crashes repeatedly fails with the reason Crashing": {
			seen: observation{Pod: seenPod(func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name:  mainContainer,
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				}}
			})},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardFailed, Reason: v1beta1.ReasonCrashing},
		},
		"a pod of an earlier spec is deleted": {
			seen: observation{Pod: seenPod(ready), Wanted: server{Hash: "another"}, Answer: idleFor(0)},
			want: actions{
				Delete: true, RequeueIn: time.Minute,
				Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonStopping,
			},
		},
		"a pod that has ended is replaced": {
			seen: observation{Pod: seenPod(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })},
			want: actions{Delete: true, Phase: v1beta1.TensorBoardPending, Reason: batchv1beta1.ReasonRestarting},
		},
		"a pod that has ended soon after its creation is replaced after a delay": {
			seen: observation{Pod: seenPod(func(pod *corev1.Pod) {
				pod.Status.Phase = corev1.PodFailed
				pod.CreationTimestamp = metav1.NewTime(now.Add(-20 * time.Second))
			})},
			want: actions{
				RequeueIn: 40 * time.Second, Phase: v1beta1.TensorBoardPending,
				Reason: batchv1beta1.ReasonRestarting,
			},
		},
		"a TensorBoard waits for a terminating pod": {
			seen: observation{Pod: seenPod(endingFor(0))},
			want: actions{RequeueIn: nodeLostDelay, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonStopping},
		},
		"a pod on a lost node is force-deleted": {
			seen: observation{Pod: seenPod(endingFor(nodeLostDelay))},
			want: actions{Delete: true, Force: true, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonStopping},
		},
		"a pod is deleted if training needs its claim on another node": {
			seen: observation{Pod: seenPod(ready), Claims: claims{WantedOn: "node-2"}, Answer: idleFor(0)},
			want: actions{
				Delete: true, RequeueIn: time.Minute,
				Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonGivingWay,
			},
		},
		"a pod that waits for a node is recreated if its claim is needed on another node": {
			seen: observation{Pod: seenPod(func(pod *corev1.Pod) {
				pod.Spec.NodeName, pod.Spec.Affinity = "", affinityTo("node-1")
			}), Claims: claims{WantedOn: "node-2"}},
			want: actions{Delete: true, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonGivingWay},
		},
		"a pod that waits for a node is recreated if no pod uses its claim anymore": {
			seen: observation{Pod: seenPod(func(pod *corev1.Pod) {
				pod.Spec.NodeName, pod.Spec.Affinity = "", affinityTo("node-1")
			})},
			want: actions{Delete: true, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonGivingWay},
		},
		"a pod keeps waiting for the node where its claim is needed": {
			seen: observation{Pod: seenPod(unschedulable, func(pod *corev1.Pod) {
				pod.Spec.NodeName, pod.Spec.Affinity = "", affinityTo("node-1")
			}), Claims: claims{WantedOn: "node-1"}},
			want: actions{
				RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending,
				Reason: batchv1beta1.ReasonUnschedulable,
			},
		},
		"a pod stays if training needs its claim on the same node": {
			seen: observation{Pod: seenPod(ready), Claims: claims{WantedOn: "node-1"}, Answer: idleFor(0)},
			want: running,
		},
		"the pod of a suspended TensorBoard is deleted": {
			suspend: true,
			seen:    observation{Pod: seenPod(ready)},
			want:    actions{Delete: true, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonStopping},
		},
		"a suspended TensorBoard without a pod needs no action": {
			suspend: true,
			want:    actions{Phase: v1beta1.TensorBoardSuspended, Reason: v1beta1.ReasonSuspended},
		},
		"a TensorBoard with a queue fails if PodGroups are not installed": {
			scheduler: fromQueue, seen: observation{Group: groupView{NotInstalled: true}},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardFailed, Reason: batchv1beta1.ReasonNotInstalled},
		},
		"the PodGroup is created before the pod": {
			scheduler: fromQueue,
			want: actions{
				CreateGroup: true, RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonQueued,
			},
		},
		"there is no pod until the scheduler-controller has processed the PodGroup": {
			scheduler: fromQueue, seen: observation{Group: groupView{Object: newGroup()}},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending, Reason: v1beta1.ReasonQueued},
		},
		"there is no pod while the queue does not admit the PodGroup": {
			scheduler: fromQueue, seen: observation{Group: groupView{Object: newGroup(metav1.Condition{
				Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: schedulerv1beta1.ReasonQueueClosed,
			})}},
			want: actions{
				RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending,
				Reason: schedulerv1beta1.ReasonQueueClosed,
			},
		},
		"a TensorBoard fails if its PodGroup has another owner": {
			scheduler: fromQueue, seen: observation{Group: groupView{Object: &schedulerv1beta1.PodGroup{}}},
			want: actions{RequeueIn: pollInterval, Phase: v1beta1.TensorBoardFailed, Reason: batchv1beta1.ReasonNameConflict},
		},
		"the pod is created when the PodGroup is admitted": {
			scheduler: fromQueue, seen: observation{Group: groupView{Object: newGroup(admitted)}},
			want: actions{Create: true, Phase: v1beta1.TensorBoardPending, Reason: batchv1beta1.ReasonCreating},
		},
		"a pod without a node has the reason of its PodGroup": {
			scheduler: fromQueue, seen: observation{
				Pod: seenPod(func(pod *corev1.Pod) { pod.Spec.NodeName = "" }),
				Group: groupView{Object: newGroup(admitted, metav1.Condition{
					Type: schedulerv1beta1.ConditionGroupScheduled, Status: metav1.ConditionFalse,
					Reason: schedulerv1beta1.ReasonQuotaExceeded,
				})},
			},
			want: actions{
				RequeueIn: pollInterval, Phase: v1beta1.TensorBoardPending,
				Reason: schedulerv1beta1.ReasonQuotaExceeded,
			},
		},
		"the PodGroup of a suspended TensorBoard is deleted": {
			suspend: true, scheduler: fromQueue, seen: observation{Group: groupView{Object: newGroup(admitted)}},
			want: actions{DeleteGroup: true, Phase: v1beta1.TensorBoardSuspended, Reason: v1beta1.ReasonSuspended},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := &v1beta1.TensorBoard{
				ObjectMeta: metav1.ObjectMeta{UID: boardUID},
				Spec:       v1beta1.TensorBoardSpec{Suspend: tc.suspend, Scheduler: tc.scheduler},
			}
			if tc.seen.Wanted.Hash == "" {
				tc.seen.Wanted.Hash = hash
			}
			d := plan(tb, tc.seen, DefaultOptions(), now)
			got := actions{
				d.Create, d.Delete, d.Force, d.CreateGroup, d.DeleteGroup, until(d.RequeueAt), d.Status.Phase,
				condition(d.Status.Conditions, v1beta1.ConditionReady).Reason,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanDetectsIdleTensorBoards(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Status  metav1.ConditionStatus
		Reason  string
		Suspend bool
	}
	cases := map[string]struct {
		never  bool
		answer *answer
		want   outcome
	}{
		"a TensorBoard without a pod cannot be probed": {
			want: outcome{metav1.ConditionUnknown, v1beta1.ReasonNotRunning, false},
		},
		"a TensorBoard that does not respond is not idle": {
			answer: &answer{Err: errors.New("timeout")},
			want:   outcome{metav1.ConditionUnknown, v1beta1.ReasonProbeFailed, false},
		},
		"a TensorBoard with a request in the last hour is not idle": {
			answer: idleFor(time.Hour - time.Second), want: outcome{metav1.ConditionFalse, v1beta1.ReasonRecentRequest, false},
		},
		"a TensorBoard is idle after an hour without a request": {
			answer: idleFor(time.Hour), want: outcome{metav1.ConditionTrue, v1beta1.ReasonNoRequest, false},
		},
		"a TensorBoard is suspended after being idle for a day": {
			answer: idleFor(25 * time.Hour), want: outcome{metav1.ConditionTrue, v1beta1.ReasonCulled, true},
		},
		"an idle TensorBoard is never suspended if --suspend-after-idle is 0": {
			never: true, answer: idleFor(1000 * time.Hour), want: outcome{metav1.ConditionTrue, v1beta1.ReasonNoRequest, false},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			if tc.never {
				options.SuspendAfterIdle = 0
			}
			seen := observation{Wanted: server{Hash: hash}, Answer: tc.answer}
			if tc.answer != nil {
				seen.Pod = seenPod(ready)
			}
			d := plan(&v1beta1.TensorBoard{}, seen, options, now)
			c := condition(d.Status.Conditions, v1beta1.ConditionIdle)
			if diff := cmp.Diff(tc.want, outcome{c.Status, c.Reason, d.Suspend}); diff != "" {
				t.Errorf("unexpected outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// until returns the duration from now to a time. It returns 0 for the zero time, which means never.
func until(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return at.Sub(now)
}

// after sets the status of a TensorBoard to the result of plan, once for each step. A step returns an observation and
// its time.
func after(tb *v1beta1.TensorBoard, steps ...func() (observation, time.Time)) {
	for _, step := range steps {
		seen, at := step()
		seen.Wanted.Hash = hash
		tb.Status = plan(tb, seen, DefaultOptions(), at).Status
	}
}

func TestTheStatusDoesNotChangeAsTimePasses(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]time.Duration{"a TensorBoard in use": 0, "an idle TensorBoard": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := &v1beta1.TensorBoard{}
			observe := func(later time.Duration) func() (observation, time.Time) {
				return func() (observation, time.Time) {
					return observation{Pod: seenPod(ready), Answer: idleFor(idle + later)}, now.Add(later)
				}
			}
			after(tb, observe(0))
			first := tb.Status.DeepCopy()
			after(tb, observe(time.Minute), observe(2*time.Minute))
			if diff := cmp.Diff(first, &tb.Status); diff != "" {
				t.Errorf("the status changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestConditionsHaveTheTimeOfTheirLastChange(t *testing.T) {
	t.Parallel()
	tb := &v1beta1.TensorBoard{}
	after(tb,
		func() (observation, time.Time) { return observation{}, now },
		func() (observation, time.Time) { return observation{Pod: seenPod()}, now.Add(time.Minute) },
		func() (observation, time.Time) {
			return observation{Pod: seenPod(ready), Answer: idleFor(0)}, now.Add(2 * time.Minute)
		},
		func() (observation, time.Time) {
			return observation{Pod: seenPod(ready), Answer: idleFor(2 * time.Hour)}, now.Add(3 * time.Hour)
		},
	)
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }
	probed := func(d time.Duration) *metav1.Time { probed := at(d); return &probed }
	want := []v1beta1.TensorBoardCondition{
		{Type: "Ready", Status: "True", Reason: "Serving", LastTransitionTime: at(2 * time.Minute)},
		{
			Type: "SourcesAvailable", Status: "True", Reason: "AllAvailable", LastTransitionTime: at(2 * time.Minute),
			LastProbeTime: probed(2 * time.Minute),
		},
		{
			Type: "Idle", Status: "True", Reason: "NoRequest", LastTransitionTime: at(3 * time.Hour),
			LastProbeTime: probed(3 * time.Hour),
		},
	}
	if diff := cmp.Diff(want, tb.Status.Conditions,
		cmpopts.IgnoreFields(v1beta1.TensorBoardCondition{}, "Message")); diff != "" {
		t.Errorf("unexpected conditions (-want +got):\n%s", diff)
	}
}

func TestTheStatusRecordsWhoSuspendedTheTensorBoard(t *testing.T) {
	t.Parallel()
	reasons := func(tb *v1beta1.TensorBoard) [2]string {
		return [2]string{
			condition(tb.Status.Conditions, v1beta1.ConditionReady).Reason,
			condition(tb.Status.Conditions, v1beta1.ConditionIdle).Reason,
		}
	}
	nothing := func() (observation, time.Time) { return observation{}, now.Add(time.Minute) }
	tb := &v1beta1.TensorBoard{}
	after(tb, func() (observation, time.Time) {
		return observation{Pod: seenPod(ready), Answer: idleFor(25 * time.Hour)}, now
	})
	tb.Spec.Suspend = true
	after(tb, func() (observation, time.Time) { return observation{Pod: seenPod(endingFor(0))}, now }, nothing)
	if diff := cmp.Diff([2]string{"Culled", "Culled"}, reasons(tb)); diff != "" {
		t.Errorf("unexpected reasons while suspended (-want +got):\n%s", diff)
	}
	tb.Spec.Suspend = false
	after(tb, nothing)
	if diff := cmp.Diff([2]string{"Creating", "NotRunning"}, reasons(tb)); diff != "" {
		t.Errorf("unexpected reasons after the user resumed it (-want +got):\n%s", diff)
	}
	tb.Spec.Suspend = true
	after(tb, nothing)
	if diff := cmp.Diff([2]string{"Suspended", "NotRunning"}, reasons(tb)); diff != "" {
		t.Errorf("unexpected reasons after the user suspended it (-want +got):\n%s", diff)
	}
}

func TestTheConditionNamesASourceThatFails(t *testing.T) {
	t.Parallel()
	broken := &answer{Status: sidecar.Status{Sources: []sidecar.SourceStatus{
		{Run: "b", Source: "s3://b/runs", Error: "the Secret s has no key AWS_ACCESS_KEY_ID"},
		{Run: "c", Source: "http://c/x", Error: "404"},
	}}}
	seen := observation{Wanted: server{Hash: hash}, Pod: seenPod(ready), Answer: broken}
	d := plan(&v1beta1.TensorBoard{}, seen, DefaultOptions(), now)
	got := *condition(d.Status.Conditions, v1beta1.ConditionSourcesAvailable)
	want := v1beta1.TensorBoardCondition{
		Type: "SourcesAvailable", Status: "False", Reason: "FetchFailed",
		Message:            "s3://b/runs: the Secret s has no key AWS_ACCESS_KEY_ID (and 1 more)",
		LastTransitionTime: metav1.NewTime(now), LastProbeTime: &metav1.Time{Time: now},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected condition (-want +got):\n%s", diff)
	}
}

// A message can quote the text of a kubelet or of an admission webhook, which can have any length.
func TestTheMessageOfAConditionIsTruncated(t *testing.T) {
	t.Parallel()
	tb := &v1beta1.TensorBoard{}
	pod := seenPod(func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Message = corev1.PodFailed, strings.Repeat("x", 2*report.MaxMessage)
	})
	d := plan(tb, observation{Wanted: server{Hash: hash}, Pod: pod}, DefaultOptions(), now)
	for _, c := range d.Status.Conditions {
		if len(c.Message) > report.MaxMessage {
			t.Errorf("the message of %s has %d bytes, want at most %d", c.Type, len(c.Message), report.MaxMessage)
		}
	}
}
