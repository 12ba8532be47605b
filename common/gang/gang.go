// Package gang makes the replicas of a job a gang. It computes the PodGroup of the job and the fields of its pods, so
// that every engine schedules them together. No function uses a client, a logger or the clock.
package gang

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Annotations from which Volcano reads the group of a pod and its role in the group.
const (
	// AnnotationGroup is set by Decorate on every pod, even if the engine is not Volcano.
	AnnotationGroup = "scheduling.k8s.io/group-name"
	volcanoRole     = "volcano.sh/task-spec"
)

// PodGroupSpec returns the spec of the PodGroup of a job. The argument done maps each type to the number of its
// replicas that have ended and are not restarted. The minMember of the group does not count these replicas, so that
// the other replicas, including replacements, do not wait for them. For an elastic job, minMember is the job's
// minimum number of replicas, less the replicas in done, and the roles require only the leader. In all cases,
// minMember is at least 1.
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
		// Add all types, even those without replicas, so that scaling does not change the group.
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
	spec.MinMember = max(1, spec.MinMember) // the leader always counts, because the job ends when the leader ends
	return spec
}

// Member describes a pod as a member of its group.
type Member struct {
	// Role is the role of the pod in the group.
	Role string
	// Extra reports whether an elastic job has its minimum number of replicas without this pod. An extra pod is gated
	// until the minimum number of replicas is on nodes. It does not join the PodGroup of kube-scheduler, because
	// kube-scheduler schedules no pod of a PodGroup while one of them is gated.
	Extra bool
}

// Decorate makes a pod a member of a group. It sets the fields of all engines, because each engine ignores the fields
// of the others. If the PodGroups of Kubernetes are disabled, the API server drops spec.schedulingGroup from the pod.
func Decorate(pod *corev1.Pod, scheduler batchv1beta1.T9kScheduler, group *schedulerv1beta1.PodGroup, member Member) {
	metav1.SetMetaDataLabel(&pod.ObjectMeta, schedulerv1beta1.LabelGroupName, group.Name)
	// If the name of the Queue is too long for a label, the pod has no Queue label. The spec of the PodGroup always has
	// the name.
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
	// All members of a group must have the same priority. Reset the numeric priority of the template: the API server
	// rejects a pod whose numeric priority does not match its priority class.
	pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy = group.Status.PriorityClassName, nil, nil
	if member.Extra {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, schedulerv1beta1.AnnotationExtra, "true")
	}
	if group.Status.Gated || member.Extra {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates,
			corev1.PodSchedulingGate{Name: schedulerv1beta1.QueueGate})
	}
}
