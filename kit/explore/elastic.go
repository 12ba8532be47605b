package explore

import (
	"fmt"

	"tensorstack.dev/jobs/kit/model"
)

// elasticExplorations returns the small jobs that are elastic.
func elasticExplorations() []exploration {
	return []exploration{
		{
			name: "an elastic job whose replicas restart alone is paused and scaled", added: true,
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: losses, edits: []edit{pauses, scales(1), scales(2)},
			budget: allFaults,
		},
		{
			name: "an elastic job with a rendezvous is paused and scaled", added: true,
			shape:    model.Elastic(1, 1, "", model.Limit(1)),
			failures: []string{"fails", "is killed", "is deleted"}, edits: []edit{pauses, scales(2), scales(1)},
			budget: allFaults,
		},
		{
			name:     "an elastic job is scaled down and up again",
			shape:    model.Elastic(1, 2, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{scales(1), scales(2), pauses, resumes},
			budget: twoEdits,
		},
		{
			name:     "an elastic job has too few replicas left",
			shape:    model.Elastic(2, 2, model.ScopeReplica, model.Limit(0)),
			failures: []string{"fails", "is deleted by force"}, edits: userEdits,
			budget: allFaults,
		},
	}
}

func scales(expected int32) edit {
	return edit{
		name: fmt.Sprintf("scales the job to %d replicas", expected),
		may:  func(s *state) bool { return s.shape.Elastic.Expected() != expected },
		do:   func(m *machine) { m.edit(model.Scale(expected)) },
	}
}
