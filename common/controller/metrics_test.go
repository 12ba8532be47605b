package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/phases"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/status"
)

// Restarts are counted by cause. A cause that the controller does not define counts as Other.
func TestRestartsAreCountedByCause(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		restarts []decide.Restart
		want     string
	}{
		"a decision without restarts counts nothing": {},
		"a counted restart has counted=true": {
			restarts: []decide.Restart{{Cause: "Error", Counted: true}},
			want:     `tensorstack_job_restarts_total{cause="Error",counted="true",kind="TestJob"} 1`,
		},
		"two restarts with the same cause add up": {
			restarts: []decide.Restart{{Cause: "Error", Counted: true}, {Cause: "Error", Counted: true}},
			want:     `tensorstack_job_restarts_total{cause="Error",counted="true",kind="TestJob"} 2`,
		},
		"a restart that does not count towards backoffLimit has counted=false": {
			restarts: []decide.Restart{{Cause: "Preempted"}},
			want:     `tensorstack_job_restarts_total{cause="Preempted",counted="false",kind="TestJob"} 1`,
		},
		"a restart after success has the cause Completed": {
			restarts: []decide.Restart{{Cause: "Completed"}},
			want:     `tensorstack_job_restarts_total{cause="Completed",counted="false",kind="TestJob"} 1`,
		},
		"a stall has the cause NoProgress": {
			restarts: []decide.Restart{{Cause: "NoProgress", Counted: true}},
			want:     `tensorstack_job_restarts_total{cause="NoProgress",counted="true",kind="TestJob"} 1`,
		},
		"an unhealthy device has the cause DeviceUnhealthy": {
			restarts: []decide.Restart{{Cause: "DeviceUnhealthy", Node: "node"}},
			want:     `tensorstack_job_restarts_total{cause="DeviceUnhealthy",counted="false",kind="TestJob"} 1`,
		},
		"a tainted device has the cause DeviceTainted": {
			restarts: []decide.Restart{{Cause: "DeviceTainted", Node: "node"}},
			want:     `tensorstack_job_restarts_total{cause="DeviceTainted",counted="false",kind="TestJob"} 1`,
		},
		"a cause that the kubelet defines counts as Other": {
			restarts: []decide.Restart{{Cause: "UnexpectedAdmissionError"}},
			want:     `tensorstack_job_restarts_total{cause="Other",counted="false",kind="TestJob"} 1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			metrics, err := newJobMetrics(registry, "TestJob")
			if err != nil {
				t.Fatal(err)
			}
			metrics.observe(plan.Decision{Facts: decide.Facts{Restarts: tc.restarts}})
			want := ""
			if tc.want != "" {
				want = "# HELP tensorstack_job_restarts_total Restarts of one replica, or of all replicas of a job together, " +
					"by cause and by whether they count towards backoffLimit.\n" +
					"# TYPE tensorstack_job_restarts_total counter\n" + tc.want + "\n"
			}
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metricRestarts); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRestartsInPlaceAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := newJobMetrics(registry, "TestJob")
	if err != nil {
		t.Fatal(err)
	}
	for _, added := range []int32{2, 0, 1} {
		metrics.observe(plan.Decision{Facts: decide.Facts{AddedInPlace: added}})
	}
	diff(t, "restarts in place", 3.0, testutil.ToFloat64(metrics.inPlace))
}

func TestRecoveriesAreTimedByCause(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := newJobMetrics(registry, "TestJob")
	if err != nil {
		t.Fatal(err)
	}
	for cause, seconds := range map[string]int{"OOMKilled": 4, "UnexpectedAdmissionError": 5} {
		metrics.observe(plan.Decision{Rendering: status.Rendering{
			Recovery: &status.Recovery{Cause: cause, Duration: time.Duration(seconds) * time.Second},
		}})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == metricRecovery && label.GetName() == "cause" && m.GetHistogram().GetSampleCount() > 0 {
					got[label.GetValue()] = m.GetHistogram().GetSampleSum()
				}
			}
		}
	}
	diff(t, "seconds of recoveries", map[string]float64{"OOMKilled": 4, "Other": 5}, got)
}

func TestMetricNamesFollowTheConventionsOfPrometheus(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := newJobMetrics(registry, "TestJob")
	if err != nil {
		t.Fatal(err)
	}
	metrics.observe(plan.Decision{
		Facts: decide.Facts{
			Restarts: []decide.Restart{{Cause: batchv1beta1.ReasonNodeLost, Node: "node"}},
			Stall:    decide.Stall{Change: decide.StallBegins},
		},
		Rendering: status.Rendering{
			StartDuration: new(time.Second), Recovery: &status.Recovery{Cause: "Error", Duration: time.Second},
		},
	})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("unexpected problems or error: %v, %v", problems, err)
	}
	if _, err := newJobMetrics(registry, "TestJob"); err == nil {
		t.Error("registering the metrics of a kind twice succeeded, want an error")
	}
}

// If a controller has several replicas, only the leader counts the jobs.
func TestOnlyTheLeaderCountsJobs(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("TestJobList"), &idleList{})
	collector := newJobCollector(phases.Objects{
		Reader: listing{jobs: []idle{{}}}, Scheme: scheme, Kind: kind, Elected: context.Background().Done(),
	})
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("a process that is not the leader reports %d metrics, want none", n)
	}
}
