package conformance

import (
	"errors"
	"sync"
	"time"

	"tensorstack.dev/jobs/kit/driver"
	"tensorstack.dev/jobs/kit/model"
)

// fault is a fault that one write of the controller meets.
type fault struct {
	// effect is the effect on the write.
	effect model.Effect
	// write is the number of the write that meets the fault. The first write has the number 1.
	write int
	// steps is how many steps of the scenario begin before the API server makes a delayed write. If fewer steps are
	// left, the API server makes the write after the last one.
	steps int
}

// errStopped is returned by the calls of a process that has ended.
var errStopped = errors.New("the controller process has ended")

// process is one process of the controller.
type process struct {
	mu    sync.Mutex
	world *world
	fault fault
	// crashing is set if the process ends after its first write.
	crashing bool
	stopped  bool
	// staleReconciles is the number of reconciles that see a stale cache before the cache catches up.
	staleReconciles int
}

var _ driver.Server = &process{}

// ReadCache implements model.Server.
func (p *process) ReadCache(_ model.Call, from func(model.Objects) model.Answer) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	return from(p.world.Cache.Shown())
}

// ReadLive implements model.Server.
func (p *process) ReadLive(call model.Call, from func(model.Objects) model.Answer) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	if p.world.witness != nil {
		p.world.witness.readLive(call)
	}
	return from(p.world.Cluster.Live())
}

// ReadSidecars implements model.SidecarServer.
func (p *process) ReadSidecars(_ model.Call, from func(model.Snapshot, time.Time) model.Answer) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{}
	}
	return from(p.world.Cluster.Snapshot(), p.world.Clock.Now())
}

// Write implements model.Server. If the number of this write is the one in p.fault, the fault happens to the write. A
// call that the API server rejects without a fault does not count as a write.
func (p *process) Write(call model.Call, write model.Write) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	w := p.world
	var effect model.Effect
	isRejected := call.Verb == "create" && w.Cluster.Live()[call.Key] != nil
	if w.writes+1 == p.fault.write && !isRejected {
		effect = p.fault.effect
	}
	before := w.Cache
	answer, isMade := w.Write(call, write, effect)
	switch {
	case isMade:
		w.calls = append(w.calls, call)
	case effect != model.Refuse && effect != model.Postpone:
		w.Cache = before
		return answer
	}
	w.writes++
	switch {
	case effect == model.Lose || effect == model.Hide:
		p.staleReconciles = 1
	case effect == model.Stop || p.crashing && isMade:
		p.stopped = true
	}
	return answer
}
