package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// Job is a job of any kind, with everything that Decide needs.
type Job struct {
	// Kind is the kind of the job.
	Kind schema.GroupVersionKind
	// Namespace, Name and UID identify the job.
	Namespace string
	Name      string
	UID       types.UID
	// Generation is the generation of the spec.
	Generation int64
	// Deleting reports whether the job has a deletionTimestamp. With foreground deletion it stays until its dependents
	// are gone.
	Deleting bool
	// Created is when the user created the job.
	Created time.Time
	// Spec is the spec of the job.
	Spec framework.JobSpec
	// IsCopy reports whether MultiKueue has created the job as a copy of a job of another cluster.
	IsCopy bool
	// Status is the status as it was read. It can be stale.
	Status batchv1beta1.JobStatus

	// Settings are the settings of the controller.
	Settings
	// MainContainers are the names that identify the main container of a pod, in order of preference.
	MainContainers []string
	// RestSize returns the size in bytes that the API server stores for the job without its status. Nil means that the
	// job is small.
	RestSize func() int
	// Wire connects the pod of a member with its peers, and changes the template for this purpose. An error describes a
	// fault of the template.
	Wire func(peers framework.Peers, member framework.Member, template *corev1.PodTemplateSpec) error
}

// Settings are set by an administrator. They apply to all jobs of a controller.
type Settings struct {
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local.
	ClusterDomain string
	// Image is the image of the controller. Replicas run it to wait for their peers.
	Image string
	// HelperResources are the resources of helper containers that cannot have the resources of the main container. See
	// framework.Peers.
	HelperResources corev1.ResourceList
	// PeerGrace is how long the peers of a succeeded leader can take to end by themselves, before the clean-up deletes
	// them. The job can set another time, and a role can set a longer one.
	PeerGrace time.Duration
	// FailureWindow is how long the controller waits for failures of the peers after a failure that restarts all
	// replicas. Then it determines the root cause. The wait is needed because the kubelets of peers that failed as a
	// consequence can report earlier than the kubelet of the replica that failed first.
	FailureWindow time.Duration
	// NodeLostDelay is how long a pod on a lost node can stay Terminating past its grace period. Then the controller
	// deletes the pod by force. 0 means never. If the node is alive but disconnected, the containers might still run.
	NodeLostDelay time.Duration
	// AvoidNodesFor is how long new pods of a job avoid a node on which replicas have failed twice because of the node.
	// 0 means that new pods avoid no nodes.
	AvoidNodesFor time.Duration
	// AvoidNodesPatience is how long a pod that avoids nodes can be unschedulable. Then the job stops avoiding the node
	// that it has avoided for the longest time.
	AvoidNodesPatience time.Duration
	// HoldLeaders reports whether the pods of leaders are created with the finalizer batchv1beta1.FinalizerLeader. Pods
	// that already have the finalizer are released regardless of this setting.
	HoldLeaders bool
	// DependentRetry is how long the controller waits before it retries a failed operation on a PodGroup, a Workload or
	// a TensorBoard. The controller checks at the same interval whether the CRDs of these objects are installed.
	DependentRetry time.Duration
}

// Observation holds the observed objects of a job.
type Observation struct {
	// Pods are the pods that the job controls, by name.
	Pods map[string]*corev1.Pod
	// HasService reports whether the headless Service of the job exists.
	HasService bool
	// NeedsNetworkPolicy reports whether the NetworkPolicy of the job is missing or was changed. It is false if the
	// controller does not create NetworkPolicies.
	NeedsNetworkPolicy bool
	// Admission is the object through which the pods of the job are admitted. Nil means that the job needs no
	// admission.
	Admission Admission
	// Readings maps the UIDs of pods that can report progress to their last readings.
	Readings map[types.UID]Reading
	// ProgressDue is when the status can be written next if only the progress has changed.
	ProgressDue time.Time
	// StatusWaitsSince is when the pending status write was first deferred. Zero means that no write is pending, or
	// that the controller does not know.
	StatusWaitsSince time.Time
}

// HasMoreThan reports whether the observation has something that the other observation lacks: a pod, or an admission
// that the job controls.
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

// ownAdmission returns the UID of the admission if the job controls it, and an empty UID otherwise.
func (o Observation) ownAdmission(job types.UID) types.UID {
	if o.Admission == nil {
		return ""
	}
	return o.Admission.Standing(job).UID
}
