package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// The tests also check these functions. They are in package plan_test, because package jobtest, which builds their
// objects, imports this package.
var (
	OnlyFollowsReplicas    = onlyFollowsReplicas
	WithoutReplicas        = withoutReplicas
	IsSameStatus           = isSameStatus
	IsDelayableFirstStatus = isDelayableFirstStatus
	IsPaused               = isPaused
	IsRunning              = isRunning
	Initialized            = initialized
	ContainerStatus        = containerStatus
	WithOutput             = withOutput
	BoundOf                = boundOf
)

const MaxFailures = maxFailures

type Action = action

const (
	Leave        = leave
	Expire       = expire
	Dispatch     = dispatch
	CleanUp      = cleanUp
	Hold         = hold
	Pause        = pause
	End          = end
	DecideEnd    = decideEnd
	AwaitReports = awaitReports
	Stop         = stop
	Run          = run
)

// Choose returns the action that Decide chooses.
func Choose(job Job, seen Observation, now time.Time) Action {
	v := interpret(job, seen, now)
	return v.choose().action
}

// BuildPod returns the pod of the member with the given rank, in the given attempt of the job.
func BuildPod(
	job Job, gang framework.Gang, rank int, awaited []string, jobAttempt int32, template *corev1.PodTemplateSpec,
) (*corev1.Pod, error) {
	s := &steps{view: view{job: job, gang: gang}}
	return s.buildPod(gang.Members[rank], awaited, attempt{job: jobAttempt}, template)
}

// Start changes a template as the run mode requires for the replicas of a type, before and after the framework wires
// it.
func Start(
	spec framework.JobSpec, pauses int32, roleType, mainContainer string, template *corev1.PodTemplateSpec, wire func(),
) {
	s := startOf(spec, pauses, roleType)
	s.prepare([]string{mainContainer}, template)
	wire()
	s.complete([]string{mainContainer}, template)
}

// AttemptLabel returns the value of the attempt label for the given attempts of the job and of a replica.
func AttemptLabel(job, replica int32) string { return attempt{job: job, replica: replica}.String() }

// JobAttempt returns the current attempt of the job.
func JobAttempt(status batchv1beta1.JobStatus) int32 { return jobAttempt(status) }
