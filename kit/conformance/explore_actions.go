package conformance

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// action is one thing that may happen next.
type action struct {
	name string
	do   func(*machine)
	// quiet says that it happens by itself if nothing goes wrong and the user does nothing; of several the least goes first.
	quiet int
	// unseen says that the controller does not see it.
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
	actions := x.controllerActions(s)
	for _, pod := range s.live.pods() {
		actions = append(actions, x.unseen(s, pods, x.podActions(s, pod))...)
	}
	actions = append(actions, x.unseen(s, groups, x.groupActions(s))...)
	actions = append(actions, x.unseen(s, jobs, x.userActions(s, x.edits))...)
	actions = append(actions, garbageActions(s)...)
	return append(actions, x.timeActions(s, slices.ContainsFunc(actions, action.happensByItself))...)
}

// actionsDuring returns all that may happen before a call that a reconcile makes next. What has nothing to do with the call is left
// out: it may as well happen after it.
func (x options) actionsDuring(s *state, next call) []action {
	actions := []action{{name: "the controller makes its call: " + next.String(), quiet: controllerProceeds, do: (*machine).proceed}}
	if next.writes() {
		if x.left(s, s.spent.crashes, x.budget.crashes) {
			actions = append(actions, action{name: "the controller starts again, instead of its call", do: func(m *machine) {
				m.state.spent.crashes++
				m.startAgain(nil, 0)
			}})
		}
		if x.left(s, s.spent.conflicts, x.budget.conflicts) {
			for _, fault := range []effect{refuse, lose} {
				actions = append(actions, action{name: string(fault) + " its call", do: func(m *machine) {
					m.state.spent.conflicts++
					m.fault = fault
					m.proceed()
				}})
			}
		}
	}
	switch next.resource {
	case jobs:
		actions = append(actions, x.unseen(s, jobs, x.userActions(s, x.edits))...)
		if s.live.job() != nil && x.left(s, s.spent.conflicts, x.budget.conflicts) {
			actions = append(actions, action{name: "somebody annotates the job", do: annotate})
		}
	case pods:
		for _, pod := range s.live.pods() {
			if next.verb == "list" || next.key == objectKey("Pod", client.ObjectKeyFromObject(pod)) {
				actions = append(actions, x.unseen(s, pods, x.podActions(s, pod))...)
			}
		}
	case groups:
		actions = append(actions, x.unseen(s, groups, x.groupActions(s))...)
	case services, secrets:
	}
	return actions
}

// unseen adds to actions, which change an object of some resource, that the controller does not see them: because the watch loses the
// event, or because the cache of the resource, or every cache, stops.
func (x options) unseen(s *state, of resources, actions []action) []action {
	if s.frozen&of != 0 {
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
	if s.lost == "" && x.left(s, s.spent.lostEvents, x.budget.lostEvents) {
		add(", of which the event is lost", func(s *state) { s.spent.lostEvents++; s.losing = true })
	}
	if x.left(s, s.spent.staleReads, x.budget.staleReads) {
		add(", which its cache does not see any more", func(s *state) { s.spent.staleReads++; s.frozen |= of })
		add(", which no cache sees any more", func(s *state) { s.spent.staleReads++; s.frozen = jobs | pods | services | groups })
	}
	return actions
}

// left says that something may still go wrong, of which so much has already.
func (x options) left(s *state, spent, budget int) bool {
	return spent < budget && s.spent.total() < x.most
}

func (x options) controllerActions(s *state) []action {
	var actions []action
	if s.dirty || !s.wakeAt.IsZero() && !s.wakeAt.After(s.now) {
		actions = append(actions, action{name: "the controller begins a reconcile", quiet: controllerBegins, do: (*machine).begin})
	}
	if s.frozen != 0 || s.lost != "" {
		actions = append(actions, action{name: "the caches go on", quiet: cachesGoOn, do: func(m *machine) {
			m.catchUp(jobs | pods | services | groups | secrets)
		}})
	}
	if x.left(s, s.spent.crashes, x.budget.crashes) {
		starts := map[string]resources{"": 0}
		if s.old != nil {
			starts = map[string]resources{"": 0, ", with old jobs": jobs, ", with old pods": pods, ", with all old": jobs | pods | services | groups}
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
				m.state.old = m.state.live
			}})
		}
	}
	return actions
}

func (m *machine) remove(object client.Object, options client.DeleteOptions) {
	m.must(func(c *Cluster) error { return c.remove(object, options) })
}

// must lets something happen that the API server does not refuse.
func (m *machine) must(do func(*Cluster) error) {
	if err := m.cluster(do); err != nil {
		m.Errorf("the API server refuses what must be possible: %v", err)
	}
}

// groupActions returns what the scheduler-controller does about the PodGroup of the job, and what befalls its queue.
func (x options) groupActions(s *state) []action {
	var actions []action
	if s.live.unconsidered() != nil {
		actions = append(actions, action{name: "the scheduler-controller looks at the PodGroup", quiet: clusterWorks, do: (*machine).considerGroup})
	}
	return append(actions, x.userActions(s, x.queueEdits)...)
}

// considerGroup lets the scheduler-controller look at the PodGroup of the job, if it has one.
func (m *machine) considerGroup() {
	group := m.state.live.podGroup()
	if group == nil || !owned(group) {
		return
	}
	m.must(func(c *Cluster) error {
		c.consider(group, m.state.closed)
		return nil
	})
}

// garbageActions returns what the garbage collector does.
func garbageActions(s *state) []action {
	job := s.live.job()
	var actions []action
	dependents := 0
	for _, key := range slices.Sorted(maps.Keys(s.live)) {
		object := s.live[key]
		owner := metav1.GetControllerOf(object)
		if owner == nil {
			continue
		}
		orphaned := job == nil || job.GetUID() != owner.UID
		if !orphaned && job.GetDeletionTimestamp() == nil {
			continue
		}
		dependents++
		if object.GetDeletionTimestamp() == nil {
			actions = append(actions, action{name: "the garbage collector deletes " + key, quiet: clusterWorks, do: func(m *machine) {
				m.remove(object, client.DeleteOptions{})
			}})
		}
	}
	if job != nil && job.GetDeletionTimestamp() != nil && dependents == 0 {
		actions = append(actions, action{name: "the garbage collector lets go of the job", quiet: clusterWorks, do: func(m *machine) {
			m.must(func(c *Cluster) error {
				c.put(c.keyOf(job), nil)
				return nil
			})
		}})
	}
	return actions
}

// timeActions returns how time may pass: until the controller wakes, or, where it only waits and nothing else is under way, for long.
// That anybody is slow is one of the things that may go wrong.
func (x options) timeActions(s *state, underWay bool) []action {
	pass := func(name string, quiet int, to time.Time) action {
		return action{name: name, quiet: quiet, do: func(m *machine) { m.state.now = to }}
	}
	var actions []action
	switch {
	case s.dirty:
	case s.wakeAt.After(s.now):
		actions = append(actions, pass("time passes until the controller wakes", timePasses, s.wakeAt))
	case s.wakeAt.IsZero() && !underWay:
		actions = append(actions, pass("time passes", notByItself, s.now.Add(horizon)))
	}
	if !x.left(s, s.spent.ticks, x.budget.ticks) {
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
