package decide

import (
	"slices"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/policy"
)

// observe returns the view of a job. The view of an elastic job has its current replicas. The result resized is true
// if an elastic job adds or removes replicas.
func observe(job view.Job, seen view.Observation, now time.Time) (v view.View, resized bool) {
	roles, grows := presentRoles(job, seen)
	v = view.Look(job, seen, now, roles)
	if job.Spec.Elastic == nil || job.Status.Decided() || isPausedBeforeStart(v) {
		return v, false
	}
	before := len(v.Replicas)
	v = scaledDown(v)
	return v, grows || len(v.Replicas) < before
}

// presentRoles returns the roles with the current replicas of the job. The result grows is true if an elastic job
// gets new replicas. The first case that applies determines the replicas:
//
//   - If the status has no replicas, the spec determines them.
//   - If the end of the job is decided, the status determines them.
//   - If the job is not elastic, or if it is paused without pods, the spec determines them.
//   - While a pause deletes the pods, the status determines them.
//   - Otherwise, an elastic job has the replicas that the status records, and new ones as needed.
//
// The status is written before the pod of a new replica is created, and before the pod of a removed replica is
// deleted. A new replica gets the lowest index whose former pod is gone, so that pods of different replicas are never
// confused.
func presentRoles(job view.Job, seen view.Observation) (roles []framework.Role, grows bool) {
	roles = slices.Clone(job.Spec.Roles)
	status, elastic := job.Status, job.Spec.Elastic
	losesPods := job.Spec.RunMode.Pausing() && status.StartTime == nil
	hasNone := view.IsPaused(status) || losesPods && len(seen.Pods) == 0
	if len(status.Tasks) == 0 || !status.Decided() && (elastic == nil || hasNone) {
		return roles, false
	}
	for i := range roles {
		role := &roles[i]
		role.Indices = policy.RecordedIndices(job.Name, role.Type, &status)
		if status.Decided() || losesPods {
			continue
		}
		before := len(role.Indices)
		role.Indices = policy.Grow(role.Indices, role.Replicas, elastic.Most(), func(index int32) bool {
			return seen.Pods[framework.MemberName(job.Name, role.Type, index)] == nil
		})
		grows = grows || len(role.Indices) > before
	}
	return roles, grows
}

// scaledDown returns the view without the surplus replicas of an elastic job. Once the status no longer lists these
// replicas, their pods are deleted. Their failures no longer count. The other replicas keep their pods, names and
// indices.
func scaledDown(v view.View) view.View {
	roles := slices.Clone(v.Roles)
	for i := range roles {
		role := &roles[i]
		var present []policy.Present
		for j, r := range v.Replicas {
			if r.Member.Role.Type == role.Type {
				present = append(present, policy.Present{Index: r.Member.Index, Running: r.Works(), Leads: j == 0})
			}
		}
		role.Indices = policy.Shrink(present, role.Replicas)
	}
	v.Roles, v.Peers = roles, v.PeersOf(roles)
	stay := make(map[string]*framework.Member, len(v.Peers.Members))
	for i := range v.Peers.Members {
		stay[v.Peers.Members[i].Name] = &v.Peers.Members[i]
	}
	remaining := make([]*view.Replica, 0, len(stay))
	for _, r := range v.Replicas {
		if member, ok := stay[r.Member.Name]; ok {
			r.Member = member
			remaining = append(remaining, r)
		}
	}
	v.Replicas = remaining
	return v
}

// withoutAdded returns the view of a job that ends. If the job is elastic, the view lacks the new replicas that the
// status does not record yet.
func withoutAdded(v view.View) view.View {
	if v.Job.Spec.Elastic != nil && len(v.Job.Status.Tasks) > 0 {
		v.Replicas = slices.DeleteFunc(slices.Clone(v.Replicas), func(r *view.Replica) bool { return r.Recorded.Phase == "" })
	}
	return v
}

// trainsWithLess reports whether enough replicas of an elastic job run or have succeeded, and its leader does not
// wait.
func (s *steps) trainsWithLess() bool {
	if !s.isElastic() || len(s.Replicas) == 0 {
		return false
	}
	running := int32(0)
	for i, r := range s.Replicas {
		if r.Waits() {
			if i == 0 {
				return false
			}
			continue
		}
		if !r.StaysFailed() && r.Failure() == nil {
			running++
		}
	}
	return running >= s.Job.Spec.Elastic.Least()
}

// trains reports whether the replicas of the job suffice for the training. The parameter waiting is the number of
// replicas that wait.
func (s *steps) trains(waiting int) bool {
	return waiting == 0 && !s.isElastic() || s.trainsWithLess()
}

// lackingToTrain returns how many of the missing replicas the training needs in addition to those that are present.
func (s *steps) lackingToTrain(missing, present int) int {
	if elastic := s.Job.Spec.Elastic; elastic != nil {
		return max(0, min(missing, int(elastic.Least())-present))
	}
	return missing
}

// isElastic reports whether the job is elastic: it needs only a minimum of its replicas to train.
func (s *steps) isElastic() bool { return s.Job.Spec.Elastic != nil }

// mayHaveBeenRemoved reports whether an elastic job might have removed a replica and added it again. The pod of such
// a replica might be from before the removal.
func mayHaveBeenRemoved(v view.View, r *view.Replica) bool {
	return v.Job.Spec.Elastic != nil && r.Outcome.Phase != batchv1beta1.ReplicaPhasePending
}
