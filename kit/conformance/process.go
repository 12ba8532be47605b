package conformance

import (
	"errors"
	"sync"

	"tensorstack.dev/jobs/kit/model"
)

// fault is one thing that goes wrong.
type fault struct {
	// effect on the write.
	effect model.Effect
	// write is the number of the write that the fault hits, from 1.
	write int
	// steps is how many steps later the API server carries out the write that it is late with. After the last step it
	// does so in any case.
	steps int
}

// errStopped is what the calls of a process return that has ended.
var errStopped = errors.New("the process has ended")

// process is one run of the controller program, as the cluster knows it. Its cache has what the process itself wrote,
// as controller-runtime's read-your-writes consistency has it, but for pods: no reconcile waits for the writes of pods
// of all jobs. The cache may lag behind otherwise.
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
	// looks is how many reconciles see the cache as it is behind, before it catches up.
	looks int
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
func (p *process) ReadLive(_ model.Call, from func(model.Objects) model.Answer) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	return from(p.world.cluster.Live())
}

// Write implements model.Server. The write may meet the fault. What the API server refuses by itself is no write.
func (p *process) Write(call model.Call, write model.Write) model.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return model.Answer{Err: errStopped}
	}
	var effect model.Effect
	if p.world.writes+1 == p.fault.write {
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
	default: // the write takes effect now
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
		p.looks = 1
		return model.Lost(call)
	case effect == model.Hide:
		p.looks = 1
	case effect == model.Stop || p.crashing:
		p.stopped = true
	default:
		p.catchUp(call.Resource &^ model.Pods)
	}
	return answer
}

// catchUp lets the cache have what it lacks of some resources.
func (p *process) catchUp(of model.Resources) {
	if p.cache.CatchUp(p.world.cluster.Live(), of) {
		p.world.dirty = true
	}
}
