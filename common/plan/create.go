package plan

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/memsize"
	"tensorstack.dev/jobs/common/report"
)

// Creation describes a pod to create. The pod is built only when it is created, because all pods of a large job
// together might not fit into memory.
type Creation struct {
	// Name is the name of the pod.
	Name string
	// Type is the type of the replica.
	Type string
	// Size is about how many bytes of memory the pod takes. It is the size of the largest pod of the type that Decide has
	// built.
	Size int64
	// Join makes the pod a member of the object that admits it. Nil means that the pod needs no admission.
	Join func(*corev1.Pod)

	build func() (*corev1.Pod, error)
}

// Build returns the pod. Each call returns a new object. An error describes a fault of the template and is of type
// *report.RefusedError.
func (c *Creation) Build() (*corev1.Pod, error) {
	pod, err := c.build()
	if err != nil {
		return nil, &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: err}
	}
	if c.Join != nil {
		c.Join(pod)
	}
	return pod, nil
}

// createMissing creates missing pods, except those whose restart is not due yet. If all replicas are restarted, it
// creates no pod until the pods of the earlier attempt are gone, because a new pod could connect to them.
func (s *steps) createMissing() {
	if s.hasPodsOfEarlierJobAttempt() {
		return
	}
	awaited := sync.OnceValue(s.awaitedNames) // computed once, and only if a pod is missing
	for _, r := range s.replicas {
		if r.pod != nil || r.done {
			continue
		}
		if r.recorded.RestartTime != nil && r.recorded.RestartTime.After(s.now) {
			s.wakeUrgentlyAt(r.recorded.RestartTime.Time)
			continue
		}
		s.Creates = append(s.Creates, Creation{
			Name:  r.member.Name,
			Type:  r.member.Role.Type,
			build: func() (*corev1.Pod, error) { return s.newPod(r, awaited()) },
		})
	}
	if err := s.measureCreations(); err != nil {
		s.Creates, s.refusal = nil, err
	}
}

// measureCreations sets the sizes of the pods to create. It builds the first and the last pod of each type, because a
// template can be faulty for the leader, for the other replicas of the type, or for both. An error describes the fault.
// The caller then creates no pod of the job.
func (s *steps) measureCreations() *report.RefusedError {
	sizes := map[string]int64{}
	for i := range s.Creates {
		c := &s.Creates[i]
		isFirst := i == 0 || s.Creates[i-1].Type != c.Type
		isLast := i == len(s.Creates)-1 || s.Creates[i+1].Type != c.Type
		if !isFirst && !isLast {
			continue
		}
		pod, err := c.build()
		if err != nil {
			return &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: err}
		}
		sizes[c.Type] = max(sizes[c.Type], memsize.Of(pod))
	}
	for i := range s.Creates {
		s.Creates[i].Size = sizes[s.Creates[i].Type]
	}
	return nil
}

// newPod returns the pod of a replica. The pod waits until the awaited names resolve. It waits for its own name only if
// needsOwnName returns true. An error describes a fault of the template.
func (s *steps) newPod(r *replica, awaited []string) (*corev1.Pod, error) {
	template := r.member.Role.Template.DeepCopy()
	how := startOf(s.job.Spec, s.job.Status.Pauses, r.member.Role.Type)
	how.prepare(s.job.MainContainers, template)
	if err := s.job.Wire(s.gang, *r.member, template); err != nil {
		return nil, err
	}
	how.complete(s.job.MainContainers, template)
	for _, reserved := range []string{batchv1beta1.AnnotationProgressPort, batchv1beta1.AnnotationProgressToken} {
		delete(template.Annotations, reserved) // the controller would read the progress of the pod
	}
	main := framework.MainContainer(s.job.MainContainers, template.Spec.Containers)
	if main != nil && s.job.Spec.MayReport(s.gang, *r.member) {
		if err := s.gang.AddProgress(*r.member, template, main); err != nil {
			return nil, err
		}
	}
	own := s.gang.FQDN(*r.member)
	names := slices.DeleteFunc(slices.Clone(awaited), func(name string) bool { return name == own })
	if needsOwnName(template.Spec) {
		names = append(names, own)
	}
	return s.buildPod(*r.member, names, r.attempt(), template)
}

// needsOwnName reports whether a pod must wait until its own name resolves. That is the case with hostNetwork, because
// the kubelet does not write the name into /etc/hosts. With another DNS policy the name might never resolve.
func needsOwnName(spec corev1.PodSpec) bool {
	return spec.HostNetwork && (spec.DNSPolicy == "" || spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet)
}

// awaitedNames returns the host names that must resolve before another replica starts. These are the names of the
// leader and of the replicas that every replica connects to, except those that have ended.
func (s *steps) awaitedNames() []string {
	var names []string
	for _, r := range s.replicas {
		isAwaited := r.member.Rank == 0 || r.member.Role.Awaited
		if isAwaited && !r.done && !r.succeeded() {
			names = append(names, s.gang.FQDN(*r.member))
		}
	}
	return names
}
