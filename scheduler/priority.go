package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// newClassAge is how long an API server can take to see a new PriorityClass.
const newClassAge = 30 * time.Second

// Name prefixes of the PriorityClasses that this controller creates. They are only for pods of PodGroups. The policies
// in config/controller reject them for other pods.
const (
	nativeClassPrefix  = "t9k-native-"
	volcanoClassPrefix = "t9k-volcano-"
)

// isOurClass reports whether the name is that of a PriorityClass of this controller.
func isOurClass(name string) bool {
	return strings.HasPrefix(name, nativeClassPrefix) || strings.HasPrefix(name, volcanoClassPrefix)
}

// priorityClass is a PriorityClass that stands for a priority in an engine. A PriorityClass cannot be changed, so a
// class with another value or policy must have another name.
type priorityClass struct {
	Name string
	// Value of the priority. Groups with a higher value go first.
	Value int32
	// Preemption is whether pods of the class can preempt other pods, if the engine allows it.
	Preemption corev1.PreemptionPolicy
}

// ensure creates the class if it does not exist, and reports whether it is new. An API server that has not seen a
// class yet rejects the pods and groups that name it (admission plugin Priority). ensure returns a
// *report.RefusedError if the class exists with another value or policy.
func (p priorityClass) ensure(ctx context.Context, c client.Client, now time.Time) (isNew bool, err error) {
	class := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"},
		},
		Value:            p.Value,
		PreemptionPolicy: &p.Preemption,
		Description: "For pods of PodGroups. The value is made from the priority of the group and, if the engine does not " +
			"support queues, the priority of its queue.",
	}
	var there schedulingv1.PriorityClass
	err = c.Get(ctx, client.ObjectKeyFromObject(class), &there)
	if err == nil && (there.Value != p.Value || ptr.Deref(there.PreemptionPolicy, "") != p.Preemption) {
		return false, &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
			"PriorityClass %s has the value %d and preemptionPolicy %s, want %d and %s: delete it", there.Name, there.Value,
			ptr.Deref(there.PreemptionPolicy, ""), p.Value, p.Preemption)}
	}
	if err == nil {
		return now.Sub(there.CreationTimestamp.Time) < newClassAge, nil
	}
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, class)
	}
	if client.IgnoreAlreadyExists(err) != nil {
		return false, fmt.Errorf("creating PriorityClass %s: %w", class.Name, err)
	}
	return true, nil
}

// classOf returns the PriorityClass of a new group: that of its oldest pod, or the given class if it has no pods. It
// returns a *report.RefusedError if a pod has one of our classes other than the given one, since a tenant can create
// pods with any class.
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

// hasForeignClass reports whether a pod of an admitted group must not be scheduled because its class is not that of the
// engine's group. The pod must not have another one of our classes. If the engine needs one class, the pod must have
// exactly the class of the group. A pod lacks it if it was created just after the group was admitted, before the API
// server had seen the class.
func (g groupView) hasForeignClass(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName != g.ClassInForce && (g.NeedsOneClass || isOurClass(pod.Spec.PriorityClassName))
}
