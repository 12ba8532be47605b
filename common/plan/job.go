package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
)

// Job is a job of any kind, as Decide needs to know it.
type Job struct {
	// Kind of the job.
	Kind schema.GroupVersionKind
	// Namespace, Name and UID identify the job.
	Namespace string
	Name      string
	UID       types.UID
	// Generation of the spec.
	Generation int64
	// Deleting reports whether the job has a deletionTimestamp. With foreground deletion it stays until its dependents
	// are gone.
	Deleting bool
	// Created is when the user created the job.
	Created time.Time
	// Spec of the job.
	Spec framework.JobSpec
	// Status as it was read. It may be stale.
	Status batchv1beta1.JobStatus
	// TensorBoardSpec is the TensorBoard that the job wants. Nil means none.
	TensorBoardSpec *tensorboardv1beta1.TensorBoardSpec
	// TensorBoardStatus is the status of the TensorBoard as it was read. Nil means none.
	TensorBoardStatus *batchv1beta1.DependentStatus

	// Settings of the controller.
	Settings
	// MainContainers are the names that mark the main container of a pod, the preferred name first.
	MainContainers []string
	// Wire adds to the template of a member what makes it part of the gang. An error describes a fault of the template.
	Wire func(gang framework.Gang, member framework.Member, template *corev1.PodTemplateSpec) error
}

// Settings are decided by an administrator, for all jobs of a controller.
type Settings struct {
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local.
	ClusterDomain string
	// Image of the controller. Replicas run it to wait for their peers.
	Image string
	// PeerGrace is how long the peers of a leader that succeeded may take to end by themselves. Then the clean-up
	// deletes them.
	PeerGrace time.Duration
	// FailureWindow is how long, after a failure that restarts all replicas, the controller waits for the reports of
	// the peers before it determines the root cause. A kubelet may report a peer that failed as a consequence before
	// the replica that failed first is reported.
	FailureWindow time.Duration
	// NodeLostDelay is how long the pod of a lost node may stay Terminating past its grace period. Then the controller
	// deletes it by force; 0 means never. The containers may still run, if the node is cut off but alive.
	NodeLostDelay time.Duration
	// DependentRetry is how long the controller waits before it tries again what failed about a TensorBoard or a
	// PodGroup. It checks at the same interval whether their CRDs are installed.
	DependentRetry time.Duration
}

// Observation is what the cluster holds of a job.
type Observation struct {
	// Pods that the job controls, by name.
	Pods map[string]*corev1.Pod
	// HasService reports whether the headless Service of the job exists.
	HasService bool
	// TensorBoard is what is known of the job's TensorBoard. It is empty for a job that neither wants nor reports one.
	TensorBoard TensorBoardView
	// PodGroup is what is known of the job's PodGroup. It is empty for a job that needs none.
	PodGroup PodGroupView
	// StatusWaitsSince is since when a change of the status waits to be written. It is zero if none does, or if the
	// controller does not know.
	StatusWaitsSince time.Time
}

// TensorBoardView is what is known of a job's TensorBoard.
type TensorBoardView struct {
	// Object of the job's name, whoever owns it. Nil means that there is none.
	Object *tensorboardv1beta1.TensorBoard
	// Unknown reports whether the controller does not know yet what exists.
	Unknown bool
	// Problem is why it cannot be known. Nil means no problem.
	Problem *report.RefusedError
	// Held is a change that must wait.
	Held HeldChange
}

// HeldChange is a change that was made, or that failed, and is not to be made again before a time.
type HeldChange struct {
	// Change, as DependentStatus.Action names it.
	Change string
	// Until is when the change may be made again.
	Until time.Time
}

// PodGroupView is what is known of a job's PodGroup.
type PodGroupView struct {
	// Object of the job's name, whoever owns it. Nil means that there is none.
	Object *schedulerv1beta1.PodGroup
	// Unknown reports whether the controller does not know yet what exists.
	Unknown bool
	// Problem is why it cannot be known. Nil means no problem.
	Problem *report.RefusedError
}

// HasMoreThan reports whether the observation has pods, or a PodGroup of the job, that another observation lacks.
func (o Observation) HasMoreThan(other Observation, job types.UID) bool {
	group, known := o.PodGroup.Object, other.PodGroup.Object
	if group != nil && isControlledBy(group, job) && (known == nil || known.UID != group.UID) {
		return true
	}
	for name, pod := range o.Pods {
		if known := other.Pods[name]; known == nil || known.UID != pod.UID {
			return true
		}
	}
	return false
}

// isControlledBy reports whether the owner of the UID controls an object.
func isControlledBy(object metav1.Object, uid types.UID) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == uid
}
