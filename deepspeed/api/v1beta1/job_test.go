package v1beta1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestJobSpec(t *testing.T) {
	t.Parallel()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker"}}}}
	workers := func(n int32) []batchv1beta1.Role {
		return []batchv1beta1.Role{{Type: "worker", Replicas: n, ScalingWeight: 1, Template: &template}}
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
		spec DeepSpeedJobSpec
		want batchv1beta1.JobSpec
	}{
		"one worker unless told otherwise": {
			spec: DeepSpeedJobSpec{Worker: Worker{Template: template}},
			want: batchv1beta1.JobSpec{Roles: workers(1), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"every field of the workers, which are one collective": {
			spec: DeepSpeedJobSpec{Worker: Worker{
				Replicas: ptr.To[int32](4), RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: template,
			}},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{{
					Type: "worker", Replicas: 4, ScalingWeight: 1, RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: &template,
				}},
				DefaultRestartScope: scopeJob, HasLauncher: true,
			},
		},
		"no worker": {
			spec: DeepSpeedJobSpec{Worker: Worker{Replicas: ptr.To[int32](0), Template: template}},
			want: batchv1beta1.JobSpec{Roles: workers(0), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"an elastic job has the workers that are expected, which restart alone": {
			spec: DeepSpeedJobSpec{Worker: Worker{Replicas: ptr.To[int32](1), Template: template}, Elastic: elastic(true, ptr.To[int32](5))},
			want: batchv1beta1.JobSpec{
				Roles: workers(5), Elastic: elastic(true, ptr.To[int32](5)), DefaultRestartScope: scopeReplica, HasLauncher: true,
			},
		},
		"an elastic job has the fewest workers unless told otherwise": {
			spec: DeepSpeedJobSpec{Worker: Worker{Replicas: ptr.To[int32](5), Template: template}, Elastic: elastic(true, nil)},
			want: batchv1beta1.JobSpec{
				Roles: workers(2), Elastic: elastic(true, nil), DefaultRestartScope: scopeReplica, HasLauncher: true,
			},
		},
		"elastic that is switched off is none": {
			spec: DeepSpeedJobSpec{Worker: Worker{Replicas: ptr.To[int32](3), Template: template}, Elastic: elastic(false, ptr.To[int32](5))},
			want: batchv1beta1.JobSpec{Roles: workers(3), DefaultRestartScope: scopeJob, HasLauncher: true},
		},
		"policies are passed on": {
			spec: DeepSpeedJobSpec{Worker: Worker{Template: template}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler},
			want: batchv1beta1.JobSpec{
				Roles: workers(1), RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
				DefaultRestartScope: scopeJob, HasLauncher: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &DeepSpeedJob{Spec: tc.spec}
			if diff := cmp.Diff(tc.want, job.JobSpec()); diff != "" {
				t.Errorf("unexpected view of the spec (-want +got):\n%s", diff)
			}
		})
	}
}

// The engine writes the status through the view.
func TestJobStatusIsTheJobsOwn(t *testing.T) {
	t.Parallel()
	job := &DeepSpeedJob{}
	job.JobStatus().Phase = batchv1beta1.JobPhaseRunning
	if job.Status.Phase != batchv1beta1.JobPhaseRunning {
		t.Errorf("the phase is %q, want Running", job.Status.Phase)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config *Config
		want   int32
	}{
		"one unless told otherwise": {config: &Config{}, want: 1},
		"one without a config":      {want: 1},
		"as many as it says":        {config: &Config{SlotsPerWorker: ptr.To[int32](8)}, want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (&DeepSpeedJob{Spec: DeepSpeedJobSpec{Config: tc.config}}).Slots(); got != tc.want {
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
		"after a pause":               {mode: pausing(resume), pauses: 1, want: resume},
		"after many":                  {mode: pausing(resume), pauses: 3, want: resume},
		"not before the first":        {mode: pausing(resume)},
		"without anything to say":     {mode: pausing(), pauses: 1},
		"of another type":             {mode: pausing(batchv1beta1.ResumeSpec{Type: "ps", Args: []string{"a"}}), pauses: 1},
		"without a run mode":          {pauses: 1},
		"with nothing but debug mode": {mode: &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{}}, pauses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &DeepSpeedJob{Spec: DeepSpeedJobSpec{RunMode: tc.mode}}
			job.Status.Pauses = tc.pauses
			if diff := cmp.Diff(tc.want, job.Resume()); diff != "" {
				t.Errorf("unexpected resume spec (-want +got):\n%s", diff)
			}
		})
	}
}
