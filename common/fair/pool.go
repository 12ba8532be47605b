// Package fair shares the scarce resources of a controller among tenants: units of a pool, tokens of a rate limit, and
// workers of a queue. How long a tenant waits does not depend on how much the others request. Tenants are namespaces.
package fair

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// fits reports whether a tenant can get n units in addition to the units that it holds. A tenant that holds no units
// can get all free units. Any other tenant can get the n units only if it then holds no more units than are still
// free. So if tenants get the units of a large pool one by one, the first tenant gets half of the units, the second
// one about half of the remaining units, and so on, and units stay free for the next tenant.
func fits(held, n, free int64) bool {
	return held == 0 && n <= free || held+n <= free-n
}

// Pool is a number of units that tenants share. A caller must not wait for units while it holds units of the pool,
// because that can cause a deadlock.
type Pool struct {
	capacity int64

	mu   sync.Mutex
	free int64
	// tenants are the tenants that hold units or wait for units, by name.
	tenants map[string]*tenant
	// waiting are the tenants that wait, in the order in which their first waiters arrived.
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

// NewPool returns a pool with the given number of units. All of them are free.
func NewPool(capacity int64) *Pool {
	return &Pool{capacity: capacity, free: capacity, tenants: map[string]*tenant{}}
}

// Acquire waits until the tenant can get n units, and takes them. If the context ends first, Acquire returns the error
// of the context.
//
// A request for more than half of the pool counts as a request for half of the pool, so that no request takes all
// units of a pool with several units. Every request counts as at least 1 unit. Waiters are served in the order of
// arrival. If a waiter cannot be served and its tenant already holds units, it blocks only later waiters of that
// tenant. If its tenant holds no units, it blocks all later waiters, so that small requests cannot starve a large
// one.
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
	case <-w.served: // the units were issued in the meantime, so give them back
		p.release(name, w.n)
	default:
		p.leave(t, slices.Index(t.waiters, w))
		p.forget(name)
		p.serve()
	}
	return ctx.Err()
}

// TryAcquire takes n units if the tenant can get them now and no tenant waits. It reports whether it took the units.
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

// tenant returns the tenant with a name. It creates the tenant if necessary.
func (p *Pool) tenant(name string) *tenant {
	t := p.tenants[name]
	if t == nil {
		t = &tenant{}
		p.tenants[name] = t
	}
	return t
}

// Release gives back the units that an Acquire or TryAcquire with the same n took. It panics if the tenant holds
// fewer units.
func (p *Pool) Release(name string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(name, p.counted(n))
}

// counted returns the number of units that a request for n units takes.
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

// forget deletes the tenant if it neither holds units nor waits for units.
func (p *Pool) forget(name string) {
	if t := p.tenants[name]; t.held == 0 && len(t.waiters) == 0 {
		delete(p.tenants, name)
	}
}

// serve gives units to all waiters that can get them.
func (p *Pool) serve() {
	for i := 0; i < len(p.waiting) && p.free > 0; {
		t := p.waiting[i]
		w := t.waiters[0]
		switch {
		case fits(t.held, w.n, p.free):
			t.held += w.n
			p.free -= w.n
			close(w.served)
			p.leave(t, 0) // i stays, because p.leave removes t from position i, or moves t to position i or later
		case t.held > 0:
			i++
		default:
			return
		}
	}
}

// leave removes the i-th waiter of a tenant.
func (p *Pool) leave(t *tenant, i int) {
	t.waiters = slices.Delete(t.waiters, i, i+1)
	p.waiting = slices.DeleteFunc(p.waiting, func(t *tenant) bool { return len(t.waiters) == 0 })
	slices.SortFunc(p.waiting, func(a, b *tenant) int { return cmp.Compare(a.waiters[0].arrival, b.waiters[0].arrival) })
}
