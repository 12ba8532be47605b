package gang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

var inLab = batchv1beta1.T9kScheduler{Queue: "lab", Priority: new(int32(70))}

func role(name string, replicas int32) framework.Role {
	return framework.Role{Type: name, Replicas: replicas}
}

func least(n int32) *batchv1beta1.ElasticConfig {
	return &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: &n, MaxReplicas: new(int32(8))}
}

func TestPodGroupSpec(t *testing.T) {
	t.Parallel()
	type minimums map[string]int32
	for name, tc := range map[string]struct {
		roles     []framework.Role
		elastic   *batchv1beta1.ElasticConfig
		done      map[string]int32
		want      int32
		wantRoles minimums
	}{
		"all replicas are needed": {
			roles: []framework.Role{role("master", 1), role("worker", 3)},
			want:  4, wantRoles: minimums{"master": 1, "worker": 3},
		},
		"a type without replicas has no role": {
			roles: []framework.Role{role("worker", 2), role("ps", 0)},
			want:  2, wantRoles: minimums{"worker": 2},
		},
		"a replica that has ended is not needed": {
			roles: []framework.Role{role("worker", 4), role("ps", 2)}, done: map[string]int32{"worker": 3},
			want: 3, wantRoles: minimums{"worker": 1, "ps": 2},
		},
		"a type whose replicas have all ended keeps its role": {
			roles: []framework.Role{role("master", 1), role("worker", 2)}, done: map[string]int32{"worker": 2},
			want: 1, wantRoles: minimums{"master": 1, "worker": 0},
		},
		"an elastic job needs its minimum number of replicas and the leader": {
			roles: []framework.Role{role("worker", 7)}, elastic: least(4),
			want: 4, wantRoles: minimums{"worker": 1},
		},
		"an elastic job has a role for a type without replicas": {
			roles: []framework.Role{role("worker", 3), role("node", 0)}, elastic: least(2),
			want: 2, wantRoles: minimums{"worker": 1, "node": 0},
		},
		"the leader of an elastic job can be of its second type": {
			roles: []framework.Role{role("worker", 0), role("node", 3)}, elastic: least(2),
			want: 2, wantRoles: minimums{"worker": 0, "node": 1},
		},
		"a replica of an elastic job that has ended is not needed": {
			roles: []framework.Role{role("worker", 5)}, elastic: least(4), done: map[string]int32{"worker": 2},
			want: 2, wantRoles: minimums{"worker": 1},
		},
		"an elastic job needs its leader although all others have ended": {
			roles: []framework.Role{role("worker", 5)}, elastic: least(2), done: map[string]int32{"worker": 4},
			want: 1, wantRoles: minimums{"worker": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := PodGroupSpec(inLab, tc.elastic, tc.roles, tc.done)
			if got.MinMember != tc.want || got.Queue != "lab" || *got.Priority != 70 {
				t.Errorf("unexpected minMember, queue or priority: %d, %s, %d, want %d", got.MinMember, got.Queue, *got.Priority,
					tc.want)
			}
			roles := minimums{}
			for _, r := range got.Roles {
				roles[r.Name] = r.MinMember
			}
			if diff := cmp.Diff(tc.wantRoles, roles); diff != "" {
				t.Errorf("unexpected roles (-want +got):\n%s", diff)
			}
		})
	}
}

// The engine can schedule the group, because its roles do not need more pods than minMember. If the job is not
// elastic, minMember equals the number of replicas that have not ended, but is at least 1.
func TestPodGroupCanBeScheduled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var roles []framework.Role
		done := map[string]int32{}
		left := int32(0)
		for _, name := range []string{"master", "worker", "ps"} {
			r := role(name, rapid.Int32Range(0, 5).Draw(t, name))
			done[name] = rapid.Int32Range(0, r.Replicas).Draw(t, name+" done")
			left += r.Replicas - done[name]
			roles = append(roles, r)
		}
		var elastic *batchv1beta1.ElasticConfig
		if rapid.Bool().Draw(t, "elastic") {
			elastic = least(rapid.Int32Range(1, 5).Draw(t, "minReplicas"))
		}
		spec := PodGroupSpec(inLab, elastic, roles, done)
		sum := int32(0)
		for _, r := range spec.Roles {
			sum += r.MinMember
		}
		if sum > spec.MinMember {
			t.Fatalf("the roles need %d pods, but minMember is only %d", sum, spec.MinMember)
		}
		if elastic == nil && left > 0 && spec.MinMember != left {
			t.Fatalf("minMember is %d, but %d replicas are left", spec.MinMember, left)
		}
	})
}

func TestDecorate(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "job-worker-0",
			Labels:      map[string]string{"mine": "1", schedulerv1beta1.LabelQueue: "another"},
			Annotations: map[string]string{"mine": "1", AnnotationGroup: "another"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "mine", PriorityClassName: "high", Priority: new(int32(9)),
			PreemptionPolicy: new(corev1.PreemptNever),
		},
	}
	Decorate(pod, inLab, &schedulerv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Status:     schedulerv1beta1.PodGroupStatus{Gated: true, PriorityClassName: "t9k-priority-70"},
	}, Member{Role: "worker"})
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "job-worker-0",
			Labels: map[string]string{
				"mine": "1", "scheduler.tensorstack.dev/group-name": "job", "scheduler.tensorstack.dev/queue": "lab",
				"scheduler.tensorstack.dev/role": "worker",
			},
			Annotations: map[string]string{
				"mine": "1", "scheduling.k8s.io/group-name": "job", "volcano.sh/task-spec": "worker",
			},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "t9k-scheduler", PriorityClassName: "t9k-priority-70",
			SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("job")},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "scheduler.tensorstack.dev/queue"}},
		},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("unexpected pod (-want +got):\n%s", diff)
	}
}

func TestDecorateSetsNoQueueLabelForALongName(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{schedulerv1beta1.LabelQueue: "another"}}}
	Decorate(pod, batchv1beta1.T9kScheduler{Queue: strings.Repeat("long.", 50)}, &schedulerv1beta1.PodGroup{},
		Member{Role: "worker"})
	if queue, ok := pod.Labels[schedulerv1beta1.LabelQueue]; ok {
		t.Errorf("the queue label is %q, want none", queue)
	}
}

func TestDecorateExtra(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("another")}}}
	Decorate(pod, inLab, &schedulerv1beta1.PodGroup{}, Member{Role: "worker", Extra: true})
	if pod.Spec.SchedulingGroup != nil {
		t.Error("the extra pod is in the group of kube-scheduler")
	}
	if pod.Annotations["scheduler.tensorstack.dev/extra"] != "true" {
		t.Errorf("unexpected annotations: %v", pod.Annotations)
	}
	if diff := cmp.Diff([]corev1.PodSchedulingGate{{Name: "scheduler.tensorstack.dev/queue"}},
		pod.Spec.SchedulingGates); diff != "" {
		t.Errorf("unexpected gates (-want +got):\n%s", diff)
	}
}

func TestDecorateAddsNoGateIfTheGroupIsNotGated(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	Decorate(pod, inLab, &schedulerv1beta1.PodGroup{}, Member{Role: "worker"})
	if len(pod.Spec.SchedulingGates) > 0 {
		t.Errorf("unexpected gates: %v", pod.Spec.SchedulingGates)
	}
}
