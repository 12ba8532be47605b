package fair

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// queueMetrics are the metrics that all work queues of controllers have, such as workqueue_depth.
type queueMetrics struct {
	depth                 workqueue.GaugeMetric
	adds, retries         workqueue.CounterMetric
	latency, workDuration workqueue.HistogramMetric
	unfinished, longest   workqueue.SettableGaugeMetric
}

// provider returns controller-runtime's provider of queue metrics. controller-runtime exposes this provider only in
// the options of its own queue, so the function creates such a queue and shuts it down.
var provider = sync.OnceValue(func() workqueue.MetricsProvider {
	var options *priorityqueue.Opts[string]
	priorityqueue.New("", func(o *priorityqueue.Opts[string]) { options = o }).ShutDown()
	return options.MetricProvider
})

func newQueueMetrics(name string) queueMetrics {
	p := provider()
	return queueMetrics{
		depth:        p.NewDepthMetric(name),
		adds:         p.NewAddsMetric(name),
		retries:      p.NewRetriesMetric(name),
		latency:      p.NewLatencyMetric(name),
		workDuration: p.NewWorkDurationMetric(name),
		unfinished:   p.NewUnfinishedWorkSecondsMetric(name),
		longest:      p.NewLongestRunningProcessorSecondsMetric(name),
	}
}

// observeBusy updates the metrics about busy workers at regular intervals, until the queue is shut down. The interval
// is the same as in client-go's queues.
func (q *Queue) observeBusy() {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-q.stopped:
			return
		}
		q.mu.Lock()
		var total, longest time.Duration
		for _, began := range q.busy {
			total += time.Since(began)
			longest = max(longest, time.Since(began))
		}
		q.mu.Unlock()
		q.metrics.unfinished.Set(total.Seconds())
		q.metrics.longest.Set(longest.Seconds())
	}
}
