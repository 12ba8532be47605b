package framework

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// SupervisorPort is the port of the supervisor in the pod of a leader that has its own network. The supervisor is the
// first process of the main container. It starts the launcher, which is torchrun or the agent of a DeepSpeedJob, and
// counts its failures and restarts in place. The controller connects to the port, and the supervisors of other members
// with torchrun.
const SupervisorPort = 29498

// SupervisorPort returns the port of the leader's supervisor.
func (p Peers) SupervisorPort() int32 {
	if p.Leader().HasHostNetwork() {
		return p.HostPort(1)
	}
	return SupervisorPort
}

// AttemptID returns the ID of the current attempt of the job. Members of an earlier attempt do not know it.
func (p Peers) AttemptID() string { return AttemptID(p.UID, strconv.Itoa(int(p.Attempt))) }

// AttemptID returns the ID of an attempt of a job. The supervisor of the leader answers only to those who know it.
func AttemptID(job types.UID, attempt string) string { return string(job) + "-" + attempt }

// CountsRestarts reports whether the pod of the member counts the restarts in place, so that the controller reads their
// number.
func (s JobSpec) CountsRestarts(member Member) bool { return s.RestartsInPlace && member.Rank == 0 }

// AnnounceSupervisor makes the controller read the supervisor in the pod of the template, which is that of the leader.
func (p Peers) AnnounceSupervisor(template *corev1.PodTemplateSpec) {
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[batchv1beta1.AnnotationSupervisorPort] = strconv.Itoa(int(p.SupervisorPort()))
}
