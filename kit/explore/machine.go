package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/kit/model"
)

// unlogged is the context of reconciles whose log nobody reads.
var unlogged = log.IntoContext(context.Background(), logr.Discard())

// machine brings one state after the other to life: with the real reconciler, on the model of the API server.
type machine struct {
	kind       model.Kind
	clock      *testingclock.FakePassiveClock
	memory     *controller.Memory
	reconciler reconcile.Reconciler
	encoder    encoder

	// state that lives.
	state *state
	// wrong is what the last step did that no step may do.
	wrong []string

	mu sync.Mutex
	// answers that the reconcile gets, and how many of them it has got.
	answers []model.Answer
	given   int
	// calls that it may make beyond those that are answered; next is the first that it may not.
	calls int
	next  *model.Call
	// fault that its next write meets, and the label that admission then takes off the pod.
	fault    model.Effect
	takesOff string
	// writing is set if the controller makes the change, and postponing if the API server is late with it; writes counts
	// its changes.
	writing, postponing bool
	writes              int
}

func newMachine(k model.Kind, options controller.Options) (*machine, error) {
	m := &machine{
		kind: k, clock: testingclock.NewFakePassiveClock(model.Birth), memory: &controller.Memory{},
		encoder: encoder{specOf: k.SpecOf, known: map[client.Object][]token{}},
	}
	options.Clock, options.Memory = m.clock, m.memory
	var err error
	m.reconciler, err = k.NewReconciler(controller.Cluster{
		Client: model.NewClient(k.Scheme, m), APIReader: model.NewAPIReader(k.Scheme, m),
		Events: silent{}, Metrics: prometheus.NewRegistry(),
	}, options)
	return m, err
}

// Helper implements model.Reporter.
func (m *machine) Helper() {}

// Errorf implements model.Reporter.
func (m *machine) Errorf(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// successor returns the state after an action, and what was wrong with that.
func (m *machine) successor(s *state, a action) (*state, []string) {
	next := *s
	m.state, m.wrong = &next, nil
	m.clock.SetTime(next.now)
	a.do(m)
	return &next, m.wrong
}

// cluster lets something happen at the API server, and tells the caches.
func (m *machine) cluster(do func(*model.Cluster)) {
	s := m.state
	var c *model.Cluster
	c = model.NewClusterFor(m.kind, m.clock, s.live, func(change model.Change) {
		model.CheckLaws(m, m.kind, c.Live(), change, model.Writer{IsController: m.writing, Unseen: s.unseen})
		s.dirty = s.cache.Tell(change, m.writing) || s.dirty
	})
	if m.writing && m.takesOff != "" {
		c.SetAdmission(m.kind.Admission.TakesOff(m.takesOff))
		m.takesOff = ""
	}
	do(c)
	s.live = c.Snapshot()
}

// catchUp lets the cache have all that there is of some resources.
func (m *machine) catchUp(of model.Resources) {
	s := m.state
	s.dirty = s.cache.CatchUp(s.live.Objects, of) || s.dirty
}

// begin lets the controller begin a reconcile and stop before its first call to the API server.
func (m *machine) begin() {
	m.state.dirty, m.state.wakeAt, m.state.unseen = false, time.Time{}, ""
	m.goOn(nil, 0)
}

// proceed lets the controller make its next call, and stop before the one after it.
func (m *machine) proceed() {
	m.goOn(m.state.reconcile.answers, 1)
}

// goOn continues a reconcile that has got some answers, by some calls.
func (m *machine) goOn(answers []model.Answer, calls int) {
	s := m.state
	m.answers, m.given, m.calls, m.next = slices.Clip(answers), 0, calls, nil
	m.memory.SetWaitsSince(model.JobKey, s.waitsSince)
	m.memory.HoldUntil(model.JobKey, s.heldUntil)
	m.memory.TakeWrites(model.JobKey) // no cache of the model has to be awaited
	result, err := m.reconciler.Reconcile(unlogged, reconcile.Request{NamespacedName: model.JobKey})
	if m.next != nil {
		s.reconcile = &reconcileInProgress{answers: m.answers, next: *m.next}
		return
	}
	s.reconcile = nil
	s.waitsSince, s.heldUntil = m.memory.WaitsSince(model.JobKey), m.memory.HeldUntil(model.JobKey)
	switch {
	case err != nil || result.RequeueAfter > 0 && result.RequeueAfter < time.Second:
		s.dirty = true // it tries again soon
	case result.RequeueAfter > 0:
		s.wakeAt = s.now.Add(result.RequeueAfter).Add(time.Second - 1).Truncate(time.Second)
	}
}

// startAgain ends the process of the controller and starts another, to which old objects are shown of some resources,
// or the live ones.
func (m *machine) startAgain(old model.Objects, frozen model.Resources) {
	s := m.state
	s.reconcile, s.waitsSince, s.heldUntil, s.wakeAt, s.dirty = nil, time.Time{}, time.Time{}, time.Time{}, true
	s.cache = model.NewCache(s.live.Objects).Behind(old, frozen)
	s.old, s.changed = nil, time.Time{}
}

// errInterrupted is what a reconcile gets that is to stop for now.
var errInterrupted = errors.New("the exploration goes on elsewhere")

// request answers a call: as before if it was made before, else by doing it. A call that is free does not count among
// those that the reconcile may make.
func (m *machine) request(call model.Call, free bool, do func() model.Answer) model.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free && m.given == len(m.answers) && m.next == nil {
		m.calls++
	}
	if m.given < len(m.answers) {
		answer := m.answers[m.given]
		if answer.Call != call {
			panic(fmt.Sprintf("%s was %s before: the reconcile is not deterministic", call, answer.Call))
		}
		m.given++
		return answer
	}
	if m.calls == 0 || m.next != nil {
		if m.next == nil {
			m.next = &call
		}
		return model.Answer{Err: errInterrupted}
	}
	m.calls--
	answer := m.meet(call, do)
	answer.Call = call
	m.answers = append(m.answers, answer)
	m.given++
	return answer
}

