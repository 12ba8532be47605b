package admission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan/view"
)

// Admitted returns the snapshot after another controller has admitted the created object, which gets the given UID. A
// PodGroup is admitted to a queue without a quota and without a priority. A Workload is admitted without assigned
// flavors. If the object has another kind, the snapshot is the same as before.
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
