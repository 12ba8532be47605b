package model

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Remains summarizes the objects of a cluster, so that the final states of two runs can be compared.
type Remains struct {
	// Status of the job, or nil if the job is gone. Instead of the UID of a pod, it has "present" if the pod exists, and
	// otherwise "past".
	Status *batchv1beta1.JobStatus
	// The names of the objects of each resource, with some details. A pod has its attempt and phase, a NetworkPolicy the
	// number of peers that it admits, a TensorBoard its image, a PodGroup the number of pods that it needs, and a
	// Workload the number of its pods and its conditions.
	Pods, Services, NetworkPolicies, Secrets, TensorBoards, PodGroups, Workloads []string
	// TensorBoard is the status of the job's TensorBoard. A text about whether the TensorBoard exists replaces its UID.
	TensorBoard *batchv1beta1.DependentStatus
}

// Remains returns a summary of the objects without the values that differ from run to run, such as UIDs.
func (o Objects) Remains() Remains {
	var r Remains
	uids := map[string]bool{}
	for _, pod := range ListOf[*corev1.Pod](o) {
		uids[string(pod.UID)] = true
		r.Pods = append(r.Pods, fmt.Sprintf("%s attempt %s %s", pod.Name, AttemptLabel(pod), pod.Status.Phase))
	}
	for _, service := range ListOf[*corev1.Service](o) {
		r.Services = append(r.Services, service.Name)
	}
	for _, policy := range ListOf[*networkingv1.NetworkPolicy](o) {
		peers := 0
		for _, rule := range policy.Spec.Ingress {
			peers += len(rule.From)
		}
		r.NetworkPolicies = append(r.NetworkPolicies, fmt.Sprintf("%s allows %d peers", policy.Name, peers))
	}
	for _, secret := range ListOf[*corev1.Secret](o) {
		r.Secrets = append(r.Secrets, secret.Name)
	}
	for _, tensorBoard := range ListOf[*tensorboardv1beta1.TensorBoard](o) {
		uids[string(tensorBoard.UID)] = true
		r.TensorBoards = append(r.TensorBoards, tensorBoard.Name+" "+tensorBoard.Spec.Image)
	}
	for _, group := range ListOf[*schedulerv1beta1.PodGroup](o) {
		r.PodGroups = append(r.PodGroups, fmt.Sprintf("%s needs %d", group.Name, group.Spec.MinMember))
	}
	for _, workload := range ListOf[*kueuev1beta2.Workload](o) {
		r.Workloads = append(r.Workloads, workload.Name+" "+describeWorkload(workload))
	}
	job := o.Job()
	if job == nil {
		return r
	}
	if r.TensorBoard = TensorBoardStatus(job).DeepCopy(); r.TensorBoard != nil {
		r.TensorBoard.Action = "" // the action depends on whether a stale cache made a creation fail
		if r.TensorBoard.Dependent != nil {
			r.TensorBoard.Dependent.UID = types.UID(fmt.Sprintf("present: %t", uids[string(r.TensorBoard.Dependent.UID)]))
		}
	}
	r.Status = job.JobStatus().DeepCopy()
	withoutTimes(r.Status)
	for replica := range r.Status.EachReplica() {
		switch {
		case uids[string(replica.UID)]:
			replica.UID = "present"
		case replica.UID != "":
			replica.UID = "past"
		}
		if replica.Phase == batchv1beta1.ReplicaPhaseDeleted {
			replica.Containers = nil // in some runs, the controller has not seen how the containers ended
		}
	}
	if inPlace := r.Status.RestartsInPlace; inPlace != nil {
		inPlace.PodUID = types.UID(fmt.Sprintf("present: %t", uids[string(inPlace.PodUID)]))
	}
	return r
}

// Describe returns a short summary of the job and its pods.
func (o Objects) Describe() string {
	r := o.Remains()
	phase := "no job"
	if r.Status != nil {
		phase = fmt.Sprintf("the job is %s (%s), backoffCount %d", r.Status.Phase, r.Status.Reason, r.Status.BackoffCount)
	}
	return fmt.Sprintf("%s; pods: %s", phase, strings.Join(r.Pods, ", "))
}

// timeInText matches a time in the message of a stall.
var timeInText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// withoutTimes replaces the times in the messages of a status, because they differ from run to run.
func withoutTimes(status *batchv1beta1.JobStatus) {
	for i := range status.Failures {
		status.Failures[i].Message = timeInText.ReplaceAllString(status.Failures[i].Message, "a time")
	}
	for i := range status.Conditions {
		status.Conditions[i].Message = timeInText.ReplaceAllString(status.Conditions[i].Message, "a time")
	}
}
