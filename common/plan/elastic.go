package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// presentRoles returns the roles with the current replicas of the job. grows reports whether an elastic job gets new
// replicas. A job that is not elastic has the replicas of its spec until its end is decided. From then on its replicas
// stay the same. The replicas of an elastic job also stay the same while a pause deletes its pods.
//
// A running elastic job has the replicas that the status records, and new ones as needed. The status is written before
// the pod of a new replica is created, and before the pod of a removed replica is deleted. A new replica gets the
// lowest index whose former pod is gone, so that pods of different replicas are never confused. An elastic job that is
// new, or paused without pods, has the replicas of its spec.
func (v *view) presentRoles() (roles []framework.Role, grows bool) {
	roles = slices.Clone(v.job.Spec.Roles)
	status, elastic := v.job.Status, v.job.Spec.Elastic
	losesPods := v.job.Spec.RunMode.Pausing() && status.StartTime == nil
	hasNone := isPaused(status) || losesPods && len(v.seen.Pods) == 0
	if len(status.Tasks) == 0 || !status.Decided() && (elastic == nil || hasNone) {
		return roles, false
	}
	for i := range roles {
		role := &roles[i]
		role.Indices = recordedIndices(v.job.Name, role.Type, status.Tasks)
		if status.Decided() || losesPods {
			continue
		}
		before := len(role.Indices)
		role.Indices = policy.Grow(role.Indices, role.Replicas, elastic.Most(), func(index int32) bool {
			return v.seen.Pods[framework.MemberName(v.job.Name, role.Type, index)] == nil
		})
		grows = grows || len(role.Indices) > before
	}
	return roles, grows
}

// recordedIndices returns the indices of the replicas of a type in a status, in ascending order.
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

// scaledDown returns the view without the surplus replicas of an elastic job. The pods of these replicas are deleted
// once the status no longer lists them, and their failures no longer count. The other replicas keep their pods, names
// and indices.
func (v view) scaledDown() view {
	roles := slices.Clone(v.roles)
	for i := range roles {
		role := &roles[i]
		var present []policy.Present
		for j, r := range v.replicas {
			if r.member.Role.Type == role.Type {
				present = append(present, policy.Present{Index: r.member.Index, Running: r.works(), Leads: j == 0})
			}
		}
		role.Indices = policy.Shrink(present, role.Replicas)
	}
	v.roles, v.gang = roles, v.gangOf(roles)
	stay := make(map[string]*framework.Member, len(v.gang.Members))
	for i := range v.gang.Members {
		stay[v.gang.Members[i].Name] = &v.gang.Members[i]
	}
	remaining := make([]*replica, 0, len(stay))
	for _, r := range v.replicas {
		if member, ok := stay[r.member.Name]; ok {
			r.member = member
			remaining = append(remaining, r)
		}
	}
	v.resized = v.resized || len(remaining) < len(v.replicas)
	v.replicas = remaining
	return v
}

// withoutAdded returns the view of a job that ends. It leaves out replicas that an elastic job would add now.
func (v view) withoutAdded() view {
	if v.job.Spec.Elastic != nil && len(v.job.Status.Tasks) > 0 {
		v.replicas = slices.DeleteFunc(slices.Clone(v.replicas), func(r *replica) bool { return r.recorded.Phase == "" })
	}
	return v
}

// announceScale emits an event if the number of replicas of a started elastic job changes.
func (s *steps) announceScale() {
	if s.job.Spec.Elastic == nil || s.Status.StartTime == nil || s.Status.Decided() {
		return
	}
	recorded := 0
	for _, task := range s.job.Status.Tasks {
		recorded += len(task.Replicas)
	}
	if recorded > 0 && recorded != len(s.replicas) {
		s.addEvent(corev1.EventTypeNormal, batchv1beta1.EventScaled, "Scale",
			fmt.Sprintf("scaled from %d to %s", recorded, report.Count(len(s.replicas), "replica")),
			"from", recorded, "to", len(s.replicas))
	}
}

// trainsWithLess reports whether enough replicas of an elastic job run, including the leader.
func (s *steps) trainsWithLess() bool {
	if s.job.Spec.Elastic == nil || len(s.replicas) == 0 {
		return false
	}
	running := int32(0)
	for i, r := range s.replicas {
		if waiting, _ := s.explain(r); waiting != "" {
			if i == 0 {
				return false
			}
			continue
		}
		if !r.staysFailed() && r.failure() == nil {
			running++
		}
	}
	return running >= s.job.Spec.Elastic.Least()
}
