// Package fair shares what a controller has little of among tenants, so that the time that one of them waits does not
// depend on what the others ask for: units of a pool, tokens of a rate, and the workers that take requests from a
// queue. Tenants are namespaces.
package fair

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// fits reports whether a tenant that holds so many units may get n more while so many are free. A tenant may hold as
// many as are left free then, and one that holds none may have what there is. So one tenant alone holds at most half
// of all units, two hold at most three quarters, and the next one finds some free.
func fits(held, n, free int64) bool {
	return held == 0 && n <= free || held+n <= free-n
}

// Pool is a number of units that tenants share. Nobody may wait for units while it holds some: that may last for ever.
type Pool struct {
	capacity int64

	mu   sync.Mutex
	free int64
	// tenants are those that hold units or wait for some.
	tenants map[string]*tenant
	// waiting are the tenants that wait, in the order in which the first waiter of each came.
	waiting  []*tenant
	arrivals uint64
}

type tenant struct {
	held    int64
	waiters []*waiter // in the order of arrival
}

type waiter struct {
	n       int64
	arrival uint64
	served  chan struct{}
}

// NewPool returns a pool of so many units, all of them free.
func NewPool(capacity int64) *Pool {
	return &Pool{capacity: capacity, free: capacity, tenants: map[string]*tenant{}}
}

// Acquire waits until the tenant may have n units, and takes them. It returns the error of the context if that ends
// first.
//
// Less than 1 counts as 1, and more than half of all units as half, since a tenant cannot hold more: otherwise it
// would wait for ever. Waiters are served in the order of arrival. One that waits since its tenant holds too much
// holds up only that tenant; one whose tenant holds nothing holds up all that came later, so that many small requests
// cannot keep a large one waiting.
func (p *Pool) Acquire(ctx context.Context, name string, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{n: p.counted(n), served: make(chan struct{})}
	p.mu.Lock()
	t := p.tenant(name)
	p.arrivals++
	w.arrival = p.arrivals
	t.waiters = append(t.waiters, w)
	if len(t.waiters) == 1 {
		p.waiting = append(p.waiting, t)
	}
	p.serve()
	p.mu.Unlock()

	select {
	case <-w.served:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.served: // meanwhile
		p.release(name, w.n)
	default:
		p.leave(t, slices.Index(t.waiters, w))
		p.forget(name)
		p.serve()
	}
	return ctx.Err()
}

// TryAcquire takes n units if the tenant may have them now, and nobody waits. It reports whether it has.
func (p *Pool) TryAcquire(name string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = p.counted(n)
	t := p.tenant(name)
	ok := len(p.waiting) == 0 && fits(t.held, n, p.free)
	if ok {
		t.held += n
		p.free -= n
	}
	p.forget(name)
	return ok
}

// tenant returns the tenant of a name, a new one if it neither holds units nor waits.
func (p *Pool) tenant(name string) *tenant {
	t := p.tenants[name]
	if t == nil {
		t = &tenant{}
		p.tenants[name] = t
	}
	return t
}

// Release returns units of the tenant: as many as an Acquire asked for. It panics if the tenant does not hold them.
func (p *Pool) Release(name string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(name, p.counted(n))
}

// counted returns for how many units a request for n counts.
func (p *Pool) counted(n int64) int64 {
	return max(1, min(n, p.capacity/2))
}

func (p *Pool) release(name string, n int64) {
	t := p.tenants[name]
	if t == nil || t.held < n {
		panic(fmt.Sprintf("fair: tenant %q releases %d units that it does not hold", name, n))
	}
	t.held -= n
	p.free += n
	p.forget(name)
	p.serve()
}

// forget drops a tenant that holds nothing and waits for nothing.
func (p *Pool) forget(name string) {
	if t := p.tenants[name]; t.held == 0 && len(t.waiters) == 0 {
		delete(p.tenants, name)
	}
}

// serve serves all waiters that may be.
func (p *Pool) serve() {
	for i := 0; i < len(p.waiting) && p.free > 0; {
		t := p.waiting[i]
		w := t.waiters[0]
		switch {
		case fits(t.held, w.n, p.free):
			t.held += w.n
			p.free -= w.n
			close(w.served)
			p.leave(t, 0) // the next waiter of the tenant came after those that were looked at
		case t.held > 0:
			i++
		default:
			return
		}
	}
}

// leave removes the i-th waiter of a tenant.
func (p *Pool) leave(t *tenant, i int) {
	byArrival := func(t *tenant, arrival uint64) int { return cmp.Compare(t.waiters[0].arrival, arrival) }
	if i == 0 {
		at, _ := slices.BinarySearchFunc(p.waiting, t.waiters[0].arrival, byArrival)
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	t.waiters = slices.Delete(t.waiters, i, i+1)
	if i == 0 && len(t.waiters) > 0 {
		at, _ := slices.BinarySearchFunc(p.waiting, t.waiters[0].arrival, byArrival)
		p.waiting = slices.Insert(p.waiting, at, t)
	}
}
