package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// lateExplorations returns the small jobs whose writes the API server can delay.
func lateExplorations() []exploration {
	return []exploration{
		{
			name:     "a job of one replica survives delayed writes",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: resumingEdits,
			budget: spent{failures: 2, edits: 2, crashes: 1, lates: 1}, briefly: 3,
		},
		{
			name:     "a job that restarts as a whole survives delayed writes",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{pauses, resumes, resizes, deletes},
			budget: spent{failures: 2, edits: 2, crashes: 1, lates: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a job whose replicas never restart survives delayed writes",
			shape:    model.Two(model.Never, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 2, edits: 1, crashes: 1, lates: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a job that keeps all pods survives delayed writes",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: []string{"fails", "is deleted by force"},
			budget:   spent{failures: 2, lates: 1}, briefly: 2, inTurn: true,
		},
		{
			name:     "a gang of one replica survives delayed writes",
			shape:    model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures: []string{"fails"}, edits: resumingEdits, queueEdits: queueEdits,
			budget: spent{failures: 1, edits: 2, lates: 1}, briefly: 3,
		},
	}
}

// postpones returns the action by which the API server delays the next write of a reconcile. The controller gets a
// timeout, and the API server can make the write at any later time.
func (x options) postpones(s *state) []action {
	if s.Late != nil || !x.left(s, s.spent.lates, x.budget.lates) {
		return nil
	}
	return []action{{name: string(model.Postpone) + " the call " + s.reconcile.next.String(), do: func(m *machine) {
		m.state.spent.lates++
		m.fault = model.Postpone
		m.proceed()
	}}}
}

// lateActions returns the action by which the API server makes the delayed write. The action does not happen by
// itself, since the job must come to rest from every state even if the API server never makes the write.
func lateActions(s *state) []action {
	if s.Late == nil {
		return nil
	}
	return []action{{name: "the API server makes the delayed call " + s.Late.Call.String(), do: func(m *machine) {
		m.cluster(func(*model.Cluster) { m.CarryOutLate() })
	}}}
}

// late adds a delayed write to the encoding of a state.
func (e *encoder) late(late *model.LateWrite) {
	e.text("late " + late.Call.String() + " ")
	e.object(late.Object)
	p := late.Options.Preconditions
	e.flags(late.Options.GracePeriodSeconds != nil, p != nil && p.UID != nil, p != nil && p.ResourceVersion != nil)
}
