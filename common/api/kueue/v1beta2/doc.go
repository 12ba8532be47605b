// Package v1beta2 has the parts of Kueue's API kueue.x-k8s.io/v1beta2 that the job controllers read and write. Kueue's
// own module would add its many dependencies to every module that uses a job kind.
//
// +kubebuilder:object:generate=true
// +groupName=kueue.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the API.
var GroupVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// AddToScheme registers the types of this package in a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Workload{}, &WorkloadList{}, &ResourceFlavor{}, &WorkloadPriorityClass{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Labels and annotations of Kueue.
const (
	// LabelQueueName labels a job with the name of its LocalQueue.
	LabelQueueName = "kueue.x-k8s.io/queue-name"
	// LabelPriorityClass labels a job with the name of its WorkloadPriorityClass.
	LabelPriorityClass = "kueue.x-k8s.io/priority-class"
	// LabelMaxExecTime labels a job with the maximum time that its Workload can stay admitted, in seconds.
	LabelMaxExecTime = "kueue.x-k8s.io/max-exec-time-seconds"
	// LabelMultiKueueOrigin labels an object that MultiKueue has copied from another cluster.
	LabelMultiKueueOrigin = "kueue.x-k8s.io/multikueue-origin"
	// PrebuiltWorkload annotates a job with the name of a Workload that somebody else creates for the job. A job without
	// the annotation can have a label of the same name instead. For a job with neither, the job controller creates a
	// Workload.
	PrebuiltWorkload = "kueue.x-k8s.io/prebuilt-workload-name"
	// AnnotationAdmissionGatedBy annotates a job and its Workload with the names of the controllers that must allow the
	// admission. Kueue does not admit the Workload while it has the annotation.
	AnnotationAdmissionGatedBy = "kueue.x-k8s.io/admission-gated-by"
	// PrefixParameter is the prefix of annotations of a job and of its Workload. Kueue passes these annotations to a
	// ProvisioningRequest as parameters.
	PrefixParameter = "provreq.kueue.x-k8s.io/"
	// LabelJobUID labels a Workload with the UID of its job. Kueue finishes a Workload that has this label but no owner,
	// because its job is gone. Kueue also shows the UID in its messages about preemption.
	LabelJobUID = "kueue.x-k8s.io/job-uid"
	// LabelPodSet labels a pod with the name of its PodSet.
	LabelPodSet = "kueue.x-k8s.io/podset"
	// AnnotationWorkload annotates a pod with the name of its Workload.
	AnnotationWorkload = "kueue.x-k8s.io/workload"
	// TopologyGate is the scheduling gate of pods whose topology domains Kueue assigns.
	TopologyGate = "kueue.x-k8s.io/topology"
	// AnnotationUnconstrained annotates a pod that does not request a topology, but gets a topology domain from Kueue.
	AnnotationUnconstrained = "kueue.x-k8s.io/podset-unconstrained-topology"
)

// Types of conditions of Workloads, and their reasons.
const (
	// ConditionQuotaReserved is True while a ClusterQueue reserves quota for the Workload.
	ConditionQuotaReserved = "QuotaReserved"
	// ConditionAdmitted is True while the pods of the Workload can run.
	ConditionAdmitted = "Admitted"
	// ConditionEvicted is True from an eviction until the next reservation of quota.
	ConditionEvicted = "Evicted"
	// ConditionRequeued reports whether an evicted Workload is in the queue again.
	ConditionRequeued = "Requeued"
	// ConditionPodsReady reports whether all pods of the Workload are ready or have succeeded.
	ConditionPodsReady = "PodsReady"
	// ConditionFinished is True when the job has ended.
	ConditionFinished = "Finished"

	// ReasonPreempted is the reason of Evicted for a preemption.
	ReasonPreempted = "Preempted"
	// ReasonNodeFailures is the reason of Evicted if nodes that Kueue assigned to the pods have failed.
	ReasonNodeFailures = "NodeFailures"
	// ReasonQuotaGivenBack is the reason of Evicted after an eviction by the job controller: the job has given back the
	// quota of some replicas, but needs these replicas again. Kueue itself has no such reason.
	ReasonQuotaGivenBack = "QuotaGivenBack"
	// CheckPending is the state of an admission check that the Workload waits for.
	CheckPending = "Pending"
	// ReasonPending is the reason of QuotaReserved while the Workload waits in the queue.
	ReasonPending = "Pending"
	// ReasonNoReservation is the reason of Admitted after the Workload was evicted and gave back its quota.
	ReasonNoReservation = "NoReservation"
	// ReasonWaitForStart, ReasonWaitForRecovery, ReasonStarted and ReasonRecovered are the reasons of PodsReady.
	ReasonWaitForStart    = "WaitForStart"
	ReasonWaitForRecovery = "WaitForRecovery"
	ReasonStarted         = "Started"
	ReasonRecovered       = "Recovered"
	// ReasonSucceeded and ReasonFailed are the reasons of Finished.
	ReasonSucceeded = "Succeeded"
	ReasonFailed    = "Failed"
)
