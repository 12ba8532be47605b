package explore

import (
	"tensorstack.dev/jobs/kit/model"
)

// postpones returns the action by which the API server delays the next write of a reconcile. The controller gets a
// timeout, and the API server can make the write at any later time.
func (x options) postpones(s *state) []action {
	if s.late != nil || !x.left(s, s.spent.lates, x.budget.lates) {
		return nil
	}
	return []action{{name: string(model.Postpone) + " the call " + s.reconcile.next.String(), do: func(m *machine) {
		m.state.spent.lates++
		m.fault = model.Postpone
		m.proceed()
	}}}
}

// lateActions returns the action by which the API server makes the delayed write. This does not happen by itself, since
// the job must come to rest from every state even if the write is never made.
func lateActions(s *state) []action {
	if s.late == nil {
		return nil
	}
	return []action{{name: "the API server makes the delayed call " + s.late.Call.String(), do: func(m *machine) {
		late := m.state.late
		m.state.late = nil
		m.cluster(func(c *model.Cluster) {
			if uid := late.CarryOut(c); uid != "" {
				m.state.unseen = uid
			}
		})
	}}}
}

// late adds a delayed write to the encoding of a state.
func (e *encoder) late(late *model.LateWrite) {
	e.text("late " + late.Call.String() + " ")
	e.object(late.Object)
	p := late.Options.Preconditions
	e.flags(late.Options.GracePeriodSeconds != nil, p != nil && p.UID != nil, p != nil && p.ResourceVersion != nil)
}
