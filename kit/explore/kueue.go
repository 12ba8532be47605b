package explore

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

// kueueExplorations returns the small jobs that Kueue admits.
func kueueExplorations() []exploration {
	return []exploration{
		{
			name:     "a job of one replica that Kueue admits survives every fault",
			shape:    model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{pauses, resumes, deletes},
			kueueEdits: []edit{evicts, deletesWorkload, closesQueue, opensQueue},
			budget:     spent{failures: 1, edits: 2, crashes: 1, staleReads: 1, lostEvents: 1, conflicts: 1},
			briefly:    2, inTurn: true,
		},
		{
			name:       "a job of two replicas that Kueue admits survives evictions",
			shape:      model.InKueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts, deletesWorkload},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:       "a collective that Kueue admits restarts within its quota",
			shape:      model.InKueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:       "an elastic job that Kueue admits with fewer replicas survives evictions",
			shape:      model.InKueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures:   []string{"fails"},
			kueueEdits: []edit{evicts},
			budget:     spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a held leader of a job that Kueue admits survives evictions",
			shape:    model.InKueue(model.One(model.OnFailure, model.Limit(1))),
			holds:    true,
			failures: []string{"is deleted", "is deleted by force"}, kueueEdits: []edit{evicts, deletesWorkload},
			budget: spent{failures: 1, edits: 1, crashes: 1}, briefly: 2, inTurn: true,
		},
	}
}

// workloadActions returns the actions of Kueue on the Workload of the job, and the changes that users make to the
// Workload and its queue.
func (x options) workloadActions(s *state) []action {
	var actions []action
	if s.live.Objects.Awaiting(s.closed) != nil {
		actions = append(actions, action{
			name: "Kueue reconciles the Workload", quiet: clusterWorks,
			do: func(m *machine) { m.cluster(func(c *model.Cluster) { c.ConsiderWorkload(m.state.closed) }) },
		})
	}
	return append(actions, x.userActions(s, x.kueueEdits)...)
}

// Edits of the Workload of the job.
var (
	evicts = edit{
		name: "lets Kueue evict the job", may: func(s *state) bool {
			workload := s.live.Objects.Workload()
			return workload != nil && workload.Status.Admission != nil
		},
		do: func(m *machine) { m.cluster(func(c *model.Cluster) { c.Evict() }) },
	}
	deletesWorkload = edit{
		name: "deletes the Workload", may: func(s *state) bool { return s.live.Objects.Workload() != nil },
		do: func(m *machine) { m.remove(m.state.live.Objects.Workload(), client.DeleteOptions{}) },
	}
)
