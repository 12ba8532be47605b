package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// Each restart is one, of a replica or of the whole job, by what the status calls it.
func TestRestartsAreCountedByCause(t *testing.T) {
	t.Parallel()
	running2 := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		want string
	}{
		"nothing happens": {
			job:  job(role("worker", 2)).saw(time.Minute, running2...),
			pods: running2,
		},
		"a collective restarts as one": {
			job:  job(role("worker", 2)).saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: `tensorstack_job_restarts_total{cause="Error",counted="true",kind="TestJob"} 1`,
		},
		"replicas restart each": {
			job:  job(role("worker", 2)).scope(scopeReplica).saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", exited(1)), pod("job-worker-1", exited(1))},
			want: `tensorstack_job_restarts_total{cause="Error",counted="true",kind="TestJob"} 2`,
		},
		"a disruption": {
			job:  job(role("worker", 2)).saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running, disrupted, deleting)},
			want: `tensorstack_job_restarts_total{cause="Preempted",counted="false",kind="TestJob"} 1`,
		},
		"a success that is to run again": {
			job:  job(restarting(role("worker", 2), batchv1beta1.RestartPolicyAlways)).saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(0))},
			want: `tensorstack_job_restarts_total{cause="Completed",counted="false",kind="TestJob"} 1`,
		},
		"what the kubelet alone has a name for": {
			job:  job(role("worker", 2)),
			pods: []*corev1.Pod{pod("job-worker-0"), pod("job-worker-1", rejected)},
			want: `tensorstack_job_restarts_total{cause="Other",counted="false",kind="TestJob"} 1`,
		},
		"a failure that ends the job is no restart": {
			job:  job(role("worker", 2)).backoffLimit(0).saw(time.Minute, running2...),
			pods: []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", exited(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			metrics, err := newJobMetrics(registry, "TestJob")
			if err != nil {
				t.Fatal(err)
			}
			metrics.observe(tc.job.sees(tc.pods...))
			want := ""
			if tc.want != "" {
				want = "# HELP tensorstack_job_restarts_total Restarts of a replica, or of all replicas of a job together, " +
					"by cause and by whether they count towards backoffLimit.\n" +
					"# TYPE tensorstack_job_restarts_total counter\n" + tc.want + "\n"
			}
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metricRestarts); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStartAndRecoveryAreTimed(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2))
	j.Created = now.Add(-time.Hour)
	j.saw(3*time.Minute, pod("job-worker-0"), pod("job-worker-1"))

	d := j.sees(pod("job-worker-0", running), pod("job-worker-1", running))
	diff(t, "time to start", new(time.Hour), d.StartDuration)
	diff(t, "time to recover", (*time.Duration)(nil), d.RecoveryDuration)

	j.saw(2*time.Minute, pod("job-worker-0", running), pod("job-worker-1", running))
	j.saw(time.Minute, pod("job-worker-0", running), pod("job-worker-1", exited(1)))
	d = j.sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1)))
	diff(t, "time to recover while one still starts", (*time.Duration)(nil), d.RecoveryDuration)
	d = j.sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover", new(time.Minute), d.RecoveryDuration)
	diff(t, "time to start, which happened before", (*time.Duration)(nil), d.StartDuration)

	j.Status = d.Status
	d = j.sees(pod("job-worker-0", again(1), running), pod("job-worker-1", again(1), running))
	diff(t, "time to recover, once more", (*time.Duration)(nil), d.RecoveryDuration)
}

// The names keep to the conventions of Prometheus.
func TestMetricsAreNamedWell(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := newJobMetrics(registry, "TestJob")
	if err != nil {
		t.Fatal(err)
	}
	metrics.observe(decision{
		Restarts: []restarted{{Cause: batchv1beta1.ReasonError}}, StartDuration: new(time.Second), RecoveryDuration: new(time.Second),
	})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if _, err := newJobMetrics(registry, "TestJob"); err == nil {
		t.Error("the metrics of a kind are registered twice")
	}
}

// Of several copies of a controller only the one that leads counts the jobs.
func TestJobsAreNotCountedByACopyThatDoesNotLead(t *testing.T) {
	t.Parallel()
	collector := newJobCollector(nil, nil, schema.GroupVersionKind{Kind: "TestJob"}, context.Background().Done())
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("%d metrics", n)
	}
}
