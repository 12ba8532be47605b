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

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/kit/model"
)

// unlogged is the context of reconciles. It discards their logs.
var unlogged = log.IntoContext(context.Background(), logr.Discard())

// machine computes the successors of states. It runs the real reconciler on the model of the API server.
type machine struct {
	kind       model.Kind
	clock      *testingclock.FakePassiveClock
	memory     *controller.Memory
	reconciler reconcile.Reconciler
	encoder    encoder

	// state is the current state.
	state *state
	// wrong are the laws that the last step violated.
	wrong []string

	mu sync.Mutex
	// answers are the answers to the calls of the reconcile. given is the number of answers that this run of Reconcile
	// has already got.
	answers []model.Answer
	given   int
	// calls is the number of new calls that the reconcile can still make. next is the first call beyond that number.
	calls int
	next  *model.Call
	// fault is the fault that the next call meets. takesOff is the label that admission removes from the pod that the
	// call creates.
	fault    model.Effect
	takesOff string
	// writing is true while the controller makes a change. postponing is true if the API server delays the change.
	// writes is the number of changes by the controller.
	writing, postponing bool
	writes              int
	// isNew reports whether the last call was a new one, and not a repetition with the same answer.
	isNew bool
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
		Events: announcements{m}, Metrics: prometheus.NewRegistry(), Progress: model.NewProgress(m),
	}, options)
	return m, err
}

// Helper implements model.Reporter.
func (m *machine) Helper() {}

// Errorf implements model.Reporter.
func (m *machine) Errorf(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// successor returns the state after an action and the laws that the action violated.
func (m *machine) successor(s *state, a action) (*state, []string) {
	next := *s
	m.state, m.wrong = &next, nil
	m.clock.SetTime(next.now)
	a.do(m)
	return &next, m.wrong
}

// cluster changes the cluster, checks the laws, and updates the cache.
func (m *machine) cluster(do func(*model.Cluster)) {
	s := m.state
	var c *model.Cluster
	c = model.NewClusterFor(m.kind, m.clock, s.live, func(change model.Change) {
		model.CheckLaws(m, m.kind, c.Live(), change, model.Writer{
			IsController: m.writing, Unseen: s.unseen, Trainings: c.Trainings(), Now: s.now,
		})
		m.countStall(change)
		m.countDeviceFailures(change)
		m.checkProgressPace(change)
		s.dirty = s.cache.Tell(change, m.writing) || s.dirty
	})
	if m.writing && m.takesOff != "" {
		c.SetAdmission(m.kind.Admission.TakesOff(m.takesOff))
		m.takesOff = ""
	}
	do(c)
	s.live = c.Snapshot()
}

// catchUp updates the cache to the live objects of some resources.
func (m *machine) catchUp(of model.Resources) {
	s := m.state
	s.dirty = s.cache.CatchUp(s.live.Objects, of) || s.dirty
}

// begin starts a reconcile and stops it before its first call to the API server.
func (m *machine) begin() {
	m.state.dirty, m.state.requeueAt, m.state.unseen = false, time.Time{}, ""
	m.goOn(nil, 0)
}

// proceed continues the reconcile with its next call and stops it before the following call.
func (m *machine) proceed() {
	m.goOn(m.state.reconcile.answers, 1)
}

// goOn runs a reconcile again from its beginning. Calls that were made before get the same answers. Then the reconcile
// can make the given number of new calls.
func (m *machine) goOn(answers []model.Answer, calls int) {
	s := m.state
	m.answers, m.given, m.calls, m.next = slices.Clip(answers), 0, calls, nil
	m.memory.SetWaitsSince(model.JobKey, s.waitsSince)
	m.memory.DelayUntil(model.JobKey, s.delayedUntil)
	m.memory.SetProgressWritten(model.JobKey, s.progressWritten)
	m.memory.TakeWrites(model.JobKey) // so that the reconciler does not wait until the cache contains its last writes
	m.memory.ForgetWords(model.JobKey)
	result, err := m.reconciler.Reconcile(unlogged, reconcile.Request{NamespacedName: model.JobKey})
	if m.next != nil {
		s.reconcile = &reconcileInProgress{answers: m.answers, next: *m.next}
		return
	}
	s.reconcile = nil
	s.waitsSince, s.delayedUntil = m.memory.WaitsSince(model.JobKey), m.memory.DelayedUntil(model.JobKey)
	s.progressWritten = m.memory.ProgressWritten(model.JobKey)
	switch {
	case err != nil || result.RequeueAfter > 0 && result.RequeueAfter < time.Second:
		s.dirty = true // the retry comes soon
	case result.RequeueAfter > 0:
		s.requeueAt = s.now.Add(result.RequeueAfter).Add(time.Second - 1).Truncate(time.Second)
	}
}

// startAgain ends the process of the controller and starts another one. For the resources in frozen, the cache of the
// new process is frozen and shows the objects in old. For all other resources, it shows the live objects.
func (m *machine) startAgain(old model.Objects, frozen model.Resources) {
	s := m.state
	s.reconcile, s.waitsSince, s.delayedUntil, s.requeueAt, s.dirty = nil, time.Time{}, time.Time{}, time.Time{}, true
	s.cache = model.NewCache(s.live.Objects).Behind(old, frozen)
	s.old, s.changed, s.progressWritten = nil, time.Time{}, time.Time{}
	s.live.Trainings = s.live.Trainings.ForgetReadings()
}

// errInterrupted is the error of a call before which the reconcile must stop.
var errInterrupted = errors.New("the exploration stops this reconcile before its next call")

// request answers a call. A call that was made before gets the same answer again. A new call is performed, unless the
// reconcile must stop before it. Free calls do not count towards the number of calls that the reconcile can make.
func (m *machine) request(call model.Call, free bool, do func() model.Answer) model.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free && m.given == len(m.answers) && m.next == nil {
		m.calls++
	}
	if m.given < len(m.answers) {
		answer := m.answers[m.given]
		if answer.Call != call {
			panic(fmt.Sprintf("the reconcile is not deterministic: it calls %s, but the call was %s before", call, answer.Call))
		}
		m.given++
		m.isNew = false
		return answer
	}
	if m.calls == 0 || m.next != nil {
		if m.next == nil {
			m.next = &call
		}
		return model.Answer{Err: errInterrupted}
	}
	m.calls--
	m.isNew = true
	answer := m.perform(call, do)
	answer.Call = call
	m.answers = append(m.answers, answer)
	m.given++
	return answer
}

