package decide

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/memsize"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// createMissing creates missing pods, except those whose restart is not due yet. If all replicas are restarted, it
// creates no pod until the pods of the earlier attempt are gone, because a new pod could connect to them.
func (s *steps) createMissing() {
	if s.HasPodsOfEarlierJobAttempt() {
		return
	}
	awaited := sync.OnceValue(s.awaitedNames) // computed once, and only if a pod is missing
	for _, r := range s.Replicas {
		if r.Pod != nil || r.Done {
			continue
		}
		if r.Recorded.RestartTime != nil && r.Recorded.RestartTime.After(s.Now) {
			s.requeueUrgentlyAt(r.Recorded.RestartTime.Time)
			continue
		}
		s.Creates = append(s.Creates, view.Creation{
			Name: r.Member.Name,
			Type: r.Member.Role.Type,
			New:  func() (*corev1.Pod, error) { return s.newPod(r, awaited()) },
		})
	}
	if err := s.measureCreations(); err != nil {
		s.Creates, s.Refusal = nil, err
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
		pod, err := c.New()
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

// newPod returns the pod of a replica. The pod waits until the awaited names of other replicas resolve. A pod on the
// host network might also wait for its own name (see needsOwnName). An error describes a fault of the template.
func (s *steps) newPod(r *view.Replica, awaited []string) (*corev1.Pod, error) {
	template := r.Member.Role.Template.DeepCopy()
	main := framework.MainContainer(s.Job.MainContainers, template.Spec.Containers)
	if main == nil {
		return nil, fmt.Errorf("the template of type %q has no container", r.Member.Role.Type)
	}
	how := startOf(s.Job.Spec, s.Job.Status.Pauses, r.Member.Role.Type)
	how.prepare(template, main)
	if err := s.Job.Wire(s.Peers, *r.Member, template); err != nil {
		return nil, err
	}
	main = framework.MainContainer(s.Job.MainContainers, template.Spec.Containers) // Wire may have copied the containers
	how.complete(main)
	for _, reserved := range []string{
		batchv1beta1.AnnotationProgressPort, batchv1beta1.AnnotationProgressToken, batchv1beta1.AnnotationSupervisorPort,
	} {
		delete(template.Annotations, reserved) // only the controller sets them
	}
	if s.Job.Spec.MayReport(s.Peers, *r.Member) {
		if err := s.Peers.AddProgress(*r.Member, template, main); err != nil {
			return nil, err
		}
	}
	if s.Job.Spec.CountsRestarts(*r.Member) {
		s.Peers.AnnounceSupervisor(template)
	}
	own := s.Peers.FQDN(*r.Member)
	names := slices.DeleteFunc(slices.Clone(awaited), func(name string) bool { return name == own })
	if needsOwnName(template.Spec) {
		names = append(names, own)
	}
	return s.buildPod(*r.Member, names, r.Attempt(), template, main)
}

// needsOwnName reports whether a pod must wait until its own name resolves. The result is true only for a pod on the
// host network, because the kubelet does not write the name of such a pod into /etc/hosts. If its DNS policy is
// neither empty nor ClusterFirstWithHostNet, the pod must not wait, because the name might never resolve.
func needsOwnName(spec corev1.PodSpec) bool {
	return spec.HostNetwork && (spec.DNSPolicy == "" || spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet)
}

// awaitedNames returns the host names that must resolve before a replica starts. These are the names of the leader
// and of the replicas that every replica connects to, except those that have ended.
func (s *steps) awaitedNames() []string {
	var names []string
	for _, r := range s.Replicas {
		isAwaited := r.Member.Rank == 0 || r.Member.Role.Awaited
		if isAwaited && !r.Done && !r.Succeeded() {
			names = append(names, s.Peers.FQDN(*r.Member))
		}
	}
	return names
}
