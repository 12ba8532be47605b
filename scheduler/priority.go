package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// priorityClass is a PriorityClass that an engine knows a priority by. What a class says can never be changed: another meaning is
// another name.
type priorityClass struct {
	Name string
	// Value of the priority, the greater the sooner.
	Value int32
	// Preemption says whether pods of the class may take the place of others, as the engine allows.
	Preemption corev1.PreemptionPolicy
}

// ensure makes the class if it is not there.
func (p priorityClass) ensure(ctx context.Context, c client.Client) error {
	class := &schedulingv1.PriorityClass{
		ObjectMeta:       metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "tensorstack-jobs"}},
		Value:            p.Value,
		PreemptionPolicy: &p.Preemption,
		Description:      "Pods of PodGroups, by the priority of the group and that of its queue if the engine knows no queues.",
	}
	err := c.Get(ctx, client.ObjectKeyFromObject(class), &schedulingv1.PriorityClass{})
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, class)
	}
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making the priority class %s: %w", class.Name, err)
	}
	return nil
}
