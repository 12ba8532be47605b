package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/phases"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
)

// idleList is a list of idle jobs.
type idleList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []idle
}

func (l *idleList) DeepCopyObject() runtime.Object { return new(*l) }

// listing is a reader that lists jobs.
type listing struct {
	client.Reader

	jobs []idle
}

func (l listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*idleList).Items = l.jobs
	return nil
}

func TestMetricsOfProgress(t *testing.T) {
	t.Parallel()
	elected := make(chan struct{})
	close(elected)
	const help = "# HELP tensorstack_job_progress_"
	ratio := help + "ratio How much of the training of a running job is done, from 0 to 1.\n" +
		"# TYPE tensorstack_job_progress_ratio gauge\n"
	step := help + "step The last step that the training of a running job reported.\n" +
		"# TYPE tensorstack_job_progress_step gauge\n"
	total := help + "total_steps The number of steps of the whole training of a running job.\n" +
		"# TYPE tensorstack_job_progress_total_steps gauge\n"
	at := help + "report_timestamp_seconds When the training of a running job sent its last report.\n" +
		"# TYPE tensorstack_job_progress_report_timestamp_seconds gauge\n"
	const labels = `{job_name="job",job_namespace="ns",kind="TestJob"} `
	full := &batchv1beta1.ProgressStatus{
		Percent: new(int32(42)), Step: new(int64(420)), TotalSteps: new(int64(1000)),
		LastReportTime: new(metav1.Unix(1772366400, 0)),
		Metrics:        []batchv1beta1.ProgressMetric{{Name: "loss", Value: "0.3"}},
	}
	for name, tc := range map[string]struct {
		phase    batchv1beta1.JobPhase
		progress *batchv1beta1.ProgressStatus
		elected  <-chan struct{}
		want     string
	}{
		"a running job reports its progress, but not the metrics of its training": {
			phase: batchv1beta1.JobPhaseRunning, progress: full, elected: elected,
			want: ratio + "tensorstack_job_progress_ratio" + labels + "0.42\n" +
				at + "tensorstack_job_progress_report_timestamp_seconds" + labels + "1.7723664e+09\n" +
				step + "tensorstack_job_progress_step" + labels + "420\n" +
				total + "tensorstack_job_progress_total_steps" + labels + "1000\n",
		},
		"a job that reports only steps has no ratio": {
			phase: batchv1beta1.JobPhaseRunning, progress: &batchv1beta1.ProgressStatus{Step: new(int64(7))}, elected: elected,
			want: step + "tensorstack_job_progress_step" + labels + "7\n",
		},
		"a job without reports has no metrics":   {phase: batchv1beta1.JobPhaseRunning, elected: elected},
		"a job that does not run has no metrics": {phase: batchv1beta1.JobPhaseSucceeded, progress: full, elected: elected},
		"only the leader reports progress": {
			phase: batchv1beta1.JobPhaseRunning, progress: full, elected: context.Background().Done(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := idle{status: batchv1beta1.JobStatus{Phase: tc.phase, Progress: tc.progress}}
			job.Namespace, job.Name = "ns", "job"
			scheme := runtime.NewScheme()
			kind := schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}
			scheme.AddKnownTypeWithName(kind, &idle{})
			scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("TestJobList"), &idleList{})
			collector := newProgressCollector(phases.Objects{
				Reader: listing{jobs: []idle{job}}, Scheme: scheme, Kind: kind, Elected: tc.elected,
			})
			registry := prometheus.NewPedanticRegistry()
			if err := registry.Register(collector); err != nil {
				t.Fatal(err)
			}
			if err := testutil.GatherAndCompare(registry, strings.NewReader(tc.want)); err != nil {
				t.Error(err)
			}
			if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
				t.Errorf("unexpected problems or error: %v, %v", problems, err)
			}
		})
	}
}

// A decision has a stall only if its status reports the stall for the first time. So each stall counts once.
func TestStallsAreCountedByPolicy(t *testing.T) {
	t.Parallel()
	stalls := func(change decide.StallChange) plan.Decision {
		return plan.Decision{Facts: decide.Facts{Stall: decide.Stall{Change: change}}}
	}
	for name, tc := range map[string]struct {
		decision plan.Decision
		// wantNotify and wantRestart are the counts of stalls by policy.
		wantNotify, wantRestart int
	}{
		"a decision without a stall counts nothing": {},
		"a stall that is notified has the policy Notify": {
			decision: stalls(decide.StallBegins), wantNotify: 1,
		},
		"a stall that restarts the job has the policy Restart": {
			decision: stalls(decide.StallRestarts), wantRestart: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			metrics, err := newJobMetrics(registry, "TestJob")
			if err != nil {
				t.Fatal(err)
			}
			metrics.observe(tc.decision)
			want := fmt.Sprintf(`# HELP tensorstack_job_stalls_total Stalls of the training of a job, by runPolicy.progressPolicy.
# TYPE tensorstack_job_stalls_total counter
tensorstack_job_stalls_total{kind="TestJob",policy="Notify"} %d
tensorstack_job_stalls_total{kind="TestJob",policy="Restart"} %d
`, tc.wantNotify, tc.wantRestart)
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metricStalls); err != nil {
				t.Error(err)
			}
		})
	}
}
