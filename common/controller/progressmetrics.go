package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/phases"
)

// The names of the metrics about progress.
const (
	metricProgressRatio = "tensorstack_job_progress_ratio"
	metricStep          = "tensorstack_job_progress_step"
	metricTotalSteps    = "tensorstack_job_progress_total_steps"
	metricReportTime    = "tensorstack_job_progress_report_timestamp_seconds"
)

// progressCollector reports the progress of running jobs, as their statuses in the cache show it. It does not include
// the metrics that the training reports, because tenants choose the names of these metrics, so the number of names is
// unlimited.
type progressCollector struct {
	jobs phases.Objects

	ratio, step, totalSteps, reportTime *prometheus.Desc
}

func newProgressCollector(jobs phases.Objects) *progressCollector {
	labels := prometheus.Labels{"kind": jobs.Kind.Kind}
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"job_namespace", "job_name"}, labels)
	}
	return &progressCollector{
		jobs:       jobs,
		ratio:      describe(metricProgressRatio, "How much of the training of a running job is done, from 0 to 1."),
		step:       describe(metricStep, "The last step that the training of a running job reported."),
		totalSteps: describe(metricTotalSteps, "The number of steps of the whole training of a running job."),
		reportTime: describe(metricReportTime, "When the training of a running job sent its last report."),
	}
}

// Describe implements prometheus.Collector.
func (c *progressCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.ratio
	descriptions <- c.step
	descriptions <- c.totalSteps
	descriptions <- c.reportTime
}

// Collect implements prometheus.Collector.
func (c *progressCollector) Collect(metrics chan<- prometheus.Metric) {
	c.jobs.Each(func(object runtime.Object) {
		job := object.(framework.Job) //nolint:forcetypeassert // all objects of the kind are jobs
		status := job.JobStatus()
		if status.Phase == batchv1beta1.JobPhaseRunning && status.Progress != nil {
			c.collect(metrics, job.GetNamespace(), job.GetName(), *status.Progress)
		}
	})
}

func (c *progressCollector) collect(
	metrics chan<- prometheus.Metric, namespace, name string, progress batchv1beta1.ProgressStatus,
) {
	gauge := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, namespace, name)
	}
	if progress.Percent != nil {
		gauge(c.ratio, float64(*progress.Percent)/100)
	}
	if progress.Step != nil {
		gauge(c.step, float64(*progress.Step))
	}
	if progress.TotalSteps != nil {
		gauge(c.totalSteps, float64(*progress.TotalSteps))
	}
	if progress.LastReportTime != nil {
		gauge(c.reportTime, float64(progress.LastReportTime.Unix()))
	}
}
