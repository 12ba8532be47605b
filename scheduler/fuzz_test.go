package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

func TestDecideHoldsItsInvariantsWhateverTenantsCreate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, decideHoldsItsInvariants)
}

func FuzzDecide(f *testing.F) { f.Fuzz(rapid.MakeFuzz(decideHoldsItsInvariants)) }

// decideHoldsItsInvariants checks that a queue never exceeds its quota and releases only gated pods of admitted groups.
// Groups in namespaces that the queue does not select must not change the released pods, the expired pods or the
// status of the queue. The order of the groups must not change the released pods.
func decideHoldsItsInvariants(t *rapid.T) {
	view := drawView(t)
	decideAbout := func(groups ...groupView) decision {
		seen := view
		seen.Groups = groups
		return decide(native{}, seen, now)
	}
	d := decideAbout(view.Groups...)

	used := usage(view.Groups, view.Orphans, mayOccupyNode)
	if over := lacking(quotaOf(view.Queue), used, sumOf(d.Release)); over != "" {
		t.Errorf("the released pods exceed the quota of %s", over)
	}
	released := map[*corev1.Pod]bool{}
	for _, pod := range d.Release {
		if released[pod] {
			t.Errorf("pod %s is released twice", pod.Name)
		}
		released[pod] = true
	}
	for _, g := range view.Groups {
		isAdmitted := view.admission(g).Status == metav1.ConditionTrue
		for _, pod := range g.Pods {
			if released[pod] && (!isAdmitted || !isGated(pod)) {
				t.Errorf("pod %s is released although its group is admitted: %t, and it is gated: %t",
					pod.Name, isAdmitted, isGated(pod))
			}
		}
		for _, c := range d.Groups[g.key()].Conditions {
			if len(c.Message) > report.MaxMessage {
				t.Errorf("the message of condition %s has %d bytes, want at most %d", c.Type, len(c.Message), report.MaxMessage)
			}
		}
	}

	others := decideAbout(view.selected()...)
	for _, diff := range []string{
		cmp.Diff(namesOf(others.Release), namesOf(d.Release)), cmp.Diff(namesOf(others.Expired), namesOf(d.Expired)),
		cmp.Diff(others.Queue, d.Queue),
	} {
		if diff != "" {
			t.Errorf("groups in namespaces that are not selected change the decision (-without them +with them):\n%s", diff)
		}
	}
	shuffled := slices.Clone(view.Groups)
	order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
	order.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if diff := cmp.Diff(namesOf(d.Release), namesOf(decideAbout(shuffled...).Release)); diff != "" {
		t.Errorf("the order of the groups changes the released pods (-original +shuffled):\n%s", diff)
	}
}

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// drawView draws a queue with groups and pods that tenants can create.
func drawView(t *rapid.T) queueView {
	quantity := rapid.SampledFrom([]string{"0", "1", "3", "100m", "1k", "9E"})
	names := rapid.SampledFrom([]corev1.ResourceName{corev1.ResourceCPU, "nvidia.com/gpu", corev1.ResourcePods})
	list := func(of string) corev1.ResourceList {
		drawn := rapid.MapOfN(names, quantity, 0, 3).Draw(t, of)
		list := corev1.ResourceList{}
		for name := range maps.Keys(drawn) {
			list[name] = resource.MustParse(drawn[name])
		}
		return list
	}
	view := queueView{Queue: newQueue(func(s *v1beta1.QueueSpec) {
		s.Closed = rapid.Float64().Draw(t, "closed") < 0.1
		s.Quota = &v1beta1.QueueQuota{Requests: list("quota")}
		if rapid.Bool().Draw(t, "has maxDuration") {
			s.MaxDuration = new(v1beta1.Duration("1h"))
		}
	})}
	states := rapid.SampledFrom([]func(*corev1.Pod){
		gated, gated, gated, released, onNode, bound, running, succeeded, unschedulable, grouped, extra,
		func(*corev1.Pod) {},
		func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed },
		func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(now)) },
	})
	draw := func(name string) *corev1.Pod {
		pod := newPod(rapid.SliceOfN(states, 1, 3).Draw(t, "state")...)
		pod.Namespace, pod.Name = "team", name
		pod.Labels[v1beta1.LabelRole] = rapid.SampledFrom([]string{"", "master", "worker"}).Draw(t, "role")
		pod.Spec.Containers[0].Resources.Requests = list("requests")
		age := rapid.IntRange(0, 7200).Draw(t, "age")
		pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(age) * time.Second))
		return pod
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "groups") {
		g := newGroup(fmt.Sprint("g", i), rapid.SampledFrom([]int32{0, 1, 2, 3, 2000}).Draw(t, "minMember"))
		for j := range rapid.IntRange(0, 5).Draw(t, "pods") {
			g.Pods = append(g.Pods, draw(fmt.Sprintf("g%d-%d", i, j)))
		}
		g = g.withPriority(rapid.Int32Range(0, 2).Draw(t, "priority"))
		roles := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"master", "worker"}), rapid.ID)
		for _, role := range roles.Draw(t, "roles") {
			g.Group.Spec.Roles = append(g.Group.Spec.Roles, v1beta1.PodGroupRole{
				Name: role, MinMember: rapid.Int32Range(0, 3).Draw(t, "of the role"),
			})
		}
		g.Selected = rapid.IntRange(0, 3).Draw(t, "selected") > 0
		view.Groups = append(view.Groups, g)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "orphans") {
		if pod := draw(fmt.Sprint("orphan-", i)); mayOccupyNode(pod) {
			view.Orphans = append(view.Orphans, pod)
		}
	}
	return view
}
