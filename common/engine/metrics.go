package engine

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// The metrics of a controller. docs/metrics.md describes them for those who watch it.
const (
	metricJobs     = "tensorstack_jobs"
	metricRestarts = "tensorstack_job_restarts_total"
	metricStart    = "tensorstack_job_start_duration_seconds"
	metricRecovery = "tensorstack_job_recovery_duration_seconds"
)

// otherCause stands for the causes that are not ours to name, so that their number stays bounded.
const otherCause = "Other"

// causes are the values of the label cause.
var causes = []string{
	batchv1beta1.ReasonError, batchv1beta1.ReasonOOMKilled, batchv1beta1.ReasonEvicted, batchv1beta1.ReasonPreempted,
	batchv1beta1.ReasonNodeLost, batchv1beta1.ReasonNodeShutdown, batchv1beta1.ReasonDisrupted, batchv1beta1.ReasonDeleted,
	batchv1beta1.ReasonCompleted,
}

// durations are the bounds of histograms, in seconds: from the start of a small pod to a day in a queue.
var durations = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}

// jobMetrics are the metrics that grow with what happens to jobs of one kind. What happens is observed once, when the status
// that speaks of it is written.
type jobMetrics struct {
	restarts *prometheus.CounterVec
	start    prometheus.Histogram
	recovery prometheus.Histogram
}

// newJobMetrics registers the metrics of a kind. It returns an error if they are registered already.
func newJobMetrics(registry prometheus.Registerer, kind string) (*jobMetrics, error) {
	labels := prometheus.Labels{"kind": kind}
	m := &jobMetrics{
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricRestarts, ConstLabels: labels,
			Help: "Restarts of a replica, or of all replicas of a job together, by cause and by whether they count towards backoffLimit.",
		}, []string{"cause", "counted"}),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metricStart, ConstLabels: labels, Buckets: durations,
			Help: "Time from the creation of a job until all its replicas ran for the first time.",
		}),
		recovery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metricRecovery, ConstLabels: labels, Buckets: durations,
			Help: "Time from the failure of a replica until it was replaced and all replicas ran again.",
		}),
	}
	for _, c := range []prometheus.Collector{m.restarts, m.start, m.recovery} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe takes account of a decision whose status is written.
func (m *jobMetrics) observe(d decision) {
	for _, r := range d.Restarts {
		cause, counted := r.Cause, "false"
		if !slices.Contains(causes, cause) {
			cause = otherCause
		}
		if r.Counted {
			counted = "true"
		}
		m.restarts.WithLabelValues(cause, counted).Inc()
	}
	if d.StartDuration != nil {
		m.start.Observe(d.StartDuration.Seconds())
	}
	if d.RecoveryDuration != nil {
		m.recovery.Observe(d.RecoveryDuration.Seconds())
	}
}

// phases are the values of the label phase.
var phases = []batchv1beta1.JobPhase{
	batchv1beta1.JobPhasePending, batchv1beta1.JobPhaseRunning, batchv1beta1.JobPhasePaused, batchv1beta1.JobPhaseResuming,
	batchv1beta1.JobPhaseSucceeded, batchv1beta1.JobPhaseFailed, batchv1beta1.JobPhaseUnknown,
}

// jobCollector counts the jobs of a kind by phase whenever it is asked, from the cache: the numbers cannot drift.
type jobCollector struct {
	reader client.Reader
	scheme *runtime.Scheme
	kind   schema.GroupVersionKind
	// elected is closed once this process leads. Of several copies of a controller one counts, or sums would be wrong.
	elected <-chan struct{}
	jobs    *prometheus.Desc
}

func newJobCollector(reader client.Reader, scheme *runtime.Scheme, kind schema.GroupVersionKind, elected <-chan struct{}) *jobCollector {
	return &jobCollector{
		reader: reader, scheme: scheme, kind: kind, elected: elected,
		jobs: prometheus.NewDesc(metricJobs, "Jobs by phase.", []string{"phase"}, prometheus.Labels{"kind": kind.Kind}),
	}
}

// Describe implements prometheus.Collector.
func (c *jobCollector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.jobs }

// Collect implements prometheus.Collector.
func (c *jobCollector) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	count, err := c.count(ctx)
	if err != nil {
		ctrllog.Log.Error(err, "counting the jobs for the metrics")
		return
	}
	for _, phase := range phases {
		metrics <- prometheus.MustNewConstMetric(c.jobs, prometheus.GaugeValue, float64(count[phase]), string(phase))
	}
}

func (c *jobCollector) count(ctx context.Context) (map[batchv1beta1.JobPhase]int, error) {
	empty, err := c.scheme.New(c.kind.GroupVersion().WithKind(c.kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list := empty.(client.ObjectList) //nolint:forcetypeassert // the list of a client.Object is a client.ObjectList
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	count := map[batchv1beta1.JobPhase]int{}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		phase := item.(framework.Job).JobStatus().Phase //nolint:forcetypeassert // the kind is that of a framework.Job
		if phase == "" {
			phase = batchv1beta1.JobPhasePending // nobody has looked at it yet
		}
		count[phase]++
		return nil
	})
	return count, err
}
