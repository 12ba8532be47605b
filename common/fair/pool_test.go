package fair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ask is a call of Acquire.
type ask struct {
	tenant string
	n      int64
	cancel context.CancelFunc
	done   chan error
}

// acquire calls Acquire. It returns when Acquire waits or has returned.
func acquire(ctx context.Context, p *Pool, tenant string, n int64) *ask {
	ctx, cancel := context.WithCancel(ctx)
	a := &ask{tenant: tenant, n: n, cancel: cancel, done: make(chan error, 1)}
	go func() { a.done <- p.Acquire(ctx, tenant, n) }()
	synctest.Wait()
	return a
}

// served reports whether the units were acquired. If Acquire has failed, served returns its error.
func (a *ask) served() (bool, error) {
	select {
	case err := <-a.done:
		a.cancel()
		return err == nil, err
	default:
		return false, nil
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	type asks struct {
		tenant string
		n      int64
		times  int
	}
	for _, test := range []struct {
		name     string
		capacity int64
		asks     []asks
		want     map[string]int64 // units held
	}{
		{"a single tenant holds half", 16, []asks{{"a", 1, 100}}, map[string]int64{"a": 8}},
		{"two tenants hold three quarters", 16, []asks{{"a", 1, 100}, {"b", 1, 100}}, map[string]int64{"a": 8, "b": 4}},
		{
			"the tenant without a name has a share like any tenant", 16,
			[]asks{{"a", 1, 100}, {"", 1, 1}},
			map[string]int64{"a": 8, "": 1},
		},
		{
			"a request for more than half counts as half", 10,
			[]asks{{"a", 9, 1}, {"b", 5, 1}},
			map[string]int64{"a": 5, "b": 5},
		},
		{"a request for less than one unit counts as one", 4, []asks{{"a", 0, 2}}, map[string]int64{"a": 2}},
		{"a single unit goes to one tenant", 1, []asks{{"a", 1, 2}, {"b", 1, 1}}, map[string]int64{"a": 1}},
		{
			"a small request does not overtake a large one that waits for free units", 8,
			[]asks{{"a", 1, 4}, {"b", 2, 1}, {"c", 4, 1}, {"d", 1, 1}},
			map[string]int64{"a": 4, "b": 2},
		},
		{
			"a request beyond the share of its tenant does not block other tenants", 8,
			[]asks{{"a", 1, 9}, {"b", 2, 1}},
			map[string]int64{"a": 4, "b": 2},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := NewPool(test.capacity)
				for _, a := range test.asks {
					for range a.times {
						acquire(t.Context(), p, a.tenant, a.n)
					}
				}
				got := map[string]int64{}
				for name, tenant := range p.tenants {
					if tenant.held > 0 {
						got[name] = tenant.held
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error("unexpected units held (-want +got):\n" + diff)
				}
			})
		})
	}
}

func TestAcquireReturnsTheErrorOfTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(2)
		acquire(t.Context(), p, "a", 1)
		waits := acquire(t.Context(), p, "a", 1)
		if served, _ := waits.served(); served {
			t.Fatal("a tenant holds more than half of the units")
		}
		waits.cancel()
		synctest.Wait()
		if _, err := waits.served(); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v, want %v", err, context.Canceled)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Acquire(ctx, "b", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("with a canceled context, the error is %v, want %v", err, context.Canceled)
		}
	})
}

func TestReleaseOfUnitsThatAreNotHeldPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a tenant released units of another tenant")
		}
	}()
	p := NewPool(4)
	if err := p.Acquire(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	p.Release("b", 1)
}

// poolModel is a simple model of a Pool.
type poolModel struct {
	free    int64
	held    map[string]int64
	waiting []*ask
}

// serve gives units to all requests that can get them, and returns these requests.
func (m *poolModel) serve() (served []*ask) {
	overShare := map[string]bool{}
	for _, a := range slices.Clone(m.waiting) {
		switch {
		case overShare[a.tenant]:
		case m.held[a.tenant] == 0 && a.n <= m.free, m.held[a.tenant]+a.n <= m.free-a.n:
			m.held[a.tenant] += a.n
			m.free -= a.n
			m.waiting = slices.DeleteFunc(m.waiting, func(x *ask) bool { return x == a })
			served = append(served, a)
		case m.held[a.tenant] > 0:
			overShare[a.tenant] = true
		default:
			return served
		}
	}
	return served
}

