// Package kueue translates between jobs and the API of Kueue: from replicas to PodSets, from an assignment to pods,
// and from the state of a job to the status of its Workload. The protocol is that of Kueue's own integrations
// (pkg/controller/jobframework). No function uses a client, a logger or the clock.
package kueue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
)

// PodSets returns a PodSet for each role that has replicas. The template of a PodSet is the template of the user with
// the restart policy Never. If replicas of the role can report progress, framework.ReserveSidecar adds a placeholder
// for their sidecar to the template. The argument sidecar has the resources of the placeholder. The template has no
// other container that controllers add, so that the PodSets do not depend on the version of the controllers. If an
// elastic job has only one PodSet, Kueue can admit a part of its replicas, but at least minReplicas.
func PodSets(spec framework.JobSpec, roles []framework.Role, sidecar corev1.ResourceList) []kueuev1beta2.PodSet {
	var sets []kueuev1beta2.PodSet
	for _, role := range roles {
		if role.Replicas == 0 {
			continue
		}
		template := role.Template.DeepCopy()
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		if spec.HasReporters(role) {
			framework.ReserveSidecar(&template.Spec, sidecar)
		}
		sets = append(sets, kueuev1beta2.PodSet{
			Name: role.Type, Count: role.Replicas, Template: *template,
			TopologyRequest: topologyRequest(template.Annotations),
		})
	}
	if elastic := spec.Elastic; elastic != nil && len(sets) == 1 && elastic.Least() < sets[0].Count {
		sets[0].MinCount = new(elastic.Least())
	}
	return sets
}

// HasCounts reports whether the PodSets of the Workload have the same types, with the same numbers of replicas, as
// the roles. Roles without replicas do not count.
func HasCounts(workload *kueuev1beta2.Workload, roles []framework.Role) bool {
	wanted := map[string]int32{}
	for _, role := range roles {
		if role.Replicas > 0 {
			wanted[role.Type] = role.Replicas
		}
	}
	for _, set := range workload.Spec.PodSets {
		if wanted[set.Name] != set.Count {
			return false
		}
	}
	return len(wanted) == len(workload.Spec.PodSets)
}

// Covers reports whether each pod of the Workload requests at least the resources that a replica of the same type
// requests. It compares the resources at the level of the pod. It also compares each container of the user's
// templates with the container of the same name in the Workload. It ignores the numbers of replicas and the
// containers that the controllers add, because these containers depend on the version of the controllers.
func Covers(workload *kueuev1beta2.Workload, roles []framework.Role) bool {
	granted := map[string]corev1.PodSpec{}
	for _, set := range workload.Spec.PodSets {
		granted[set.Name] = set.Template.Spec
	}
	return !slices.ContainsFunc(roles, func(role framework.Role) bool {
		return role.Replicas > 0 && !covers(granted[role.Type], role.Template.Spec)
	})
}

func covers(granted, wanted corev1.PodSpec) bool {
	grants := map[string]corev1.ResourceList{}
	for _, c := range slices.Concat(granted.InitContainers, granted.Containers) {
		grants[c.Name] = requests(&c.Resources)
	}
	grants[""] = requests(granted.Resources)
	wants := map[string]corev1.ResourceList{"": requests(wanted.Resources)}
	for _, c := range slices.Concat(wanted.InitContainers, wanted.Containers) {
		wants[c.Name] = requests(&c.Resources)
	}
	for container, resources := range wants {
		for name, quantity := range resources {
			if grant := grants[container][name]; quantity.Cmp(grant) > 0 {
				return false
			}
		}
	}
	return true
}

// requests returns the resources that a container or a pod requests. If a resource has a limit and no request, the
// limit counts.
func requests(resources *corev1.ResourceRequirements) corev1.ResourceList {
	all := corev1.ResourceList{}
	if resources != nil {
		maps.Copy(all, resources.Limits)
		maps.Copy(all, resources.Requests)
	}
	return all
}

// Admitted returns the number of admitted replicas of each type. If the admission does not have the number of a type,
// or if there is no admission, the result has the number in the spec of the Workload.
func Admitted(workload *kueuev1beta2.Workload) map[string]int32 {
	admitted := map[string]int32{}
	for _, set := range workload.Spec.PodSets {
		admitted[set.Name] = set.Count
	}
	if workload.Status.Admission != nil {
		for _, assignment := range workload.Status.Admission.PodSetAssignments {
			if assignment.Count != nil {
				admitted[assignment.Name] = *assignment.Count
			}
		}
	}
	return admitted
}

// Exceeding returns a message if the roles have more replicas than are admitted, and an empty string otherwise.
func Exceeding(admitted map[string]int32, roles []framework.Role) string {
	for _, role := range roles {
		if n := admitted[role.Type]; role.Replicas > n {
			return fmt.Sprintf("Kueue has admitted %s of type %s, and the job has %d: pause and resume the job to "+
				"request the admission of more", report.Count(int(n), "replica"), role.Type, role.Replicas)
		}
	}
	return ""
}

// PriorityClassKind is the kind of the priority classes of Kueue.
const PriorityClassKind = "WorkloadPriorityClass"

// Priority is the priority of a Workload and a reference to the class that the priority comes from. Ref is nil if no
// class sets the priority.
type Priority struct {
	Value int32
	Ref   *kueuev1beta2.PriorityClassRef
}

// PriorityOf returns the priority of the first PriorityClass that a template of the roles names. If no template names
// one, it returns the priority of the default PriorityClass. If the named class does not exist, or if there is no
// default class, the result is the zero Priority.
func PriorityOf(roles []framework.Role, classes []schedulingv1.PriorityClass) Priority {
	name := ""
	for _, role := range roles {
		name = cmp.Or(name, role.Template.Spec.PriorityClassName)
	}
	i := slices.IndexFunc(classes, func(class schedulingv1.PriorityClass) bool {
		return class.Name == name || name == "" && class.GlobalDefault
	})
	if i < 0 {
		return Priority{}
	}
	return Priority{Value: classes[i].Value, Ref: &kueuev1beta2.PriorityClassRef{
		Group: schedulingv1.GroupName, Kind: "PriorityClass", Name: classes[i].Name,
	}}
}
