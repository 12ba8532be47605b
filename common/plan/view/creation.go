package view

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/report"
)

// Creation describes a pod to create. The pod is built only when it is created, because all pods of a large job
// together might not fit into memory.
type Creation struct {
	// Name is the name of the pod.
	Name string
	// Type is the type of the replica.
	Type string
	// Size is about how many bytes of memory the pod takes. It is the size of the largest pod of this type among the
	// pods that were built for the decision.
	Size int64
	// Join makes the pod a member of the object that admits it. Nil means that the pod needs no admission.
	Join func(*corev1.Pod)

	// New builds the pod without Join. An error describes a fault of the template.
	New func() (*corev1.Pod, error)
}

// Build returns the pod. Each call returns a new object. An error describes a fault of the template and is of type
// *report.RefusedError.
func (c *Creation) Build() (*corev1.Pod, error) {
	pod, err := c.New()
	if err != nil {
		return nil, &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: err}
	}
	if c.Join != nil {
		c.Join(pod)
	}
	return pod, nil
}