// perform makes a new call. The call meets the fault, if one is set.
func (m *machine) perform(call model.Call, do func() model.Answer) model.Answer {
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
		// A reconcile waits until the cache has the writes of the controller, except those to PodGroups, Workloads and
		// pods.
		m.catchUp(call.Resource &^ (model.PodGroups | model.Workloads | model.Pods))
	}
	return answer
}

var _ model.Server = &machine{}

// ReadCache implements model.Server. A read from the cache is a free call: no event is tried before it, because an
// event between two of these reads could also happen before or after both.
func (m *machine) ReadCache(call model.Call, from func(model.Objects) model.Answer) model.Answer {
	return m.request(call, true, func() model.Answer { return from(m.state.cache.Shown()) })
}

// ReadLive implements model.Server.
func (m *machine) ReadLive(call model.Call, from func(model.Objects) model.Answer) model.Answer {
	return m.request(call, false, func() model.Answer { return from(m.state.live.Objects) })
}

var _ model.SidecarServer = &machine{}

// ReadSidecars implements model.SidecarServer. The read is a free call: no event is tried before it, because an event
// between this read and the previous one could also happen before or after both.
func (m *machine) ReadSidecars(call model.Call, from func(model.Snapshot, time.Time) model.Answer) model.Answer {
	return m.request(call, true, func() model.Answer { return from(m.state.live, m.state.now) })
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

// announcements is an event recorder that checks how often a stall is announced. It discards all other events.
type announcements struct{ machine *machine }

// Eventf implements events.EventRecorder.
func (a announcements) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	if reason == batchv1beta1.EventStalled && a.machine.isNew {
		a.machine.announceStall()
	}
}
