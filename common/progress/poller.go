package progress

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/fair"
)

// Limits of a Poller.
const (
	// MaxPods is the maximum number of receivers and supervisors of a job that are read: the receivers of 2,000 replicas,
	// and the supervisor of the leader. Further ones are ignored.
	MaxPods = 2001
	// maxReads is the maximum number of concurrent reads. Namespaces share the reads as they share the workers of a
	// fair.Queue, so that a single namespace has at most half of them.
	maxReads = 128
)

// Pod is a pod that is read: its receiver, or the supervisor of the leader's launcher. A pod that has both is followed
// as two Pods.
type Pod struct {
	UID types.UID
	// OfSupervisor reports whether Target is the supervisor.
	OfSupervisor bool
	// HasEnded reports whether the target has ended, or is about to. It is not read any longer, and keeps its last
	// reading.
	HasEnded bool
	Target   Target
}

// source identifies what is read of the pods of a job.
func (p Pod) source() string {
	if p.OfSupervisor {
		return string(p.UID) + "/supervisor"
	}
	return string(p.UID)
}

// Reading is the result of reading a Pod.
type Reading struct {
	UID          types.UID
	OfSupervisor bool
	// Time is when the last successful read ended. Zero means that there was none.
	Time time.Time
	// State is the result of the last successful read.
	State State
	// Err is the error of the last read. Nil means that it succeeded.
	Err error
}

// Poller reads the receivers and supervisors of the pods of jobs in the background. Each is read immediately, again
// after a random part of the interval, and then once per interval. If reads hang, they delay only reads of the same
// namespace, and only if very many of them hang.
type Poller struct {
	// Changed is called when the first report of a pod is read, and when a pod has counted more restarts. It is also
	// called when a read of a pod succeeds for the first time or after a failed read, and when a read fails after a
	// successful one. Changed must not block, and must be set before Start. Nil means that nothing is called.
	Changed func(job types.NamespacedName)

	read     func(context.Context, Target) (State, error)
	interval time.Duration
	queue    *fair.Queue

	mu sync.Mutex
	// jobs are the followed pods by job and source.
	jobs map[types.NamespacedName]map[string]*followed
}

// followed is a Pod that is read.
type followed struct {
	target   Target
	hasEnded bool
	reading  Reading
	wasRead  bool
}

var (
	_ manager.Runnable               = (*Poller)(nil)
	_ manager.LeaderElectionRunnable = (*Poller)(nil)
)

// NewPoller returns a poller. The function read must return after a short time, as Client.Read does.
func NewPoller(read func(context.Context, Target) (State, error), interval time.Duration) *Poller {
	return &Poller{
		read: read, interval: interval,
		queue: fair.NewQueue("progress", nil, maxReads), // no limiter, because nothing is added with a rate limit
		jobs:  map[types.NamespacedName]map[string]*followed{},
	}
}

// Follow sets which pods of a job are read. It returns the readings so far, in the order of the pods. A pod that was
// not read yet has no reading. The readings of pods that are no longer followed are lost. Follow never waits for a
// read.
func (p *Poller) Follow(job types.NamespacedName, pods []Pod) []Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	var readings []Reading
	before, after := p.jobs[job], map[string]*followed{}
	for _, pod := range pods[:min(len(pods), MaxPods)] {
		source := pod.source()
		f := before[source]
		if f == nil {
			f = &followed{reading: Reading{UID: pod.UID, OfSupervisor: pod.OfSupervisor}}
			if !pod.HasEnded {
				p.queue.Add(requestFor(job, source))
			}
		}
		f.target, f.hasEnded = pod.Target, pod.HasEnded
		after[source] = f
		if f.wasRead {
			readings = append(readings, f.reading)
		}
	}
	p.jobs[job] = after
	if len(after) == 0 {
		delete(p.jobs, job)
	}
	return readings
}

// Forget stops reading the pods of a job.
func (p *Poller) Forget(job types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, job)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. Only the leader reconciles jobs.
func (*Poller) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. It reads until the context ends.
func (p *Poller) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range maxReads {
		workers.Go(func() {
			for {
				request, isShutDown := p.queue.Get()
				if isShutDown {
					return
				}
				p.poll(ctx, request)
				p.queue.Done(request)
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	workers.Wait()
	return nil
}

// requestFor returns the request for a source in the queue. The queue shares its workers among the namespaces of
// requests.
func requestFor(job types.NamespacedName, source string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: job.Namespace, Name: job.Name + "/" + source, // the name of a job contains no slash
	}}
}

// poll reads one pod, unless it is no longer followed.
func (p *Poller) poll(ctx context.Context, request reconcile.Request) {
	name, source, _ := strings.Cut(request.Name, "/")
	job := types.NamespacedName{Namespace: request.Namespace, Name: name}
	find := func() *followed { return p.jobs[job][source] }

	p.mu.Lock()
	f := find()
	if f == nil || f.hasEnded {
		p.mu.Unlock()
		return
	}
	target := f.target
	p.mu.Unlock()

	state, err := p.read(ctx, target)

	p.mu.Lock()
	if find() != f || f.hasEnded && err != nil {
		p.mu.Unlock()
		return
	}
	next := p.interval
	if !f.wasRead {
		next = rand.N(p.interval) //nolint:gosec // it spreads the reads of pods that were created together
	}
	p.queue.AddAfter(request, next)
	isChange := f.set(state, err, time.Now())
	p.mu.Unlock()
	if isChange && p.Changed != nil {
		p.Changed(job)
	}
}

// set sets the result of a read. It reports whether the job must be reconciled immediately because of the result.
func (f *followed) set(state State, err error, now time.Time) (isChange bool) {
	last := f.reading
	f.wasRead = true
	f.reading.Err = err
	if err != nil {
		return !last.Time.IsZero() && last.Err == nil
	}
	f.reading.Time, f.reading.State = now, state
	return last.Time.IsZero() || last.Err != nil || last.State.Reports == 0 && state.Reports > 0 ||
		state.Restarts.Count > last.State.Restarts.Count
}
