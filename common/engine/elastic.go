package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
)

// presentRoles returns the roles with the replicas that the job has. A finished job keeps those that it had, and so does an elastic
// one that loses its pods to a pause. The others of an elastic job are those that the status records, which is written before any of
// their pods is created or deleted, and those that are added to them now: of the lowest indices whose former pods are gone, so that no
// pod is taken for one of another life. One that is new, or has no pods as it is paused, has nothing to keep.
func (p *planner) presentRoles() []framework.Role {
	roles := slices.Clone(p.job.Spec.Roles)
	status := p.job.Status
	elastic := p.job.Spec.Elastic
	losesPods := p.job.Spec.RunMode.Pausing() && status.StartTime == nil
	hasNone := isPaused(status) || losesPods && len(p.seen.Pods) == 0
	if len(status.Tasks) == 0 || !status.Finished() && (elastic == nil || hasNone) {
		return roles
	}
	for i := range roles {
		role := &roles[i]
		role.Indices = recordedIndices(p.job.Name, role.Type, status.Tasks)
		if status.Finished() || losesPods {
			continue
		}
		before := len(role.Indices)
		role.Indices = policy.Grow(role.Indices, role.Replicas, elastic.Most(), func(index int32) bool {
			return p.seen.Pods[framework.MemberName(p.job.Name, role.Type, index)] == nil
		})
		if len(role.Indices) > before {
			p.decision.Irrevocable = true // which pods are gone must not be guessed
		}
	}
	return roles
}

// recordedIndices returns the indices of the replicas of a type that are in a status, ascending.
func recordedIndices(job, roleType string, tasks []batchv1beta1.TaskStatus) []int32 {
	indices := []int32{}
	prefix := strings.TrimSuffix(framework.MemberName(job, roleType, 0), "0")
	for _, task := range tasks {
		if task.Type != roleType {
			continue
		}
		for _, r := range task.Replicas {
			if index, err := strconv.ParseInt(strings.TrimPrefix(r.Name, prefix), 10, 32); err == nil {
				indices = append(indices, int32(index))
			}
		}
	}
	return indices
}

// scale takes away the replicas of an elastic job that are too many; those that it lacks are there already. The pods are
// deleted once the status no longer has their replicas. The survivors keep their pods, names and indices. What is taken away
// is not judged any more: scaling counts as no failure.
func (p *planner) scale() {
	if p.job.Spec.Elastic == nil {
		return
	}
	roles := slices.Clone(p.job.Spec.Roles)
	for i := range roles {
		role := &roles[i]
		var present []policy.Present
		for j, r := range p.replicas {
			if r.member.Role.Type == role.Type {
				present = append(present, policy.Present{Index: r.member.Index, Running: r.works(), Leads: j == 0})
			}
		}
		role.Indices = policy.Shrink(present, role.Replicas)
	}
	before := len(p.replicas)
	p.formGang(roles)
	stay := make(map[string]*framework.Member, len(p.gang.Members))
	for i := range p.gang.Members {
		stay[p.gang.Members[i].Name] = &p.gang.Members[i]
	}
	remaining := make([]*replica, 0, len(stay))
	for _, r := range p.replicas {
		if member, ok := stay[r.member.Name]; ok {
			r.member = member
			remaining = append(remaining, r)
		}
	}
	p.replicas = remaining
	if len(remaining) < before {
		p.decision.Irrevocable = true // which replicas run must not be guessed
	}
}

// forgetAdded leaves out of an elastic job that ends the replicas that were to be added just now.
func (p *planner) forgetAdded() {
	if p.job.Spec.Elastic != nil && len(p.job.Status.Tasks) > 0 {
		p.replicas = slices.DeleteFunc(p.replicas, func(r *replica) bool { return r.recorded.Phase == "" })
	}
}

// announceScale tells the user that the number of replicas of an elastic job that runs changes.
func (p *planner) announceScale() {
	status := p.job.Status
	if p.job.Spec.Elastic == nil || p.decision.Status.StartTime == nil || p.decision.Status.Finished() {
		return
	}
	recorded := 0
	for _, task := range status.Tasks {
		recorded += len(task.Replicas)
	}
	if recorded > 0 && recorded != len(p.replicas) {
		p.addEvent(corev1.EventTypeNormal, batchv1beta1.EventScaled, "Scale",
			fmt.Sprintf("scaled from %d to %d replicas", recorded, len(p.replicas)), "from", recorded, "to", len(p.replicas))
	}
}

// trainsWithLess says that enough replicas of an elastic job run, the leader among them.
func (p *planner) trainsWithLess() bool {
	if p.job.Spec.Elastic == nil || len(p.replicas) == 0 {
		return false
	}
	running := int32(0)
	for i, r := range p.replicas {
		if waiting, _ := p.explain(r); waiting != "" {
			if i == 0 {
				return false
			}
			continue
		}
		if !r.staysFailed() && r.failure() == nil {
			running++
		}
	}
	return running >= p.job.Spec.Elastic.Least()
}
