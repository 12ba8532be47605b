package admission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// Admitted returns the snapshot of a job after the given object, which the job has created with the given UID, was
// admitted: its PodGroup to a queue without a quota and without a priority, or its Workload to flavors without nodes.
// It returns the snapshot before if the object is of another kind.
func Admitted(before view.Admission, created view.Object, uid types.UID) view.Admission {
	switch object := created.(type) {
	case *schedulerv1beta1.PodGroup:
		group := object.DeepCopy()
		group.UID = uid
		meta.SetStatusCondition(&group.Status.Conditions, metav1.Condition{
			Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionTrue,
		})
		return PodGroup{Object: group}
	case *kueuev1beta2.Workload:
		after, _ := before.(Workload)
		after.Object = object.DeepCopy()
		after.Object.UID = uid
		meta.SetStatusCondition(&after.Object.Status.Conditions, metav1.Condition{
			Type: kueuev1beta2.ConditionAdmitted, Status: metav1.ConditionTrue,
		})
		return after
	default:
		return before
	}
}
