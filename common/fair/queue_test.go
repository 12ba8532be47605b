package fair

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// request returns the request for an object, such as "namespace/name" or "name".
func request(object string) reconcile.Request {
	namespace, name, found := strings.Cut(object, "/")
	if !found {
		namespace, name = "", object
	}
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func newQueue(name string, workers int) *Queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
	return NewQueue(name, limiter, workers)
}

// addAt adds requests for objects. All requests have the given priority.
func addAt(q *Queue, priority int, objects ...string) {
	for _, object := range objects {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request(object))
	}
}

// requestsOf returns the requests that the given number of workers get. The workers are busy until the end of the test.
func requestsOf(q *Queue, workers int) []string {
	got := make([]string, 0, workers)
	for range workers {
		go func() {
			r, priority, shutdown := q.GetWithPriority()
			if !shutdown {
				got = append(got, fmt.Sprintf("%s/%s at %d", r.Namespace, r.Name, priority))
			}
		}()
		synctest.Wait()
	}
	return got
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		workers int
		add     func(q *Queue)
		want    []string
	}{
		{
			"requests of a namespace are in the order in which they were added", 16,
			func(q *Queue) { addAt(q, 0, "a/1", "a/2", "a/3") },
			[]string{"a/1 at 0", "a/2 at 0", "a/3 at 0"},
		},
		{
			"namespaces take turns", 16,
			func(q *Queue) { addAt(q, 0, "a/1", "a/2", "a/3", "b/1", "b/2", "c") },
			[]string{"a/1 at 0", "b/1 at 0", "/c at 0", "a/2 at 0", "b/2 at 0", "a/3 at 0"},
		},
		{
			"a higher priority goes first, regardless of turns", 16,
			func(q *Queue) { addAt(q, -100, "a/0"); addAt(q, 0, "a/1", "b/1"); addAt(q, 1, "b/2", "b/3") },
			[]string{"b/2 at 1", "b/3 at 1", "a/1 at 0", "b/1 at 0", "a/0 at -100"},
		},
		{
			"a single namespace gets half of the workers", 4,
			func(q *Queue) { addAt(q, 0, "a/1", "a/2", "a/3", "a/4") },
			[]string{"a/1 at 0", "a/2 at 0"},
		},
		{
			"urgent requests of one namespace leave workers for others", 4,
			func(q *Queue) { addAt(q, 1, "a/1", "a/2", "a/3"); addAt(q, 0, "b/1") },
			[]string{"a/1 at 1", "a/2 at 1", "b/1 at 0"},
		},
		{
			"each cluster-scoped object is a separate tenant", 4,
			func(q *Queue) { addAt(q, 0, "1", "2", "3", "4") },
			[]string{"/1 at 0", "/2 at 0", "/3 at 0", "/4 at 0"},
		},
		{
			"a controller with one worker processes any namespace", 1,
			func(q *Queue) { addAt(q, 0, "a/1") },
			[]string{"a/1 at 0"},
		},
		{
			"a request that is added again counts once, with its highest priority", 16,
			func(q *Queue) { addAt(q, 0, "a/1", "a/2"); addAt(q, 1, "a/2"); addAt(q, 0, "a/2") },
			[]string{"a/2 at 1", "a/1 at 0"},
		},
		{
			"a request with a raised priority goes behind others of that priority", 16,
			func(q *Queue) { addAt(q, 0, "a/1"); addAt(q, 1, "a/2"); addAt(q, 1, "a/1") },
			[]string{"a/2 at 1", "a/1 at 1"},
		},
		{
			"a delayed request keeps its priority when it is added again without a delay", 16,
			func(q *Queue) {
				q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, Priority: new(1)}, request("a/1"))
				addAt(q, 0, "a/2", "a/1")
			},
			[]string{"a/1 at 1", "a/2 at 0"},
		},
		{
			"a request that is not due waits", 16,
			func(q *Queue) { q.AddAfter(request("a/1"), time.Hour) },
			[]string{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t.Name(), test.workers)
				defer q.ShutDown()
				test.add(q)
				if diff := cmp.Diff(test.want, requestsOf(q, test.workers)); diff != "" {
					t.Error("unexpected order (-want +got):\n" + diff)
				}
			})
		})
	}
}

// The delay of a failing request doubles with each retry, until the request is forgotten.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t.Name(), 1)
		defer q.ShutDown()
		try := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			q.AddRateLimited(request("a/1"))
			r, _ := q.Get()
			q.Done(r)
			if got := time.Since(began); got != want {
				t.Errorf("the request was retried after %s, want %s", got, want)
			}
		}
		try(time.Second)
		try(2 * time.Second)
		if n := q.NumRequeues(request("a/1")); n != 2 {
			t.Errorf("the request was retried %d times, want 2", n)
		}
		q.Forget(request("a/1"))
		try(time.Second)
	})
}

