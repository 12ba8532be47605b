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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// newClassAge is how long an API server may take to see a new PriorityClass.
const newClassAge = 30 * time.Second

// Prefixes of the names of our PriorityClasses, which are for pods of groups whose queues give them. The policies in
// config/controller keep other pods from having them.
const (
	nativeClassPrefix  = "t9k-native-"
	volcanoClassPrefix = "t9k-volcano-"
)

// isOurClass reports whether a PriorityClass is one of ours.
func isOurClass(name string) bool {
	return strings.HasPrefix(name, nativeClassPrefix) || strings.HasPrefix(name, volcanoClassPrefix)
}

// priorityClass is a PriorityClass that an engine knows a priority by. What a class says can never be changed: another
// meaning is another name.
type priorityClass struct {
	Name string
	// Value of the priority, the greater the sooner.
	Value int32
	// Preemption says whether pods of the class may take the place of others, as the engine allows.
	Preemption corev1.PreemptionPolicy
}

// ensure creates the class if it is not there, and reports whether it is new: an API server that has not seen a class
// yet refuses the pods and groups that name it (admission plugin Priority).
func (p priorityClass) ensure(ctx context.Context, c client.Client, now time.Time) (isNew bool, err error) {
	class := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"},
		},
		Value:            p.Value,
		PreemptionPolicy: &p.Preemption,
		Description:      "Pods of PodGroups, by the priority of the group and that of its queue if the engine knows no queues.",
	}
	var there schedulingv1.PriorityClass
	err = c.Get(ctx, client.ObjectKeyFromObject(class), &there)
	if err == nil {
		return now.Sub(there.CreationTimestamp.Time) < newClassAge, nil
	}
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, class)
	}
	if client.IgnoreAlreadyExists(err) != nil {
		return false, fmt.Errorf("making the priority class %s: %w", class.Name, err)
	}
	return true, nil
}

// classOf returns the class of a new group: that of its pods, which must be the same, or the given one if it has none.
// It returns a *report.RefusedError if a pod has one of our classes that is not the given one: a tenant may name any
// class.
func classOf(pods []*corev1.Pod, class string) (string, error) {
	active := activeByAge(pods)
	for _, pod := range active {
		//attack:a group has the priority that its pods name => if named := pod.Spec.PriorityClassName; false {
		if named := pod.Spec.PriorityClassName; isOurClass(named) && named != class {
			return "", &report.RefusedError{Reason: v1beta1.ReasonNotSupportedByEngine, Err: fmt.Errorf(
				"pod %s has the PriorityClass %s, and the queue gives the group %s: delete the pod", pod.Name, named, class)}
		}
	}
	if len(active) > 0 {
		return active[0].Spec.PriorityClassName, nil
	}
	return class, nil
}

// hasForeignClass reports whether a pod of an admitted group must not be scheduled, since it does not have the class
// that the group has at the engine. That is so if the pod has another one of our classes, and whatever the pod has if
// the engine needs one class. So it is with a pod that somebody created just after the group was admitted, before the
// API server knew the class.
func (g groupView) hasForeignClass(pod *corev1.Pod) bool {
	return pod.Spec.PriorityClassName != g.ClassInForce && (g.NeedsOneClass || isOurClass(pod.Spec.PriorityClassName))
}
