package explore

import (
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

// action is one thing that may happen next.
type action struct {
	name string
	do   func(*machine)
	// quiet is set if it happens by itself when nothing goes wrong and the user does nothing. Of several, the least goes
	// first.
	quiet int
	// unseen is set if the controller does not see it.
	unseen bool
}

func (a action) happensByItself() bool { return a.quiet != notByItself }

// The order in which things happen by themselves.
const (
	notByItself = iota
	controllerProceeds
	cachesGoOn
	controllerBegins
	clusterWorks
	timePasses
)

// options is what may happen in an exploration.
type options struct {
	*exploration

	// most is how much may go wrong in one life.
	most int
}

// actions returns all that may happen next.
func (x options) actions(s *state) []action {
	if s.reconcile != nil {
		return x.actionsDuring(s, s.reconcile.next)
	}
	actions := append(x.controllerActions(s), x.awayActions(s)...)
	actions = append(actions, lateActions(s)...)
	actions = append(actions, ownerActions(s)...)
	for _, pod := range s.live.Objects.Pods() {
		actions = append(actions, x.unseen(s, model.Pods, x.podActions(s, pod))...)
	}
	actions = append(actions, x.unseen(s, model.PodGroups, x.groupActions(s))...)
	actions = append(actions, x.unseen(s, model.Jobs, x.userActions(s, x.edits))...)
	actions = append(actions, garbageActions(s)...)
	return append(actions, x.timeActions(s, slices.ContainsFunc(actions, action.happensByItself))...)
}

// actionsDuring returns all that may happen before a call that a reconcile makes next. What has nothing to do with the
// call is left out: it may as well happen after it.
func (x options) actionsDuring(s *state, next model.Call) []action {
	actions := []action{{
		name: "the controller makes its call: " + next.String(), quiet: controllerProceeds, do: (*machine).proceed,
	}}
	if s.late != nil && s.late.Call.Resource == next.Resource {
		actions = append(actions, lateActions(s)...)
	}
	if next.Writes() {
		actions = append(actions, x.postpones(s)...)
		if x.left(s, s.spent.crashes, x.budget.crashes) {
			actions = append(actions, action{name: "the controller starts again, instead of its call", do: func(m *machine) {
				m.state.spent.crashes++
				m.startAgain(nil, 0)
			}})
		}
		if x.left(s, s.spent.conflicts, x.budget.conflicts) {
			for _, fault := range []model.Effect{model.Refuse, model.Lose} {
				actions = append(actions, action{name: string(fault) + " its call", do: func(m *machine) {
					m.state.spent.conflicts++
					m.fault = fault
					m.proceed()
				}})
			}
		}
	}
	actions = append(actions, x.admissionActions(s, next)...)
	if next.Writes() && next.Resource == model.Pods && x.left(s, s.spent.staleReads, x.budget.staleReads) {
		actions = append(actions, action{name: string(model.Hide) + " its call", do: func(m *machine) {
			m.state.spent.staleReads++
			m.fault = model.Hide
			m.proceed()
		}})
	}
	switch next.Resource {
	case model.Jobs:
		actions = append(actions, x.unseen(s, model.Jobs, x.userActions(s, x.edits))...)
		if s.live.Objects.Job() != nil && x.left(s, s.spent.conflicts, x.budget.conflicts) {
			actions = append(actions, action{name: "somebody annotates the job", do: annotate})
		}
	case model.Pods:
		for _, pod := range s.live.Objects.Pods() {
			if next.Verb == "list" || next.Key == model.Key("Pod", client.ObjectKeyFromObject(pod)) {
				actions = append(actions, x.unseen(s, model.Pods, x.podActions(s, pod))...)
			}
		}
	case model.PodGroups:
		actions = append(actions, x.unseen(s, model.PodGroups, x.groupActions(s))...)
	default: // nobody changes the others
	}
	return actions
}

// unseen adds to actions, which change an object of some resource, that the controller does not see them: because the
// watch loses the event, or because the cache of the resource, or every cache, stops.
func (x options) unseen(s *state, of model.Resources, actions []action) []action {
	if s.cache.Frozen()&of != 0 {
		return actions
	}
	add := func(how string, quietly func(*state)) {
		for _, a := range slices.Clone(actions) {
			if a.unseen {
				continue
			}
			actions = append(actions, action{name: a.name + how, unseen: true, do: func(m *machine) {
				quietly(m.state)
				a.do(m)
			}})
		}
	}
	if s.cache.Lost() == "" && x.left(s, s.spent.lostEvents, x.budget.lostEvents) {
		add(", of which the event is lost", func(s *state) { s.spent.lostEvents++; s.cache.LoseNext() })
	}
	if x.left(s, s.spent.staleReads, x.budget.staleReads) {
		add(", which its cache does not see any more", func(s *state) { s.spent.staleReads++; s.cache.Freeze(of) })
		add(", which no cache sees any more", func(s *state) { s.spent.staleReads++; s.cache.Freeze(model.Cached) })
	}
	return actions
}

// left reports whether something may still go wrong that has already gone wrong so often.
func (x options) left(s *state, spent, budget int) bool {
	return spent < budget && s.spent.total() < x.most
}

func (x options) controllerActions(s *state) []action {
	var actions []action
	if s.away {
		return nil
	}
	if s.dirty || !s.wakeAt.IsZero() && !s.wakeAt.After(s.now) {
		actions = append(actions, action{
			name: "the controller begins a reconcile", quiet: controllerBegins, do: (*machine).begin,
		})
	}
	if s.cache.Lags() {
		actions = append(actions, action{name: "the caches go on", quiet: cachesGoOn, do: func(m *machine) {
			m.catchUp(model.All)
		}})
	}
	if x.left(s, s.spent.crashes, x.budget.crashes) {
		starts := map[string]model.Resources{"": 0}
		if s.old != nil {
			starts = map[string]model.Resources{
				"": 0, ", with old jobs": model.Jobs, ", with old pods": model.Pods, ", with all old": model.Cached,
			}
		}
		for _, name := range slices.Sorted(maps.Keys(starts)) {
			actions = append(actions, action{name: "the controller starts again" + name, do: func(m *machine) {
				m.state.spent.crashes++
				m.startAgain(m.state.old, starts[name])
			}})
		}
		if x.timeTravel && s.old == nil && x.left(s, s.spent.staleReads, x.budget.staleReads) && s.spent.total()+1 < x.most {
			actions = append(actions, action{name: "another API server falls behind", do: func(m *machine) {
				m.state.spent.staleReads++
				m.state.old = m.state.live.Objects
			}})
		}
	}
	return actions
}

func (m *machine) remove(object client.Object, options client.DeleteOptions) {
	m.must(func(c *model.Cluster) error { return c.Remove(object, options) })
}

// must lets something happen that the API server does not refuse.
func (m *machine) must(do func(*model.Cluster) error) {
	m.cluster(func(c *model.Cluster) {
		if err := do(c); err != nil {
			m.Errorf("the API server refuses what must be possible: %v", err)
		}
	})
}

// groupActions returns what the scheduler-controller does about the PodGroup of the job, and what happens to its queue.
func (x options) groupActions(s *state) []action {
	var actions []action
	if s.live.Objects.Unconsidered() != nil {
		actions = append(actions, action{
			name: "the scheduler-controller looks at the PodGroup", quiet: clusterWorks, do: (*machine).considerGroup,
		})
	}
	return append(actions, x.userActions(s, x.queueEdits)...)
}

// considerGroup lets the scheduler-controller look at the PodGroup of the job, if it has one.
func (m *machine) considerGroup() {
	m.cluster(func(c *model.Cluster) { c.Consider(m.state.closed) })
}

// garbageActions returns what the garbage collector does.
func garbageActions(s *state) []action {
	var actions []action
	add := func(name string, do func(*machine)) {
		actions = append(actions, action{name: "the garbage collector " + name, quiet: clusterWorks, do: do})
	}
	live := s.live.Objects
	garbage, letsGoOfJob := live.Garbage()
	for _, key := range garbage {
		add("deletes "+key, func(m *machine) { m.remove(live[key], client.DeleteOptions{}) })
	}
	if letsGoOfJob {
		add("lets go of the job", func(m *machine) {
			m.cluster(func(c *model.Cluster) { c.LetGo(model.Key(m.kind.Name, model.JobKey)) })
		})
	}
	return actions
}

// timeActions returns how time may pass: until the controller wakes, or, where it only waits and nothing else is under
// way, for long. That anybody is slow is one of the things that may go wrong.
func (x options) timeActions(s *state, underWay bool) []action {
	pass := func(name string, quiet int, to time.Time) action {
		return action{name: name, quiet: quiet, do: func(m *machine) { m.state.now = to }}
	}
	var actions []action
	switch {
	case s.dirty, s.away:
	case s.wakeAt.After(s.now):
		actions = append(actions, pass("time passes until the controller wakes", timePasses, s.wakeAt))
	case s.wakeAt.IsZero() && !underWay:
		actions = append(actions, pass("time passes", notByItself, s.now.Add(horizon)))
	}
	if s.away || !x.left(s, s.spent.ticks, x.budget.ticks) {
		return actions
	}
	for _, d := range []time.Duration{time.Second, 10 * time.Second} {
		if later := s.now.Add(d); s.dirty || s.wakeAt.IsZero() || s.wakeAt.After(later) {
			actions = append(actions, action{name: d.String() + " pass", do: func(m *machine) {
				m.state.spent.ticks++
				m.state.now = later
			}})
		}
	}
	return actions
}
