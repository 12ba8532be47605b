// Package framework is the seam between the job controller and a training framework: what a framework must implement so
// that its jobs can run. Everything here is pure; no implementation talks to the API server or reads the clock.
package framework

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Job is implemented by the API type of each job kind.
type Job interface {
	client.Object

	// JobStatus returns the status, to be read and written in place.
	JobStatus() *batchv1beta1.JobStatus
}

// Framework is what a training framework must say of its jobs.
type Framework[J Job] interface {
	// NewJob returns an empty job.
	NewJob() J

	// JobSpec returns the spec of a job in the form that all kinds share.
	JobSpec(job J) JobSpec

	// MainContainers returns the names by which a template marks its main container, the preferred first. Without a
	// container of these names the first one is the main container.
	MainContainers() []string

	// Wire adds to the template of one replica what makes it a member of the gang: environment, arguments, ports,
	// volumes. The template is a copy that Wire may change. An error speaks of the template and becomes a condition of
	// the job.
	Wire(job J, gang Gang, member Member, template *corev1.PodTemplateSpec) error
}

// SecretFramework is a Framework whose replicas share a Secret while the job runs. The controller creates it before the
// first pod, deletes it when the run is over, and never reads it.
type SecretFramework[J Job] interface {
	// SecretName returns the name of the Secret of a job. No other job's Secret may have it, since an object of that name
	// is taken for the job's own.
	SecretName(job J) string
	// NewSecret returns a new Secret. The controller sets its name. Of several, the API server keeps the first.
	NewSecret(job J) (*corev1.Secret, error)
}

// MainContainer returns the container of the list whose exit is the replica's outcome, or nil if there is none.
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
