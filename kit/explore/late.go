package explore

import (
	"tensorstack.dev/jobs/kit/model"
)

// postpones returns that the API server may be late with the call that a reconcile makes next: the controller gets a
// timeout, and the write happens at any time later.
func (x options) postpones(s *state) []action {
	if s.late != nil || !x.left(s, s.spent.lates, x.budget.lates) {
		return nil
	}
	return []action{{name: string(model.Postpone) + " its call", do: func(m *machine) {
		m.state.spent.lates++
		m.fault = model.Postpone
		m.proceed()
	}}}
}

// lateActions returns that the API server may carry out what it is late with. It never does so by itself: from every
// state, the job must also come to rest without.
func lateActions(s *state) []action {
	if s.late == nil {
		return nil
	}
	return []action{{name: "the API server carries out the late call: " + s.late.Call.String(), do: func(m *machine) {
		late := m.state.late
		m.state.late = nil
		m.cluster(func(c *model.Cluster) {
			if uid := late.CarryOut(c); uid != "" {
				m.state.unseen = uid
			}
		})
	}}}
}

// late adds a late write to the encoding of a state.
func (e *encoder) late(late *model.LateWrite) {
	e.text("late " + late.Call.String() + " ")
	e.object(late.Object)
	p := late.Options.Preconditions
	e.flags(late.Options.GracePeriodSeconds != nil, p != nil && p.UID != nil, p != nil && p.ResourceVersion != nil)
}
