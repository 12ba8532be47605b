package plan

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/memsize"
	"tensorstack.dev/jobs/common/report"
)

// Creation is a pod to create. The pod is built when it is created, since all pods of a large job together may not fit
// into memory.
type Creation struct {
	// Name of the pod.
	Name string
	// Type of the replica.
	Type string
	// Size is about how many bytes of memory the pod takes: as many as the largest of its type that Decide has built.
	Size int64
	// Join makes the pod a member of what has admitted it. Nil means that nothing has to admit it.
	Join func(*corev1.Pod)

	build func() (*corev1.Pod, error)
}

// Build returns the pod, another one with each call. The error describes a fault of the template. It is of type
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

// createMissing creates the pods that are missing, unless their restart is not due. If all replicas are restarted, no
// pod is created before the pods of the earlier attempt are gone, since it could connect to them.
func (s *steps) createMissing() {
	//mutant:replicas start beside pods of an earlier attempt => if false {
	if s.hasPodsOfEarlierJobAttempt() {
		return
	}
	awaited := sync.OnceValue(s.awaitedNames) // usually nothing is missing
	for _, r := range s.replicas {
		if r.pod != nil || r.done {
			continue
		}
		if r.recorded.RestartTime != nil && r.recorded.RestartTime.After(s.now) {
			//mutant:nothing wakes the job for a delayed restart =>
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

// measureCreations sets the sizes of the pods to create. For that it builds the first and the last pod of each type.
// The error is the fault of a template, so that no pod of a job with a faulty template is created: a template is faulty
// for the leader, for the other replicas of the type, or for both.
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

// newPod returns the pod of a replica, which waits until the given names resolve, and for its own only if needsOwnName.
// An error describes a fault of the template.
func (s *steps) newPod(r *replica, awaited []string) (*corev1.Pod, error) {
	template := r.member.Role.Template.DeepCopy()
	how := startOf(s.job.Spec, s.job.Status.Pauses, r.member.Role.Type)
	how.prepare(s.job.MainContainers, template)
	if err := s.job.Wire(s.gang, *r.member, template); err != nil {
		return nil, err
	}
	how.complete(s.job.MainContainers, template)
	own := s.gang.FQDN(*r.member)
	names := slices.DeleteFunc(slices.Clone(awaited), func(name string) bool { return name == own })
	if needsOwnName(template.Spec) {
		names = append(names, own)
	}
	return s.buildPod(*r.member, names, r.attempt(), template)
}

// needsOwnName reports whether a pod must wait until its own name resolves: with hostNetwork, where the kubelet does
// not write it into /etc/hosts. With another DNS policy it may never resolve.
func needsOwnName(spec corev1.PodSpec) bool {
	return spec.HostNetwork && (spec.DNSPolicy == "" || spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet)
}

// awaitedNames returns the host names that must resolve before another replica starts: that of the leader, and those of
// the replicas that every replica connects to. The name of a replica that has ended is not waited for.
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
