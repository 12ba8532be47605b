// Package framework defines the interface between the job controller and a training framework. Implementations are
// pure: they do not call the API server and do not read the clock.
package framework

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Job is implemented by the API type of each job kind.
type Job interface {
	client.Object

	// JobStatus returns a pointer to the status. Callers read and write the status through it.
	JobStatus() *batchv1beta1.JobStatus
}

// Framework adapts a training framework to the job controller.
type Framework[J Job] interface {
	// NewJob returns an empty job.
	NewJob() J

	// JobSpec returns the spec of a job in the form that all kinds share.
	JobSpec(job J) JobSpec

	// MainContainers returns the names that mark the main container of a template, in order of preference. If no container
	// has one of these names, the first container is the main container.
	MainContainers() []string

	// Wire connects the pod of one replica with its peers: it adds environment variables, arguments, ports and volumes to
	// the template of the pod. The template has at least one container. It is a copy that Wire may change. An error
	// describes a problem of the template and becomes a condition of the job.
	Wire(job J, peers Peers, member Member, template *corev1.PodTemplateSpec) error
}

// SecretFramework is implemented by a Framework whose replicas share a Secret while the job runs. The controller
// creates the Secret before the first pod, and deletes it when the job and all its replicas have ended. The
// controller never reads the Secret.
type SecretFramework[J Job] interface {
	// SecretName returns the name of a job's Secret. Each job must have its own name for the Secret: the controller
	// assumes that any Secret with this name belongs to the job.
	SecretName(job J) string
	// NewSecret returns a new Secret. The controller sets the name of the Secret. The controller can call NewSecret
	// several times for a job, but it never replaces an existing Secret.
	NewSecret(job J) (*corev1.Secret, error)
}

// AnnotationMain names the main container of a pod with several containers. kubectl logs and kubectl exec use this
// container by default.
const AnnotationMain = "kubectl.kubernetes.io/default-container"

// MainContainer returns the container whose exit is the outcome of the replica, or nil if there are no containers.
// The names are the result of Framework.MainContainers.
func MainContainer(names []string, containers []corev1.Container) *corev1.Container {
	for _, name := range names {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	if len(containers) == 0 {
		return nil
	}
	return &containers[0]
}
