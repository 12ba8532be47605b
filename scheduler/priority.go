package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/gang"
)

// ensurePriorityClass makes the class of a group's priority, which engines know priorities by. It preempts nobody: within a queue a
// greater priority goes first, and takes nothing away.
func ensurePriorityClass(ctx context.Context, c client.Client, priority int32) error {
	never := corev1.PreemptNever
	class := &schedulingv1.PriorityClass{
		ObjectMeta:       metav1.ObjectMeta{Name: gang.PriorityClassName(priority)},
		Value:            priority,
		PreemptionPolicy: &never,
		Description:      fmt.Sprintf("Pods of groups of priority %d in their queue.", priority),
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