// A request that is added with a delay and then without one is processed once.
func TestAnEarlierRequestReplacesADelayedOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t.Name(), 2)
		defer q.ShutDown()
		q.AddAfter(request("a/1"), time.Minute)
		q.Add(request("a/1"))
		r, _ := q.Get()
		q.Done(r)
		time.Sleep(time.Hour)
		if n := q.Len(); n != 0 {
			t.Errorf("%d requests are ready, want 0", n)
		}
	})
}

// Each of two namespaces has one of the four workers, and neither namespace can get a second one. When one namespace
// returns its worker, each of the two namespaces can get another worker.
func TestAWorkerThatIsDoneCanUnblockTwoWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t.Name(), 4)
		defer q.ShutDown()
		addAt(q, 0, "a/1", "b/1", "a/2", "b/2")
		var mu sync.Mutex
		var got []reconcile.Request
		for range 4 {
			go func() {
				if r, shutdown := q.Get(); !shutdown {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, r)
				}
			}()
			synctest.Wait()
		}
		if diff := cmp.Diff([]reconcile.Request{request("a/1"), request("b/1")}, got); diff != "" {
			t.Fatal("unexpected requests (-want +got):\n" + diff)
		}
		q.Done(request("b/1"))
		synctest.Wait()
		if len(got) != 4 {
			t.Errorf("workers got the requests %v, want 4 requests", got)
		}
	})
}

func TestShutDownReleasesWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine leaks
		q := newQueue(t.Name(), 4)
		var returned atomic.Int32
		for range 4 {
			go func() {
				if _, shutdown := q.Get(); shutdown {
					returned.Add(1)
				}
			}()
			synctest.Wait()
		}
		q.AddAfter(request("a/1"), time.Minute)
		q.ShutDown()
		q.ShutDownWithDrain() // the second shutdown is a no-op
		synctest.Wait()
		if n := returned.Load(); n != 4 {
			t.Errorf("Get returned the shutdown to %d of 4 workers", n)
		}
		q.Add(request("a/1"))
		if _, shutdown := q.Get(); !shutdown || !q.ShuttingDown() {
			t.Error("a worker got a request after the shutdown")
		}
	})
}

// The queue has the metrics of controller-runtime's own queues, because dashboards and alerts use them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const name = "metrics-of-a-queue"
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(name, 2)
		defer q.ShutDown()
		addAt(q, 0, "a/1", "b/1", "b/2")
		q.AddAfter(request("b/3"), time.Hour)
		first, _ := q.Get()
		_, _ = q.Get()
		time.Sleep(10 * time.Second)
		q.Done(first)
		time.Sleep(time.Second)
		synctest.Wait()
		want := map[string]float64{
			"workqueue_depth": 1, "workqueue_adds_total": 3, "workqueue_retries_total": 1,
			"workqueue_queue_duration_seconds": 2, "workqueue_work_duration_seconds": 1,
			"workqueue_unfinished_work_seconds": 11, "workqueue_longest_running_processor_seconds": 11,
		}
		if diff := cmp.Diff(want, samples(t, name)); diff != "" {
			t.Error("unexpected metrics (-want +got):\n" + diff)
		}
	})
}

// samples returns the metrics of a queue. The value of a histogram is its count.
func samples(t *testing.T, queue string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == queue {
					count := float64(m.GetHistogram().GetSampleCount())
					got[family.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + count
				}
			}
		}
	}
	return got
}

// queueModel is a simple model of a Queue.
type queueModel struct {
	workers int64
	// waiting are the waiting requests.
	waiting []*waits
	// turns are the tenants that have ready requests, by priority and in the order of their turns.
	turns map[int][]string
	busy  []reconcile.Request
	// idle is the number of waiting workers.
	idle int
}

type waits struct {
	reconcile.Request
	priority int
	due      time.Time // zero means ready
	ready    int       // within a priority, the request with the lowest number became ready first
	parked   bool      // whether a worker processes the same request
}

func (m *queueModel) find(r reconcile.Request) *waits {
	for _, w := range m.waiting {
		if w.Request == r {
			return w
		}
	}
	return nil
}

func (m *queueModel) add(r reconcile.Request, after time.Duration, priority int, number int) {
	w := m.find(r)
	if w == nil {
		w = &waits{Request: r, priority: priority, due: time.Now().Add(after)}
		m.waiting = append(m.waiting, w)
		if after == 0 {
			m.isReady(w, number)
		}
		return
	}
	wasReady, raised := w.due.IsZero(), priority > w.priority
	if wasReady && raised {
		m.leaveTurns(w)
	}
	w.priority = max(w.priority, priority)
	switch {
	case wasReady && raised, !wasReady && after == 0:
		m.isReady(w, number)
	case !wasReady && time.Now().Add(after).Before(w.due):
		w.due = time.Now().Add(after)
	}
}

func (m *queueModel) isReady(w *waits, number int) {
	w.due, w.ready = time.Time{}, number
	if w.parked = slices.Contains(m.busy, w.Request); w.parked {
		return
	}
	if !slices.Contains(m.turns[w.priority], tenantOf(w.Request)) {
		m.turns[w.priority] = append(m.turns[w.priority], tenantOf(w.Request))
	}
}

