package scheduler

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// newClassAge is how long an API server can take to see a new PriorityClass in its cache.
const newClassAge = 30 * time.Second

// Prefixes of the names of the PriorityClasses that this controller creates. These classes are only for pods of
// PodGroups. The policies in config/controller reject other pods with these classes.
const (
	nativeClassPrefix  = "t9k-native-"
	volcanoClassPrefix = "t9k-volcano-"
)

// isOurClass reports whether the name of a PriorityClass has a prefix of this controller.
func isOurClass(name string) bool {
	return strings.HasPrefix(name, nativeClassPrefix) || strings.HasPrefix(name, volcanoClassPrefix)
}

// priorityClass is a PriorityClass that stands for a priority in an engine. A PriorityClass cannot be changed, so a
// class with another value or policy must have another name.
type priorityClass struct {
	Name string
	// Value of the priority. Groups with a higher value are scheduled first.
	Value int32
	// Preemption sets whether pods of the class can preempt other pods, if the engine allows it.
	Preemption corev1.PreemptionPolicy
}

// check compares the class with the existing PriorityClass of the same name. If none exists, the parameter is nil,
// and check returns the PriorityClass to create. The result isNew reports whether an API server might not have seen
// the class yet. err is a *report.RefusedError if the class exists with another value or policy.
func (p priorityClass) check(
	there *schedulingv1.PriorityClass, now time.Time,
) (create *schedulingv1.PriorityClass, isNew bool, err error) {
	if there == nil {
		return &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: p.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"},
			},
			Value:            p.Value,
			PreemptionPolicy: &p.Preemption,
			Description: "For pods of PodGroups. The value is made from the priority of the group and, if the engine does not " +
				"support queues, the priority of its queue.",
		}, true, nil
	}
	if there.Value != p.Value || ptr.Deref(there.PreemptionPolicy, "") != p.Preemption {
		return nil, false, &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
			"PriorityClass %s has the value %d and preemptionPolicy %s, want %d and %s: delete it", there.Name, there.Value,
			ptr.Deref(there.PreemptionPolicy, ""), p.Value, p.Preemption)}
	}
	return nil, now.Sub(there.CreationTimestamp.Time) < newClassAge, nil
}

// classOf returns the PriorityClass for a new group of the engine: the class of its oldest active pod, or the given
// class if no pod is active. A tenant can create pods with any class. So classOf returns a *report.RefusedError if an
// active pod has one of our classes other than the given class.
func classOf(pods []*corev1.Pod, class string) (string, error) {
	active := activeByAge(pods)
	for _, pod := range active {
		if named := pod.Spec.PriorityClassName; isOurClass(named) && named != class {
			return "", &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
				"pod %s has PriorityClass %s, but its group has %s: delete the pod", pod.Name, named, class)}
		}
	}
	if len(active) > 0 {
		return active[0].Spec.PriorityClassName, nil
	}
	return class, nil
}

// checkClass returns a *report.RefusedError if the engine's group has one of our classes that the controller did not
// choose for it. A tenant can create the engine's group before the controller does, and name our group as its owner.
func checkClass(group *v1beta1.PodGroup, named, class string) error {
	if isOurClass(named) && named != class && named != group.Status.PriorityClassName {
		return &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
			"podgroup %s of the engine has PriorityClass %s, but its group has %s: delete that podgroup", group.Name, named,
			class)}
	}
	return nil
}

// hasForeignClass reports whether a pod of an admitted group must not be scheduled because the pod has another
// PriorityClass than the engine's group. If the engine needs one class, every other class is foreign. Otherwise only
// our other classes are foreign. A pod can lack the class of the group if it was created just after the group was
// admitted, before the API server had seen the class.
func (g groupView) hasForeignClass(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName != g.ClassInForce && (g.NeedsOneClass || isOurClass(pod.Spec.PriorityClassName))
}
