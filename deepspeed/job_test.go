package deepspeed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

func TestJobSpec(t *testing.T) {
	t.Parallel()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker"}}}}
	workers := func(n int32) []framework.Role {
		return []framework.Role{{Type: "worker", Replicas: n, ScalingWeight: 1, Serves: true, Template: &template}}
	}
	elastic := func(enabled bool, expected *int32) *batchv1beta1.ElasticConfig {
		return &batchv1beta1.ElasticConfig{
			Enabled: enabled, MinReplicas: ptr.To[int32](2), MaxReplicas: ptr.To[int32](8), ExpectedReplicas: expected,
		}
	}
	runPolicy := batchv1beta1.RunPolicy{BackoffLimit: ptr.To[int32](7), RestartScope: batchv1beta1.RestartScopeReplica}
	runMode := &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	scheduler := &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "q"}}
	const (
		scopeJob     = batchv1beta1.RestartScopeJob
		scopeReplica = batchv1beta1.RestartScopeReplica
	)
	for name, tc := range map[string]struct {
		spec v1beta1.DeepSpeedJobSpec
		want framework.JobSpec
	}{
		"a job has one worker by default": {
			spec: v1beta1.DeepSpeedJobSpec{Worker: v1beta1.Worker{Template: template}},
			want: framework.JobSpec{Roles: workers(1), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"every field of the worker is copied to the role": {
			spec: v1beta1.DeepSpeedJobSpec{Worker: v1beta1.Worker{
				Replicas: ptr.To[int32](4), RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: template,
			}},
			want: framework.JobSpec{
				Roles: []framework.Role{{
					Type: "worker", Replicas: 4, ScalingWeight: 1, Serves: true, RestartPolicy: batchv1beta1.RestartPolicyExitCode,
					Template: &template,
				}},
				DefaultRestartScope: scopeJob, HasLauncher: true,
			},
		},
		"0 workers are not replaced by the default": {
			spec: v1beta1.DeepSpeedJobSpec{Worker: v1beta1.Worker{Replicas: ptr.To[int32](0), Template: template}},
			want: framework.JobSpec{Roles: workers(0), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"an elastic job has expectedReplicas workers, and restarts single workers by default": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Replicas: ptr.To[int32](1), Template: template}, Elastic: elastic(true, ptr.To[int32](5)),
			},
			want: framework.JobSpec{
				Roles: workers(5), Elastic: elastic(true, ptr.To[int32](5)), DefaultRestartScope: scopeReplica, HasLauncher: true,
			},
		},
		"an elastic job has minReplicas workers by default": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Replicas: ptr.To[int32](5), Template: template}, Elastic: elastic(true, nil),
			},
			want: framework.JobSpec{
				Roles: workers(2), Elastic: elastic(true, nil), DefaultRestartScope: scopeReplica, HasLauncher: true,
			},
		},
		"a disabled elastic has no effect": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Replicas: ptr.To[int32](3), Template: template}, Elastic: elastic(false, ptr.To[int32](5)),
			},
			want: framework.JobSpec{Roles: workers(3), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"the run policy, the run mode and the scheduler are copied": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Template: template}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
			},
			want: framework.JobSpec{
				Roles: workers(1), RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
				DefaultRestartScope: scopeJob, HasLauncher: true,
			},
		},
		"a job with config.maxRestarts counts restarts in place": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Template: template},
				Config: &v1beta1.Config{MaxRestarts: ptr.To[int32](3), Run: &v1beta1.RunType{Python: []string{"train.py"}}},
			},
			want: framework.JobSpec{
				Roles: workers(1), DefaultRestartScope: scopeJob, HasLauncher: true, RestartsInPlace: true,
			},
		},
		"a job with the autotuner does not": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Template: template},
				Config: &v1beta1.Config{
					MaxRestarts: ptr.To[int32](3), Autotune: v1beta1.AutotuneRun,
					Run: &v1beta1.RunType{Python: []string{"train.py"}},
				},
			},
			want: framework.JobSpec{Roles: workers(1), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"a job with a custom command does not": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Template: template},
				Config: &v1beta1.Config{
					MaxRestarts: ptr.To[int32](3), CustomCommand: "sh run.sh", Run: &v1beta1.RunType{Python: []string{"train.py"}},
				},
			},
			want: framework.JobSpec{Roles: workers(1), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"a job that reports its progress runs the first process in its leader": {
			spec: v1beta1.DeepSpeedJobSpec{
				Worker: v1beta1.Worker{Template: template}, Progress: &batchv1beta1.ProgressSpec{Enabled: true},
			},
			want: framework.JobSpec{
				Roles: workers(1), DefaultRestartScope: scopeJob, HasLauncher: true, ReportsProgress: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &v1beta1.DeepSpeedJob{Spec: tc.spec}
			if diff := cmp.Diff(tc.want, deepspeed{}.JobSpec(job)); diff != "" {
				t.Errorf("unexpected job spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config *v1beta1.Config
		want   int32
	}{
		"a worker has one slot by default":              {config: &v1beta1.Config{}, want: 1},
		"a worker has one slot if the config is unset":  {want: 1},
		"a worker has as many slots as the config sets": {config: &v1beta1.Config{SlotsPerWorker: ptr.To[int32](8)}, want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := slotsOf(&v1beta1.DeepSpeedJob{Spec: v1beta1.DeepSpeedJobSpec{Config: tc.config}}); got != tc.want {
				t.Errorf("a worker has %d slots, want %d", got, tc.want)
			}
		})
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	resume := batchv1beta1.ResumeSpec{Type: "worker", Args: []string{"--resume"}}
	pausing := func(specs ...batchv1beta1.ResumeSpec) *batchv1beta1.RunMode {
		return &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{ResumeSpecs: specs}}
	}
	for name, tc := range map[string]struct {
		mode   *batchv1beta1.RunMode
		pauses int32
		want   batchv1beta1.ResumeSpec
	}{
		"the resume spec applies after a pause":         {mode: pausing(resume), pauses: 1, want: resume},
		"the resume spec applies after several pauses":  {mode: pausing(resume), pauses: 3, want: resume},
		"the resume spec does not apply before a pause": {mode: pausing(resume)},
		"the resume spec is empty without resumeSpecs":  {mode: pausing(), pauses: 1},
		"the resume spec is empty without a run mode":   {pauses: 1},
		"the resume spec is empty if there is only debug mode": {
			mode: &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{}}, pauses: 1,
		},
		"the resume spec of another type is ignored": {
			mode: pausing(batchv1beta1.ResumeSpec{Type: "ps", Args: []string{"a"}}), pauses: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &v1beta1.DeepSpeedJob{Spec: v1beta1.DeepSpeedJobSpec{RunMode: tc.mode}}
			job.Status.Pauses = tc.pauses
			if diff := cmp.Diff(tc.want, resumeSpecOf(job)); diff != "" {
				t.Errorf("unexpected resume spec (-want +got):\n%s", diff)
			}
		})
	}
}
