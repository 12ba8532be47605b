package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
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

	// Settings of the controller.
	Settings
	// MainContainers are the names that mark the main container of a pod, the preferred name first.
	MainContainers []string
	// RestSize returns how many bytes the API server stores of the job besides its status. Nil means that the job is
	// small.
	RestSize func() int
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
	// HoldLeaders reports whether the pods of leaders are created with the finalizer batchv1beta1.FinalizerLeader. Pods
	// that have it are released whatever the setting is.
	HoldLeaders bool
	// DependentRetry is how long the controller waits before it tries again what failed about a PodGroup or a
	// TensorBoard. It checks at the same interval whether their CRDs are installed.
	DependentRetry time.Duration
}

// Observation is what the cluster holds of a job.
type Observation struct {
	// Pods that the job controls, by name.
	Pods map[string]*corev1.Pod
	// HasService reports whether the headless Service of the job exists.
	HasService bool
	// NeedsNetworkPolicy reports whether the NetworkPolicy of the job is missing or was changed. It is false if the
	// controller makes none.
	NeedsNetworkPolicy bool
	// Admission is what admits the pods of the job. It is nil for a job that needs no admission.
	Admission Admission
	// StatusWaitsSince is since when a change of the status waits to be written. It is zero if none does, or if the
	// controller does not know.
	StatusWaitsSince time.Time
}

// HasMoreThan reports whether the observation has pods, or an admission of the job's own, that another observation
// lacks.
func (o Observation) HasMoreThan(other Observation, job types.UID) bool {
	if own := o.ownAdmission(job); own != "" && own != other.ownAdmission(job) {
		return true
	}
	for name, pod := range o.Pods {
		if known := other.Pods[name]; known == nil || known.UID != pod.UID {
			return true
		}
	}
	return false
}

// ownAdmission returns the UID of the job's own admission, if it has one.
func (o Observation) ownAdmission(job types.UID) types.UID {
	if o.Admission == nil {
		return ""
	}
	return o.Admission.OwnUID(job)
}

// IsControlledBy reports whether the owner of the UID controls an object.
func IsControlledBy(object metav1.Object, uid types.UID) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == uid
}
