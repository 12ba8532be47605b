package explore

// awayActions returns the actions by which the controller stops, is away for a long time, and starts again. An
// immediate restart and a reconcile that begins late are other actions. In contrast to those, time passes here although
// the job is in the work queue, so that deadlines, grace periods and delays are over when the controller starts.
func (x options) awayActions(s *state) []action {
	if s.away {
		starts := action{name: "the controller starts", quiet: controllerBegins, do: func(m *machine) {
			m.state.away = false
			m.startAgain(nil, 0)
		}}
		passes := action{name: "time passes while the controller is away", do: func(m *machine) {
			m.state.now = m.state.now.Add(horizon)
		}}
		return []action{starts, passes}
	}
	if !x.left(s, s.spent.aways, x.budget.aways) {
		return nil
	}
	return []action{{name: "the controller stops", do: func(m *machine) {
		m.state.spent.aways++
		m.startAgain(nil, 0)
		m.state.away, m.state.dirty = true, false
	}}}
}