// first returns the first ready request of a tenant at a priority, or nil if there is none.
func (m *queueModel) first(tenant string, priority int) *waits {
	var first *waits
	for _, w := range m.waiting {
		listed := w.due.IsZero() && !w.parked && w.priority == priority && tenantOf(w.Request) == tenant
		if listed && (first == nil || w.ready < first.ready) {
			first = w
		}
	}
	return first
}

// leaveTurns removes the tenant of a request from the turns if the tenant has no other ready request of the same
// priority.
func (m *queueModel) leaveTurns(w *waits) {
	priority := w.priority
	if w.parked {
		return
	}
	w.parked = true
	if m.first(tenantOf(w.Request), priority) == nil {
		m.turns[priority] = slices.DeleteFunc(m.turns[priority], func(n string) bool { return n == tenantOf(w.Request) })
	}
	w.parked = false
}

// handOut returns the requests that the idle workers get, in order.
func (m *queueModel) handOut() (got []string) {
next:
	for m.idle > 0 {
		for _, priority := range []int{1, 0, -100} {
			for _, tenant := range m.turns[priority] {
				var held int64
				for _, b := range m.busy {
					if tenantOf(b) == tenant {
						held++
					}
				}
				if free := m.workers - int64(len(m.busy)); held == 0 && free == 0 || held > 0 && held+1 > free-1 {
					continue
				}
				w := m.first(tenant, priority)
				m.turns[priority] = slices.DeleteFunc(m.turns[priority], func(n string) bool { return n == tenant })
				m.waiting = slices.DeleteFunc(m.waiting, func(x *waits) bool { return x == w })
				if m.first(tenant, priority) != nil {
					m.turns[priority] = append(m.turns[priority], tenant)
				}
				m.busy = append(m.busy, w.Request)
				m.idle--
				got = append(got, fmt.Sprintf("%s at %d", w.Request, priority))
				continue next
			}
		}
		break
	}
	return got
}

// A queue hands out the same requests as the model, to workers that already wait and to workers that arrive later.
func TestQueueBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ *testing.T }{t}, checkQueue) })
}

func checkQueue(t *rapid.T) {
	workers := rapid.IntRange(1, 10).Draw(t, "workers")
	q := newQueue("model", workers)
	defer synctest.Wait()
	defer q.ShutDown()
	m := &queueModel{workers: int64(workers), turns: map[int][]string{}}
	var mu sync.Mutex      // guards got while workers get requests
	var got, want []string // the requests that workers got since the last check
	check := func() {
		t.Helper()
		synctest.Wait()
		want = append(want, m.handOut()...)
		// Workers that get requests at the same time report them in any order.
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal("unexpected requests (-want +got):\n" + diff)
		}
		got, want = nil, nil
		ready := 0
		for _, w := range m.waiting {
			if w.due.IsZero() {
				ready++
			}
		}
		if q.Len() != ready {
			t.Fatalf("%d requests are ready, want %d", q.Len(), ready)
		}
	}
	number := 0
	objects := []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "b/1", "b/2", "b/3", "b/4", "c/1", "c/2", "d", "e"}
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			number++
			r := request(rapid.SampledFrom(objects).Draw(t, "object"))
			priority := rapid.SampledFrom([]int{1, 0, -100}).Draw(t, "priority")
			after := time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second
			if after > 0 {
				after += time.Duration(number) // no two requests are due at the same time
			}
			q.AddWithOpts(priorityqueue.AddOpts{After: after, Priority: &priority}, r)
			m.add(r, after, priority, number)
			check()
		},
		"get": func(t *rapid.T) {
			if m.idle+len(m.busy) == workers {
				t.Skip("all workers are busy")
			}
			m.idle++
			go func() {
				if r, priority, shutdown := q.GetWithPriority(); !shutdown {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, fmt.Sprintf("%s at %d", r, priority))
				}
			}()
			check()
		},
		"done": func(t *rapid.T) {
			if len(m.busy) == 0 {
				t.Skip("no worker is busy")
			}
			number++
			i := rapid.IntRange(0, len(m.busy)-1).Draw(t, "which")
			r := m.busy[i]
			m.busy = slices.Delete(m.busy, i, i+1)
			q.Done(r)
			if w := m.find(r); w != nil && w.due.IsZero() {
				m.isReady(w, number)
			}
			check()
		},
		"sleep": func(*rapid.T) {
			until := time.Now().Add(time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			byTime := slices.Clone(m.waiting)
			slices.SortFunc(byTime, func(a, b *waits) int { return a.due.Compare(b.due) })
			for _, w := range byTime {
				if !w.due.IsZero() && !w.due.After(until) {
					number++
					m.isReady(w, number)
					want = append(want, m.handOut()...)
				}
			}
			check()
		},
	})
	if len(q.busy) != len(m.busy) || len(q.held) > len(q.busy) || len(q.entries) != len(m.waiting) {
		t.Fatalf("the queue has %d busy requests of %d tenants and %d waiting requests, want %d busy and %d waiting",
			len(q.busy), len(q.held), len(q.entries), len(m.busy), len(m.waiting))
	}
}
