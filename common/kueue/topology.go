package kueue

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
)

// Annotations of a template that request a topology. The only other one is kueuev1beta2.AnnotationUnconstrained.
const (
	annotationRequired      = "kueue.x-k8s.io/podset-required-topology"
	annotationPreferred     = "kueue.x-k8s.io/podset-preferred-topology"
	annotationSliceTopology = "kueue.x-k8s.io/podset-slice-required-topology"
	annotationSliceSize     = "kueue.x-k8s.io/podset-slice-size"
	annotationGroupName     = "kueue.x-k8s.io/podset-group-name"
)

// CheckTopology returns an error if Kueue does not support the topologies that the templates of a job request. The
// rules are those of Kueue for its own kinds (tas_validation.go of jobframework). Kueue does not check Workloads: it
// relies on the controllers that create them.
func CheckTopology(roles []framework.Role) error {
	groups := map[string][]framework.Role{}
	for _, role := range roles {
		if role.Replicas == 0 {
			continue
		}
		request, err := parseTopology(role.Template.Annotations)
		if err == nil && ptr.Deref(request.SliceSize, 1) > role.Replicas {
			err = fmt.Errorf("annotation %s: there are only %d replicas", annotationSliceSize, role.Replicas)
		}
		if err != nil {
			return fmt.Errorf("the template of type %s: %w", role.Type, err)
		}
		if request.GroupName != nil {
			groups[*request.GroupName] = append(groups[*request.GroupName], role)
		}
	}
	for name, members := range groups {
		if err := checkGroup(members); err != nil {
			return fmt.Errorf("the templates with annotation %s %q: %w", annotationGroupName, name, err)
		}
	}
	return nil
}

// checkGroup returns an error if Kueue cannot place the types of one group together. The types of a group are those
// whose templates have the same value of annotationGroupName.
func checkGroup(members []framework.Role) error {
	if len(members) != 2 {
		return fmt.Errorf("a group has 2 types, and not %d", len(members))
	}
	a, b := members[0], members[1]
	if a.Replicas != 1 && b.Replicas != 1 {
		return errors.New("one of the types must have 1 replica")
	}
	for _, name := range []string{annotationRequired, annotationPreferred} {
		if a.Template.Annotations[name] != b.Template.Annotations[name] {
			return fmt.Errorf("both types must have the same annotation %s", name)
		}
	}
	return nil
}

// topologyRequest returns the topology that the annotations of a template request. The result is never nil, because
// Kueue can also assign domains to pods that request no topology. PodIndexLabel then makes Kueue assign the domains
// in the order of the replicas. topologyRequest ignores invalid annotations, because CheckTopology reports them.
func topologyRequest(annotations map[string]string) *kueuev1beta2.TopologyRequest {
	request, _ := parseTopology(annotations)
	request.PodIndexLabel = new(batchv1beta1.LabelReplicaIndex)
	return &request
}

// requestsTopology reports whether the annotations of a pod request a topology for it.
func requestsTopology(annotations map[string]string) bool {
	request, _ := parseTopology(annotations)
	return request.Required != nil || request.Preferred != nil || request.Unconstrained != nil ||
		request.SliceTopology != nil
}

// parseTopology reads the annotations that request a topology.
func parseTopology(annotations map[string]string) (request kueuev1beta2.TopologyRequest, err error) {
	text := func(name string) *string {
		if value, ok := annotations[name]; ok {
			return &value
		}
		return nil
	}
	required, preferred := text(annotationRequired), text(annotationPreferred)
	unconstrained := text(kueuev1beta2.AnnotationUnconstrained)
	switch {
	case required != nil && preferred != nil, unconstrained != nil && (required != nil || preferred != nil):
		return request, fmt.Errorf("only one of the annotations %s, %s and %s can be set", annotationRequired,
			annotationPreferred, kueuev1beta2.AnnotationUnconstrained)
	case unconstrained != nil:
		isAny, err := strconv.ParseBool(*unconstrained)
		if err != nil {
			return request, fmt.Errorf("annotation %s: %q is not true or false", kueuev1beta2.AnnotationUnconstrained,
				*unconstrained)
		}
		request.Unconstrained = &isAny
	}
	request.Required, request.Preferred = required, preferred

	slice, size, group := text(annotationSliceTopology), text(annotationSliceSize), text(annotationGroupName)
	if (slice == nil) != (size == nil) {
		return request, fmt.Errorf("the annotations %s and %s need each other", annotationSliceTopology, annotationSliceSize)
	}
	if slice != nil {
		n, err := strconv.ParseInt(*size, 10, 32)
		if err != nil || n < 1 {
			return request, fmt.Errorf("annotation %s: %q is not a positive number", annotationSliceSize, *size)
		}
		request.SliceTopology, request.SliceSize = slice, new(int32(n))
	}
	if group == nil {
		return request, nil
	}
	if _, err := strconv.ParseUint(*group, 10, 64); err == nil {
		return request, fmt.Errorf("annotation %s: %q must not be a number", annotationGroupName, *group)
	}
	if required == nil && preferred == nil || slice != nil {
		return request, fmt.Errorf("annotation %s needs annotation %s or %s, and no slices", annotationGroupName,
			annotationRequired, annotationPreferred)
	}
	request.GroupName = group
	return request, nil
}
