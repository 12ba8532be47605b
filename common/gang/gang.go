// Package gang makes the replicas of a job a gang of the T9k scheduler: what PodGroup the job needs, and what its pods
// carry so that whichever engine there is schedules them together. Everything here is pure.
package gang

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Annotations by which Volcano knows the group of a pod and its role there.
const (
	// AnnotationGroup is on every pod that Decorate has seen, whichever engine there is.
	AnnotationGroup = "scheduling.k8s.io/group-name"
	volcanoRole     = "volcano.sh/task-spec"
)

// PodGroupSpec returns what a job's PodGroup must say while so many replicas of each type have done their part, and are
// not to be scheduled again: the others, that is, the pods of a replacement among them, must not wait for those. A job
// that is elastic needs its least number of replicas and the leader, however many it has.
func PodGroupSpec(
	scheduler batchv1beta1.T9kScheduler, elastic *batchv1beta1.ElasticConfig, roles []framework.Role,
	done map[string]int32,
) schedulerv1beta1.PodGroupSpec {
	spec := schedulerv1beta1.PodGroupSpec{Queue: scheduler.Queue, Priority: scheduler.Priority}
	leads := true
	for _, role := range roles {
		if elastic == nil {
			if role.Replicas > 0 {
				left := max(0, role.Replicas-done[role.Type])
				spec.Roles = append(spec.Roles, schedulerv1beta1.PodGroupRole{Name: role.Type, MinMember: left})
				spec.MinMember += left
			}
			continue
		}
		// All are named, also those that have no replica now, so that scaling does not change the group.
		member := schedulerv1beta1.PodGroupRole{Name: role.Type}
		if leads && role.Replicas > 0 {
			member.MinMember, leads = 1, false
		}
		spec.Roles = append(spec.Roles, member)
		spec.MinMember -= done[role.Type]
	}
	if elastic != nil {
		spec.MinMember += elastic.Least()
	}
	spec.MinMember = max(1, spec.MinMember) // the leader is never done, or the job would be
	return spec
}

// Member is what a pod is in its group.
type Member struct {
	// Role that the pod has.
	Role string
	// Extra says that the group can do without the pod: an elastic job has more replicas than it needs. Such a pod is
	// gated until the others are on nodes, and is in no group of kube-scheduler's, which knows no roles and would hold the
	// whole group for one that is gated.
	Extra bool
}

// Decorate makes a pod a member of a group. It serves every engine at once, since what one reads the others ignore: an
// API server whose own groups are off drops the name of the group from the spec.
func Decorate(pod *corev1.Pod, scheduler batchv1beta1.T9kScheduler, group *schedulerv1beta1.PodGroup, member Member) {
	metav1.SetMetaDataLabel(&pod.ObjectMeta, schedulerv1beta1.LabelGroupName, group.Name)
	// The name of a Queue may be longer than a label; the group has it, too.
	delete(pod.Labels, schedulerv1beta1.LabelQueue)
	if len(validation.IsValidLabelValue(scheduler.Queue)) == 0 {
		pod.Labels[schedulerv1beta1.LabelQueue] = scheduler.Queue
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, schedulerv1beta1.LabelRole, member.Role)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationGroup, group.Name)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, volcanoRole, member.Role)
	pod.Spec.SchedulerName = schedulerv1beta1.SchedulerName
	pod.Spec.SchedulingGroup = nil
	if !member.Extra {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
	}
	// The members of a group must be of one priority. A pod that names it by a number, as it was for another class, is
	// refused.
	pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy = group.Status.PriorityClassName, nil, nil
	if member.Extra {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulerv1beta1.AnnotationExtra, "true")
	}
	if group.Status.Gated || member.Extra {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates,
			corev1.PodSchedulingGate{Name: schedulerv1beta1.QueueGate})
	}
}
