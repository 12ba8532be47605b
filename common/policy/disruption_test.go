package policy

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestForceDeletion(t *testing.T) {
	t.Parallel()
	deletion := metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		// disruption is the reason of the pod's DisruptionTarget condition. Empty means that the pod has no such condition.
		disruption string
		deleted    *metav1.Time
		delay      time.Duration
		want       time.Time
	}{
		"a terminating pod of a lost node is deleted by force after the delay": {
			disruption: "DeletionByTaintManager", deleted: &deletion, delay: time.Minute,
			want: deletion.Add(time.Minute),
		},
		"a delay of 0 disables forced deletion": {disruption: "DeletionByTaintManager", deleted: &deletion},
		"a pod that is not being deleted stays": {disruption: "DeletionByTaintManager", delay: time.Minute},
		"a pod that takes long to end stays":    {deleted: &deletion, delay: time.Minute},
		"a preempted pod that takes long to end stays": {
			disruption: "PreemptionByScheduler", deleted: &deletion, delay: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podIn(corev1.PodRunning, runs("main"))
			if tc.disruption != "" {
				pod = disruptedBy(tc.disruption, pod)
			}
			pod.DeletionTimestamp = tc.deleted
			if got := ForceDeletion(pod, tc.delay); !got.Equal(tc.want) {
				t.Errorf("ForceDeletion is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestIsLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		taints []string
		want   bool
	}{
		"a node without taints responds":               {nil, false},
		"a node that is being drained responds":        {[]string{"node.kubernetes.io/unschedulable", "maintenance"}, false},
		"a node that is not ready is lost":             {[]string{"maintenance", "node.kubernetes.io/not-ready"}, true},
		"an unreachable node is lost":                  {[]string{"node.kubernetes.io/unreachable"}, true},
		"a node that an administrator gave up is lost": {[]string{"node.kubernetes.io/out-of-service"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{}
			for _, key := range tc.taints {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
			}
			if got := IsLost(node); got != tc.want {
				t.Errorf("IsLost is %t, want %t", got, tc.want)
			}
			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			}
			if got := IsLost(node); got != tc.want {
				t.Errorf("IsLost of a ready node is %t, want %t", got, tc.want)
			}
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			if !IsLost(node) {
				t.Error("a node that does not report its state is not lost")
			}
		})
	}
}

func TestANodeThatIsNotReadyYetIsNotLost(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
	}}}
	if IsLost(node) {
		t.Error("a new node, to which nothing is scheduled yet, is lost")
	}
}

func TestOnlyTerminatingPodsOnRespondingNodesAreCheckedAgain(t *testing.T) {
	t.Parallel()
	deletion := metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	runs := podIn(corev1.PodRunning, runs("main"))
	deleted := runs.DeepCopy()
	deleted.DeletionTimestamp = &deletion
	for name, pod := range map[string]*corev1.Pod{
		"a pod that somebody deleted":            OnRespondingNode(deleted),
		"an evicted pod that is not deleted yet": OnRespondingNode(disruptedBy("DeletionByTaintManager", runs)),
	} {
		if !NextNodeCheck(pod, time.Minute, deletion.Time).IsZero() {
			t.Errorf("the node of %s is checked again", name)
		}
	}
}

func TestAPodThatATaintEvictsFromARespondingNodeIsEvicted(t *testing.T) {
	t.Parallel()
	seen := disruptedBy("DeletionByTaintManager", podIn(corev1.PodRunning, runs("main")))
	seen.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)))
	evicted := OnRespondingNode(seen)
	if got := Disruption(evicted); got != "Evicted" {
		t.Errorf("the disruption is %s, want Evicted", got)
	}
	if !ForceDeletion(evicted, time.Minute).IsZero() {
		t.Error("the pod is deleted by force")
	}
	deletion := seen.DeletionTimestamp.Time
	for after, want := range map[time.Duration]time.Duration{
		-time.Second: time.Minute, 0: time.Minute, time.Minute: 2 * time.Minute, 150 * time.Second: 3 * time.Minute,
	} {
		if got := NextNodeCheck(evicted, time.Minute, deletion.Add(after)); !got.Equal(deletion.Add(want)) {
			t.Errorf("the next check after %s is at %s, want %s", after, got.Sub(deletion), want)
		}
	}
	if !NextNodeCheck(evicted, 0, deletion).IsZero() {
		t.Error("the node is checked although forced deletions are disabled")
	}
	if !NextNodeCheck(seen, time.Minute, deletion).IsZero() {
		t.Error("the node is checked again although it is lost")
	}
	if got := Disruption(seen); got != "NodeLost" { // OnRespondingNode must not change a pod of the cache
		t.Errorf("the disruption of the pod as it was seen is %s, want NodeLost", got)
	}
}
