package fair

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the work queue of a controller. Namespaces share the workers of the controller as tenants share the units
// of a Pool. Requests with the highest priority go first. Within a priority, namespaces take turns. Within a
// namespace, the request that has waited longest at its priority goes first. Each cluster-scoped object counts as a
// namespace of its own. If all cluster-scoped objects were one tenant, their controller would use only half of its
// workers.
//
// In all other respects, Queue behaves like the queue of controller-runtime. A request is in the queue at most once,
// with its highest priority and its earliest time. Two workers never process the same request at the same time.
type Queue struct {
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	metrics queueMetrics
	workers int64
	stopped chan struct{}

	mu sync.Mutex
	// changed signals waiting workers that there might be a request for them.
	changed *sync.Cond
	// entries are all waiting requests. They wait for their time, for a worker, or for the worker that processes the same
	// request.
	entries map[reconcile.Request]*entry
	delayed delayed
	timer   *time.Timer
	// ready are the requests that wait for a worker, by descending priority.
	ready []level
	// busy maps each request that a worker processes to the time when the worker began. The map held has the number of
	// these requests by tenant.
	busy map[reconcile.Request]time.Time
	held map[string]int64
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = (*Queue)(nil)

// entry is a waiting request.
type entry struct {
	reconcile.Request
	priority int
	// due is when the request becomes ready. It is zero if the request is ready.
	due time.Time
	// index is the position in the heap of delayed requests.
	index int
	// since is when the request became ready.
	since time.Time
}

// tenantOf returns the tenant of a request: its namespace, or a separate tenant for a cluster-scoped object.
func tenantOf(request reconcile.Request) string {
	return cmp.Or(request.Namespace, "/"+request.Name) // namespaces do not contain a slash
}

// level contains the requests of one priority.
type level struct {
	priority int
	turns[*entry]
}

// NewQueue returns the queue of a controller with the given number of workers. The metrics of the queue have the
// given name as a label.
func NewQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], workers int) *Queue {
	q := &Queue{
		limiter: limiter,
		metrics: newQueueMetrics(name),
		workers: int64(workers),
		stopped: make(chan struct{}),
		entries: map[reconcile.Request]*entry{},
		busy:    map[reconcile.Request]time.Time{},
		held:    map[string]int64{},
	}
	q.changed = sync.NewCond(&q.mu)
	go q.observeBusy()
	return q
}

// Add implements workqueue.TypedInterface.
func (q *Queue) Add(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *Queue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *Queue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *Queue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isStopped() {
		return
	}
	for _, request := range requests {
		after := options.After
		if options.RateLimited {
			limit := q.limiter.When(request)
			if after == 0 || limit < after {
				after = limit
			}
		}
		q.add(request, after, ptr.Deref(options.Priority, 0))
	}
}

func (q *Queue) add(request reconcile.Request, after time.Duration, priority int) {
	due := time.Now().Add(after)
	if after > 0 {
		q.metrics.retries.Inc()
	}
	e, waits := q.entries[request]
	switch {
	case !waits:
		e = &entry{Request: request, priority: priority, due: due}
		q.entries[request] = e
		heap.Push(&q.delayed, e)
	case e.due.IsZero():
		if priority > e.priority {
			q.unlist(e)
			e.priority = priority
			q.list(e)
		}
		return
	default:
		e.priority = max(priority, e.priority)
		if due.Before(e.due) {
			e.due = due
			heap.Fix(&q.delayed, e.index)
		}
	}
	if after > 0 {
		q.setTimer()
		return
	}
	heap.Remove(&q.delayed, e.index)
	q.makeReady(e)
}

// setTimer sets the timer to the time when the next request is due.
func (q *Queue) setTimer() {
	if len(q.delayed) == 0 {
		return
	}
	wait := time.Until(q.delayed[0].due)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.timerFired)
	} else {
		q.timer.Reset(wait)
	}
}

func (q *Queue) timerFired() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isStopped() {
		return
	}
	for now := time.Now(); len(q.delayed) > 0 && !q.delayed[0].due.After(now); {
		q.makeReady(heap.Pop(&q.delayed).(*entry)) //nolint:forcetypeassert // the heap only contains entries
	}
	q.setTimer()
}

