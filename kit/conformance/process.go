package conformance

import (
	"errors"
	"sync"
	"time"

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

// process is one process of the controller. Its cache can lag behind the cluster, but contains the process's own
// writes, because controller-runtime guarantees that a client reads its own writes. Writes of pods are the exception,
// because no reconcile waits until the cache contains them.
type process struct {
	mu    sync.Mutex
	world *world
	cache model.Cache
	fault fault
	// crashing is set if the process ends after its first write.
	crashing bool
	stopped  bool
	// writing is set while the API server makes a write of the process.
	writing bool
	// staleReconciles is the number of reconciles that see a stale cache before the cache catches up.
	staleReconciles int
}

var _ model.Server = &process{}

// ReadCache implements model.Server.
func (p *process) ReadCache(_ model.Call, from func(model.Objects) model.Answer) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	return from(p.cache.Shown())
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
	return from(p.world.cluster.Live())
}

var _ model.SidecarServer = &process{}

// ReadSidecars implements model.SidecarServer.
func (p *process) ReadSidecars(_ model.Call, from func(model.Snapshot, time.Time) model.Answer) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{}
	}
	return from(p.world.cluster.Snapshot(), p.world.clock.Now())
}

// Write implements model.Server. If the number of this write is the one in p.fault, the fault happens to the write. A
// call that the API server rejects without a fault does not count as a write.
func (p *process) Write(call model.Call, write model.Write) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	var effect model.Effect
	isRejected := call.Verb == "create" && p.world.cluster.Live()[call.Key] != nil
	if p.world.writes+1 == p.fault.write && !isRejected {
		effect = p.fault.effect
	}
	switch effect {
	case model.Refuse:
		p.world.writes++
		return model.Refused()
	case model.Postpone:
		p.world.writes++
		p.world.late = write.Late(call)
		return model.Lost(call)
	default: // the write takes effect immediately
	}
	before := p.cache
	if effect == model.Lose || effect == model.Hide {
		p.cache.Freeze(call.Resource)
	}
	p.writing = true
	answer := model.AnswerTo(call, p.world.cluster, write)
	p.writing = false
	if answer.Err != nil {
		p.cache = before
		return answer
	}
	p.world.writes++
	p.world.calls = append(p.world.calls, call)
	switch {
	case effect == model.Lose:
		p.staleReconciles = 1
		return model.Lost(call)
	case effect == model.Hide:
		p.staleReconciles = 1
	case effect == model.Stop || p.crashing:
		p.stopped = true
	default:
		p.catchUp(call.Resource &^ model.Pods)
	}
	return answer
}

// catchUp updates the cache to the live objects of some resources.
func (p *process) catchUp(of model.Resources) {
	if p.cache.CatchUp(p.world.cluster.Live(), of) {
		p.world.dirty = true
	}
}