// meet makes a call, which may meet a fault.
func (m *machine) meet(call model.Call, do func() model.Answer) model.Answer {
	fault := m.fault
	m.fault = ""
	if fault == model.Refuse {
		return model.Refused()
	}
	if fault == model.Lose || fault == model.Hide {
		m.state.cache.Freeze(call.Resource)
	}
	m.writing, m.postponing = true, fault == model.Postpone
	answer := do()
	m.writing, m.postponing = false, false
	if fault == model.Lose {
		return model.Lost(call)
	}
	if call.Writes() && answer.Err == nil {
		m.writes++
		// What the process wrote, it reads. For PodGroups and pods it does not wait.
		m.catchUp(call.Resource &^ (model.PodGroups | model.Pods))
	}
	return answer
}

var _ model.Server = &machine{}

// ReadCache implements model.Server. The cache is read once a reconcile: nothing that happens between two such reads
// could not have happened before or after both.
func (m *machine) ReadCache(call model.Call, from func(model.Objects) model.Answer) model.Answer {
	return m.request(call, true, func() model.Answer { return from(m.state.cache.Shown()) })
}

// ReadLive implements model.Server.
func (m *machine) ReadLive(call model.Call, from func(model.Objects) model.Answer) model.Answer {
	return m.request(call, false, func() model.Answer { return from(m.state.live.Objects) })
}

// Write implements model.Server.
func (m *machine) Write(call model.Call, write model.Write) model.Answer {
	return m.request(call, false, func() (answer model.Answer) {
		m.checkPace(call)
		if m.postponing {
			m.state.late = write.Late(call)
			return model.Lost(call)
		}
		isChanged := m.takesOff != ""
		m.cluster(func(c *model.Cluster) { answer = model.AnswerTo(call, c, write) })
		if isChanged && answer.Err == nil {
			m.state.changed = m.state.now
		}
		return answer
	})
}

// silent records no events.
type silent struct{}

// Eventf implements events.EventRecorder.
func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