// makeReady marks a request as ready.
func (q *Queue) makeReady(e *entry) {
	e.due, e.since = time.Time{}, time.Now()
	q.metrics.adds.Inc()
	q.metrics.depth.Inc()
	q.list(e)
}

// list adds a ready request to its priority level, unless a worker still processes the same request.
func (q *Queue) list(e *entry) {
	if _, busy := q.busy[e.Request]; busy {
		return
	}
	q.level(e.priority).add(tenantOf(e.Request), e)
	q.changed.Signal()
}

func (q *Queue) unlist(e *entry) {
	q.level(e.priority).remove(tenantOf(e.Request), e)
}

func (q *Queue) level(priority int) *level {
	greaterFirst := func(l level, priority int) int { return cmp.Compare(priority, l.priority) }
	i, found := slices.BinarySearchFunc(q.ready, priority, greaterFirst)
	if !found {
		q.ready = slices.Insert(q.ready, i, level{priority: priority})
	}
	return &q.ready[i]
}

// Get implements workqueue.TypedInterface.
func (q *Queue) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *Queue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.isStopped() {
		if e, ok := q.next(); ok {
			now := time.Now()
			delete(q.entries, e.Request)
			q.busy[e.Request] = now
			q.held[tenantOf(e.Request)]++
			q.metrics.depth.Dec()
			q.metrics.latency.Observe(now.Sub(e.since).Seconds())
			return e.Request, e.priority, false
		}
		q.changed.Wait()
	}
	return reconcile.Request{}, 0, true
}

// next returns the first ready request that can get a worker, and removes it from the ready requests. If there is
// none, ok is false.
func (q *Queue) next() (e *entry, ok bool) {
	free := q.workers - int64(len(q.busy))
	may := func(tenant string) bool { return fits(q.held[tenant], 1, free) }
	for i := range q.ready {
		if e, ok = q.ready[i].next(may); ok {
			return e, true
		}
	}
	return nil, false
}

// Done implements workqueue.TypedInterface.
func (q *Queue) Done(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	began, busy := q.busy[request]
	if !busy {
		return
	}
	q.metrics.workDuration.Observe(time.Since(began).Seconds())
	delete(q.busy, request)
	tenant := tenantOf(request)
	if q.held[tenant]--; q.held[tenant] == 0 {
		delete(q.held, tenant)
	}
	if e, waits := q.entries[request]; waits && e.due.IsZero() {
		q.list(e)
	}
	q.changed.Broadcast() // now several tenants might get a worker
}

// Len implements workqueue.TypedInterface. It returns the number of ready requests.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries) - len(q.delayed)
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *Queue) Forget(request reconcile.Request) { q.limiter.Forget(request) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *Queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }

// ShutDown implements workqueue.TypedInterface. Like controller-runtime's queue, it gives workers no further
// requests.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isStopped() {
		return
	}
	close(q.stopped)
	if q.timer != nil {
		q.timer.Stop()
	}
	q.changed.Broadcast()
}

// ShutDownWithDrain implements workqueue.TypedInterface. Like controller-runtime's queue, it does not drain the
// queue.
func (q *Queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown implements workqueue.TypedInterface.
func (q *Queue) ShuttingDown() bool { return q.isStopped() }

func (q *Queue) isStopped() bool {
	select {
	case <-q.stopped:
		return true
	default:
		return false
	}
}

// delayed is a heap of requests, ordered by the time when they are due.
type delayed []*entry

// Len implements heap.Interface.
func (d delayed) Len() int { return len(d) }

// Less implements heap.Interface.
func (d delayed) Less(i, j int) bool { return d[i].due.Before(d[j].due) }

// Swap implements heap.Interface.
func (d delayed) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements heap.Interface.
func (d *delayed) Push(e any) {
	pushed := e.(*entry) //nolint:forcetypeassert // the heap only contains entries
	pushed.index = len(*d)
	*d = append(*d, pushed)
}

// Pop implements heap.Interface.
func (d *delayed) Pop() any {
	last := len(*d) - 1
	popped := (*d)[last]
	(*d)[last] = nil // allow garbage collection of the entry
	*d = (*d)[:last]
	return popped
}
