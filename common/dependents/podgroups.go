package dependents

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/report"
)

// PodGroups reads and writes the PodGroups of jobs.
type PodGroups struct {
	store[*schedulerv1beta1.PodGroup]
}

// NewPodGroups returns a PodGroups that uses the clients of the cluster.
func NewPodGroups(cluster Cluster) *PodGroups {
	return &PodGroups{newStore(podGroupKind(), cluster)}
}

// podGroupKind returns the description of the kind PodGroup.
func podGroupKind() kind[*schedulerv1beta1.PodGroup] {
	return kind[*schedulerv1beta1.PodGroup]{
		name:         "podgroup",
		newObject:    func() *schedulerv1beta1.PodGroup { return &schedulerv1beta1.PodGroup{} },
		newList:      func() client.ObjectList { return &schedulerv1beta1.PodGroupList{} },
		reported:     func(group *schedulerv1beta1.PodGroup) any { return podGroupStatusRead(group) },
		strip:        func(group *schedulerv1beta1.PodGroup) { group.Status = podGroupStatusRead(group) },
		notInstalled: podGroupsNotInstalled,
	}
}

// podGroupStatusRead returns the part of the status of a PodGroup that the job controller reads.
func podGroupStatusRead(group *schedulerv1beta1.PodGroup) schedulerv1beta1.PodGroupStatus {
	status := schedulerv1beta1.PodGroupStatus{
		ObservedGeneration: group.Status.ObservedGeneration,
		Gated:              group.Status.Gated,
		PriorityClassName:  group.Status.PriorityClassName,
	}
	for _, conditionType := range []string{
		schedulerv1beta1.ConditionAdmitted, schedulerv1beta1.ConditionGroupScheduled,
		schedulerv1beta1.ConditionMaxDurationExceeded,
	} {
		if c := meta.FindStatusCondition(group.Status.Conditions, conditionType); c != nil {
			status.Conditions = append(status.Conditions,
				metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return status
}

// podGroupsNotInstalled returns the problem of a job that needs a PodGroup while the CRD of PodGroups is not
// installed.
func podGroupsNotInstalled(error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: errors.New(
		"spec.scheduler.t9kScheduler needs PodGroups, but the CustomResourceDefinition " +
			"podgroups.scheduler.tensorstack.dev is not installed: no replica is created until it is installed")}
}

// Observe reads the PodGroup of a job from a cache. If live is true, it reads from the API server instead.
func (g *PodGroups) Observe(ctx context.Context, job client.Object, live bool) admission.PodGroup {
	return admission.PodGroup(g.observe(ctx, client.ObjectKeyFromObject(job), live))
}
