package explore

import (
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

// action is an event that can happen next.
type action struct {
	name string
	do   func(*machine)
	// quiet is the order of an action that happens by itself, without a fault and without the user. The action with the
	// lowest order happens first. An action that does not happen by itself has the value notByItself.
	quiet int
	// unseen is set if the controller does not see the event.
	unseen bool
}

func (a action) happensByItself() bool { return a.quiet != notByItself }

// The order of the actions that happen by themselves.
const (
	notByItself = iota
	controllerProceeds
	cachesCatchUp
	controllerBegins
	clusterWorks
	timePasses
)

// options determine the actions of an exploration.
type options struct {
	*exploration

	// most is the maximum number of faults in one execution.
	most int
}

// actions returns all actions that can happen next.
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
	actions = append(actions, x.unseen(s, model.Workloads, x.workloadActions(s))...)
	actions = append(actions, x.unseen(s, model.Jobs, x.userActions(s, x.edits))...)
	actions = append(actions, garbageActions(s)...)
	return append(actions, x.timeActions(s, slices.ContainsFunc(actions, action.happensByItself))...)
}

// actionsDuring returns the actions that can happen before the next call of a reconcile. Actions that do not affect the
// call are left out, because they can happen after the call with the same effect.
func (x options) actionsDuring(s *state, next model.Call) []action {
	call := next.String()
	actions := []action{{
		name: "the controller makes the call " + call, quiet: controllerProceeds, do: (*machine).proceed,
	}}
	if s.Late != nil && s.Late.Call.Resource == next.Resource {
		actions = append(actions, lateActions(s)...)
	}
	if next.Writes() {
		actions = append(actions, x.postpones(s)...)
		if x.left(s, s.spent.crashes, x.budget.crashes) {
			name := "the controller restarts before the call " + call
			actions = append(actions, action{name: name, do: func(m *machine) {
				m.state.spent.crashes++
				m.startAgain(nil, 0)
			}})
		}
		if x.left(s, s.spent.conflicts, x.budget.conflicts) {
			for _, fault := range []model.Effect{model.Refuse, model.Lose} {
				actions = append(actions, action{name: string(fault) + " the call " + call, do: func(m *machine) {
					m.state.spent.conflicts++
					m.fault = fault
					m.proceed()
				}})
			}
		}
	}
	actions = append(actions, x.admissionActions(s, next)...)
	if next.Writes() && next.Resource == model.Pods && x.left(s, s.spent.staleReads, x.budget.staleReads) {
		actions = append(actions, action{name: string(model.Hide) + " the call " + call, do: func(m *machine) {
			m.state.spent.staleReads++
			m.fault = model.Hide
			m.proceed()
		}})
	}
	switch next.Resource {
	case model.Jobs:
		actions = append(actions, x.unseen(s, model.Jobs, x.userActions(s, x.edits))...)
		if s.live.Objects.Job() != nil && x.left(s, s.spent.conflicts, x.budget.conflicts) {
			actions = append(actions, action{name: "a user annotates the job", do: annotate})
		}
	case model.Pods:
		for _, pod := range s.live.Objects.Pods() {
			if next.Verb == "list" || next.Key == model.Key("Pod", client.ObjectKeyFromObject(pod)) {
				actions = append(actions, x.unseen(s, model.Pods, x.podActions(s, pod))...)
			}
		}
	case model.PodGroups:
		actions = append(actions, x.unseen(s, model.PodGroups, x.groupActions(s))...)
	case model.Workloads:
		actions = append(actions, x.unseen(s, model.Workloads, x.workloadActions(s))...)
	default: // no other component changes the other resources
	}
	return actions
}

// unseen returns the given actions and, for each of them, variants in which the controller does not see the change.
// Each action must change an object of the given resource. In a variant, the watch loses the event, the cache of the
// resource freezes, or all caches freeze.
func (x options) unseen(s *state, of model.Resources, actions []action) []action {
	if s.Cache.Frozen()&of != 0 {
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
	if s.Cache.Lost() == "" && x.left(s, s.spent.lostEvents, x.budget.lostEvents) {
		add(", and the watch loses the event", func(s *state) { s.spent.lostEvents++; s.Cache.LoseNext() })
	}
	if x.left(s, s.spent.staleReads, x.budget.staleReads) {
		add(", and the cache of the resource is stale", func(s *state) { s.spent.staleReads++; s.Cache.Freeze(of) })
		add(", and all caches are stale", func(s *state) { s.spent.staleReads++; s.Cache.Freeze(model.Cached) })
	}
	return actions
}

// left reports whether a fault can happen once more. The parameter spent is how often the fault has happened, and the
// parameter budget is the limit on this number.
func (x options) left(s *state, spent, budget int) bool {
	return spent < budget && s.spent.total() < x.most
}

func (x options) controllerActions(s *state) []action {
	var actions []action
	if s.away {
		return nil
	}
	if s.Dirty || !s.RequeueAt.IsZero() && !s.RequeueAt.After(s.now) {
		actions = append(actions, action{
			name: "the controller begins a reconcile", quiet: controllerBegins, do: (*machine).begin,
		})
	}
	if s.Cache.Lags() {
		actions = append(actions, action{name: "the caches catch up", quiet: cachesCatchUp, do: func(m *machine) {
			m.CatchUp(model.All)
		}})
	}
	if x.left(s, s.spent.crashes, x.budget.crashes) {
		starts := map[string]model.Resources{"": 0}
		if s.old != nil {
			starts = map[string]model.Resources{
				"": 0, " with a stale cache of jobs": model.Jobs, " with a stale cache of pods": model.Pods,
				" with stale caches": model.Cached,
			}
		}
		for _, name := range slices.Sorted(maps.Keys(starts)) {
			actions = append(actions, action{name: "the controller restarts" + name, do: func(m *machine) {
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

// must makes a change that the API server must accept.
func (m *machine) must(do func(*model.Cluster) error) {
	m.cluster(func(c *model.Cluster) {
		if err := do(c); err != nil {
			m.Errorf("the API server rejects a valid change: %v", err)
		}
	})
}

// garbageActions returns the actions of the garbage collector.
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
		add("removes its finalizer from the job", func(m *machine) {
			m.cluster(func(c *model.Cluster) { c.LetGo(model.Key(m.Kind.Name, model.JobKey)) })
		})
	}
	return actions
}

// timeActions returns the actions by which time passes. If the job will be requeued, time passes until then. If the
// job will not be requeued and no other action happens by itself, a long time can pass. In addition, there is a fault
// in which components are slow: a short time passes although there is work to do.
func (x options) timeActions(s *state, underWay bool) []action {
	pass := func(name string, quiet int, to time.Time) action {
		return action{name: name, quiet: quiet, do: func(m *machine) { m.state.now = to }}
	}
	var actions []action
	switch {
	case s.Dirty, s.away:
	case s.RequeueAt.After(s.now):
		actions = append(actions, pass("time passes until the job is requeued", timePasses, s.RequeueAt))
	case s.RequeueAt.IsZero() && !underWay:
		actions = append(actions, pass("a long time passes", notByItself, s.now.Add(horizon)))
	}
	if s.away || !x.left(s, s.spent.ticks, x.budget.ticks) {
		return actions
	}
	for _, d := range []time.Duration{time.Second, 10 * time.Second} {
		if later := s.now.Add(d); s.Dirty || s.RequeueAt.IsZero() || s.RequeueAt.After(later) {
			actions = append(actions, action{name: d.String() + " pass while components are slow", do: func(m *machine) {
				m.state.spent.ticks++
				m.state.now = later
			}})
		}
	}
	return actions
}
