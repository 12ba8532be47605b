package explore

import "tensorstack.dev/jobs/kit/model"

// awayExplorations returns the small jobs whose controller is away for a long time.
func awayExplorations() []exploration {
	return []exploration{
		{
			name:     "a job of one replica survives a long absence of its controller",
			shape:    model.One(model.OnFailure, model.Limit(1), model.Deadline(90)),
			failures: []string{"fails", "is deleted by force"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 2, edits: 1, aways: 1}, briefly: 3,
		},
		{
			name:     "a job that restarts as a whole survives a long absence of its controller",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1), model.TimeToLive(10)),
			failures: []string{"fails", "is deleted by force"},
			budget:   spent{failures: 2, aways: 1}, briefly: 2, inTurn: true,
		},
	}
}

// awayActions returns the actions by which the controller stops, is away for a long time, and starts again.
// Deadlines, grace periods and delays can end without a controller only in these actions: a restart in another action
// takes no time, and slow components let only a short time pass.
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
		m.state.away, m.state.Dirty = true, false
	}}}
}
