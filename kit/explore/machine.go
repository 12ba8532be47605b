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
	"tensorstack.dev/jobs/kit/driver"
	"tensorstack.dev/jobs/kit/model"
)

// unlogged is the context of reconciles. It discards their logs.
var unlogged = log.IntoContext(context.Background(), logr.Discard())

// machine computes the successors of states. It runs the real reconciler on the model of the API server.
type machine struct {
	driver.Driver

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
	// writes is the number of changes by the controller.
	writes int
	// isNew reports whether the last call was a new one, and not a repetition with the same answer.
	isNew bool
}

func newMachine(k model.Kind, options controller.Options) (*machine, error) {
	m := &machine{
		memory:  &controller.Memory{},
		encoder: encoder{specOf: k.SpecOf, known: map[client.Object][]token{}},
	}
	m.Driver = driver.Driver{Kind: k, Clock: testingclock.NewFakePassiveClock(model.Birth), Laws: m, OnChange: m.changed}
	options.Clock, options.Memory = m.Clock, m.memory
	var err error
	m.reconciler, err = driver.NewReconciler(k, m, announcements{m}, prometheus.NewRegistry(), options)
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
	m.Clock.SetTime(next.now)
	m.Continue(&next.State, next.live)
	a.do(m)
	return &next, m.wrong
}

// cluster changes the cluster, checks the laws, and updates the cache.
func (m *machine) cluster(do func(*model.Cluster)) {
	do(m.Cluster)
	m.state.live = m.Cluster.Snapshot()
}

// changed checks what only explorations check about a change of the cluster.
func (m *machine) changed(change model.Change, byController bool) {
	m.endStall(change)
	m.countDeviceFailures(change)
	m.checkProgressPace(change, byController)
}

// begin starts a reconcile and stops it before its first call to the API server.
func (m *machine) begin() {
	m.cluster(func(*model.Cluster) { m.BeginReconcile() })
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
		s.Dirty = true // the retry comes soon
	case result.RequeueAfter > 0:
		s.RequeueAt = s.now.Add(result.RequeueAfter).Add(time.Second - 1).Truncate(time.Second)
	}
}

// startAgain ends the process of the controller and starts another one. For the resources in frozen, the cache of the
// new process is frozen and shows the objects in old. For all other resources, it shows the live objects.
func (m *machine) startAgain(old model.Objects, frozen model.Resources) {
	s := m.state
	m.cluster(func(c *model.Cluster) { m.StartAgain(model.NewCache(c.Live()).Behind(old, frozen)) })
	s.reconcile, s.waitsSince, s.delayedUntil, s.progressWritten = nil, time.Time{}, time.Time{}, time.Time{}
	s.old, s.changed = nil, time.Time{}
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
	answer := do()
	answer.Call = call
	m.answers = append(m.answers, answer)
	m.given++
	return answer
}

var _ model.Server = &machine{}

// ReadCache implements model.Server. A read from the cache is a free call: no event is tried before it, because an
// event between two of these reads could also happen before or after both.
func (m *machine) ReadCache(call model.Call, from func(model.Objects) model.Answer) model.Answer {
	return m.request(call, true, func() model.Answer { return from(m.state.Cache.Shown()) })
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

// Write implements model.Server. The call meets the fault, if one is set.
func (m *machine) Write(call model.Call, write model.Write) model.Answer {
	return m.request(call, false, func() (answer model.Answer) {
		m.checkPace(call)
		fault, label, isMade := m.fault, m.takesOff, false
		m.fault, m.takesOff = "", ""
		m.cluster(func(c *model.Cluster) {
			if fault == model.TakeOff {
				c.SetAdmission(m.Kind.Admission.TakesOff(label))
				defer c.SetAdmission(m.Kind.Admission)
			}
			answer, isMade = m.Driver.Write(call, write, fault)
		})
		switch {
		case fault == model.Lose: // even if the API server has rejected the write
			return model.Lost(call)
		case isMade:
			m.writes++
			if fault == model.TakeOff {
				m.state.changed = m.state.now
			}
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
