package decide

import (
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
)

// WithOutput is exported for the tests. The tests are in package decide_test, because they use package jobtest, which
// imports this package.
var WithOutput = withOutput

// BuildPod returns the pod of the member with the given rank, in the given attempt of the job.
func BuildPod(
	job view.Job, peers framework.Peers, rank int, awaited []string, jobAttempt int32, template *corev1.PodTemplateSpec,
) (*corev1.Pod, error) {
	s := &steps{View: view.View{Job: job, Peers: peers}}
	main := framework.MainContainer(job.MainContainers, template.Spec.Containers)
	return s.buildPod(peers.Members[rank], awaited, view.Attempt{Job: jobAttempt}, template, main)
}

// Start changes a template as the run mode requires for the replicas of a type. It calls wire where the framework
// would wire the template.
func Start(
	spec framework.JobSpec, pauses int32, roleType, mainContainer string, template *corev1.PodTemplateSpec, wire func(),
) {
	s := startOf(spec, pauses, roleType)
	main := func() *corev1.Container {
		return framework.MainContainer([]string{mainContainer}, template.Spec.Containers)
	}
	s.prepare(template, main())
	wire()
	s.complete(main())
}
