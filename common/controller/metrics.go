package controller

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/phases"
	"tensorstack.dev/jobs/common/plan"
)

// The names of the metrics. docs/operate/metrics.md documents the metrics for administrators.
const (
	metricJobs     = "tensorstack_jobs"
	metricRestarts = "tensorstack_job_restarts_total"
	metricInPlace  = "tensorstack_job_restarts_in_place_total"
	metricStart    = "tensorstack_job_start_duration_seconds"
	metricRecovery = "tensorstack_job_recovery_duration_seconds"
	metricStalls   = "tensorstack_job_stalls_total"
	metricNodes    = "tensorstack_job_node_restarts_total"
)

// otherCause is the value of the label cause for each cause that is not in causes. It bounds the number of values.
const otherCause = "Other"

// causes are the values of the label cause, besides otherCause.
var causes = []string{
	batchv1beta1.ReasonError, batchv1beta1.ReasonOOMKilled, batchv1beta1.ReasonEvicted, batchv1beta1.ReasonPreempted,
	batchv1beta1.ReasonNodeLost, batchv1beta1.ReasonNodeShutdown, batchv1beta1.ReasonDisrupted, batchv1beta1.ReasonDeleted,
	batchv1beta1.ReasonCompleted, batchv1beta1.ReasonNoProgress, batchv1beta1.ReasonDeviceUnhealthy,
	batchv1beta1.ReasonDeviceTainted,
}

// durations are the buckets of the histograms, in seconds: from the start of a small pod to a day in a queue.
var durations = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}

// jobMetrics are the counters and histograms of jobs of one kind. Each start, restart, recovery and stall is observed
// once: when the status that reports it is written.
type jobMetrics struct {
	restarts *prometheus.CounterVec
	inPlace  prometheus.Counter
	start    prometheus.Histogram
	recovery *prometheus.HistogramVec
	stalls   *prometheus.CounterVec
	nodes    *nodeMetrics
}

// newJobMetrics registers the metrics of a kind. It returns an error if they are already registered.
func newJobMetrics(registry prometheus.Registerer, kind string) (*jobMetrics, error) {
	labels := prometheus.Labels{"kind": kind}
	m := &jobMetrics{
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricRestarts, ConstLabels: labels,
			Help: "Restarts of one replica, or of all replicas of a job together, by cause and by whether they count towards " +
				"backoffLimit.",
		}, []string{"cause", "counted"}),
		inPlace: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricInPlace, ConstLabels: labels,
			Help: "Restarts of the processes of a job while its pods stayed, which count towards maxRestarts.",
		}),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metricStart, ConstLabels: labels, Buckets: durations,
			Help: "Time from the creation of a job until all its replicas ran for the first time.",
		}),
		recovery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricRecovery, ConstLabels: labels, Buckets: durations,
			Help: "Time from the failure of a replica until it was replaced and all replicas ran again, by the cause of the " +
				"failure.",
		}, []string{"cause"}),
		stalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricStalls, ConstLabels: labels,
			Help: "Stalls of the training of a job, by runPolicy.progressPolicy.",
		}, []string{"policy"}),
	}
	m.nodes = newNodeMetrics(labels)
	for _, policy := range []batchv1beta1.ProgressPolicy{
		batchv1beta1.ProgressPolicyNotify, batchv1beta1.ProgressPolicyRestart,
	} {
		m.stalls.WithLabelValues(string(policy)) // begin at 0, so that PromQL's increase() counts the first stall
	}
	for _, cause := range append(slices.Clone(causes), otherCause) {
		m.recovery.WithLabelValues(cause) // as above
	}
	for _, c := range []prometheus.Collector{m.restarts, m.inPlace, m.start, m.recovery, m.stalls, m.nodes.restarts} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe adds the starts, restarts, recoveries and stalls of a decision to the metrics. Call it after the status in
// the decision was written.
func (m *jobMetrics) observe(d plan.Decision) {
	for _, r := range d.Restarts {
		cause, counted := labelOf(r.Cause), "false"
		if r.Counted {
			counted = "true"
		}
		m.restarts.WithLabelValues(cause, counted).Inc()
		if r.Node != "" {
			m.nodes.observe(r.Node, cause)
		}
	}
	m.inPlace.Add(float64(d.AddedInPlace))
	if d.StartDuration != nil {
		m.start.Observe(d.StartDuration.Seconds())
	}
	if d.Recovery != nil {
		m.recovery.WithLabelValues(labelOf(d.Recovery.Cause)).Observe(d.Recovery.Duration.Seconds())
	}
	if reaction := d.Stall.Reaction(); reaction != "" {
		m.stalls.WithLabelValues(string(reaction)).Inc()
	}
}

// labelOf returns the value of the label cause for a cause.
func labelOf(cause string) string {
	if slices.Contains(causes, cause) {
		return cause
	}
	return otherCause
}

// phasesOfJobs are the values of the label phase.
var phasesOfJobs = []string{
	string(batchv1beta1.JobPhasePending), string(batchv1beta1.JobPhaseRunning), string(batchv1beta1.JobPhasePaused),
	string(batchv1beta1.JobPhaseResuming), string(batchv1beta1.JobPhaseSucceeded), string(batchv1beta1.JobPhaseFailed),
	string(batchv1beta1.JobPhaseUnknown),
}

func newJobCollector(jobs phases.Objects) *phases.Collector {
	return &phases.Collector{
		Objects: jobs, Phases: phasesOfJobs,
		PhaseOf: func(object runtime.Object) string {
			phase := object.(framework.Job).JobStatus().Phase //nolint:forcetypeassert // all objects of the kind are jobs
			if phase == "" {
				phase = batchv1beta1.JobPhasePending // the job was not reconciled yet
			}
			return string(phase)
		},
		Metric: prometheus.NewDesc(metricJobs, "Jobs by phase.", []string{"phase"},
			prometheus.Labels{"kind": jobs.Kind.Kind}),
	}
}
