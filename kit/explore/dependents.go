package explore

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

// gangExplorations returns the small jobs that a Queue admits.
func gangExplorations() []exploration {
	return []exploration{
		{
			name: "a gang of one replica survives a queue that closes unseen", added: true,
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, queueEdits: queueEdits,
			budget: spent{failures: 1, edits: 1, staleReads: 1, lostEvents: 1}, briefly: 2,
		},
		{
			name:     "a gang whose replicas restart alone survives every kind of fault",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails", "is deleted"}, edits: userEdits, queueEdits: queueEdits,
			budget: twoEdits,
		},
		{
			name:     "a gang that restarts as a whole is paused and resumed",
			shape:    model.InQueue(model.Two(model.OnFailure, model.ScopeJob, model.Limit(1))),
			failures: []string{"fails"}, edits: resumingEdits, queueEdits: queueEdits,
			budget: twoEdits,
		},
		{
			name:     "a gang that is elastic is scaled",
			shape:    model.InQueue(model.Elastic(1, 2, model.ScopeReplica, model.Limit(1))),
			failures: []string{"fails"}, edits: []edit{scales(1), scales(2)}, queueEdits: queueEdits,
			budget: twoEdits,
		},
	}
}

// groupActions returns the actions of the scheduler-controller on the PodGroup of the job, and the changes that users
// make to the PodGroup and its queue.
func (x options) groupActions(s *state) []action {
	var actions []action
	if s.live.Objects.Unconsidered() != nil {
		actions = append(actions, action{
			name: "the scheduler-controller reconciles the PodGroup", quiet: clusterWorks, do: (*machine).considerGroup,
		})
	}
	return append(actions, x.userActions(s, x.queueEdits)...)
}

// considerGroup makes the scheduler-controller reconcile the PodGroup of the job, if the job has one.
func (m *machine) considerGroup() {
	m.cluster(func(c *model.Cluster) { c.Consider(m.state.closed) })
}

// Edits of the queue of the job and of its PodGroup.
var (
	closesQueue = edit{
		name: "closes the queue", may: func(s *state) bool { return !s.closed },
		do: func(m *machine) { m.state.closed = true; m.considerGroup() },
	}
	opensQueue = edit{
		name: "opens the queue", may: func(s *state) bool { return s.closed },
		do: func(m *machine) { m.state.closed = false; m.considerGroup() },
	}
	deletesGroup = edit{
		name: "deletes the PodGroup", may: func(s *state) bool { return s.live.Objects.PodGroup() != nil },
		do: func(m *machine) { m.remove(m.state.live.Objects.PodGroup(), client.DeleteOptions{}) },
	}
)
