package explore

// awayActions returns how the controller may end, be away for long, and start again. A controller that starts at once
// is another action, as is one that is slow to begin a reconcile: pods end and vanish before that, too. Those two lack
// that time passes although the controller was woken: deadlines, grace and delays are over when it starts.
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
	return []action{{name: "the controller ends", do: func(m *machine) {
		m.state.spent.aways++
		m.startAgain(nil, 0)
		m.state.away, m.state.dirty = true, false
	}}}
}