// A pool serves the same requests as the model, never gives out more units than it has, and forgets inactive tenants.
func TestPoolBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ *testing.T }{t}, checkPool) })
}

func checkPool(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer synctest.Wait()
	defer cancel()
	capacity := rapid.Int64Range(2, 20).Draw(t, "capacity")
	p := NewPool(capacity)
	m := &poolModel{free: capacity, held: map[string]int64{}}
	var holding []*ask
	check := func() {
		t.Helper()
		synctest.Wait()
		for _, a := range m.serve() {
			if served, err := a.served(); !served {
				t.Fatalf("the request of tenant %q for %d units is not served: %v", a.tenant, a.n, err)
			}
			holding = append(holding, a)
		}
		for _, a := range m.waiting {
			if served, err := a.served(); served || err != nil {
				t.Fatalf("the request of tenant %q for %d units does not wait: %v", a.tenant, a.n, err)
			}
		}
		var sum int64
		for _, tenant := range p.tenants {
			sum += tenant.held
		}
		if sum+p.free != capacity || p.free < 0 {
			t.Fatalf("%d of %d units are held and %d are free", sum, capacity, p.free)
		}
	}
	pick := func(asks *[]*ask) *ask {
		if len(*asks) == 0 {
			t.Skip("there is no such request")
		}
		i := rapid.IntRange(0, len(*asks)-1).Draw(t, "which")
		a := (*asks)[i]
		*asks = slices.Delete(*asks, i, i+1)
		return a
	}
	t.Repeat(map[string]func(*rapid.T){
		"acquire": func(t *rapid.T) {
			tenant := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "tenant")
			m.waiting = append(m.waiting, acquire(ctx, p, tenant, rapid.Int64Range(1, capacity/2).Draw(t, "n")))
			check()
		},
		"release": func(*rapid.T) {
			a := pick(&holding)
			m.free += a.n
			m.held[a.tenant] -= a.n
			p.Release(a.tenant, a.n)
			check()
		},
		"cancel": func(t *rapid.T) {
			a := pick(&m.waiting)
			a.cancel()
			synctest.Wait()
			if _, err := a.served(); !errors.Is(err, context.Canceled) {
				t.Fatalf("the error of a canceled request is %v, want %v", err, context.Canceled)
			}
			check()
		},
	})
	for len(holding) > 0 {
		a := holding[0]
		holding = holding[1:]
		m.free += a.n
		m.held[a.tenant] -= a.n
		p.Release(a.tenant, a.n)
		check()
	}
	if len(m.waiting) > 0 || len(p.tenants) > 0 || len(p.waiting) > 0 {
		t.Fatalf("all units are free, but %d requests wait, and the pool has the tenants %v",
			len(m.waiting), slices.Collect(maps.Keys(p.tenants)))
	}
}

// A tenant that holds no units can get one, however many single units other tenants request. With n other tenants,
// the pool must have at least 2^n units.
func TestNewTenantsAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(64)
		for i := range 6 {
			for j := range 64 {
				a := acquire(t.Context(), p, fmt.Sprint(i), 1)
				if served, _ := a.served(); j == 0 && !served {
					t.Errorf("tenant %d found no free units", i)
				}
			}
		}
	})
}

func TestTryAcquireDoesNotWait(t *testing.T) {
	t.Parallel()
	pool := NewPool(8)
	for i, step := range []struct {
		tenant string
		n      int64
		want   bool
	}{
		{"a", 4, true},
		{"a", 1, false}, // tenant a holds half of all units
		{"b", 2, true},
		{"b", 1, false},
		{"c", 2, true},
		{"d", 1, false}, // no units are free
	} {
		if got := pool.TryAcquire(step.tenant, step.n); got != step.want {
			t.Errorf("step %d: TryAcquire of %d units for tenant %s is %t, want %t", i, step.n, step.tenant, got, step.want)
		}
	}
	pool.Release("a", 4)
	pool.Release("b", 2)
	pool.Release("c", 2)
	if len(pool.tenants) > 0 || pool.free != 8 {
		t.Errorf("%d units are free, want 8; the pool has %d tenants, want 0", pool.free, len(pool.tenants))
	}
}
