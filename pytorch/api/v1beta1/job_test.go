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
	const notice = "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pytorch"}}}}
	worker := ReplicaSpec{Type: "worker", Template: template}
	roles := []batchv1beta1.Role{{Type: "worker", Replicas: 1, ScalingWeight: 1, Template: &template}}
	elastic := &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4)}
	expecting := func(n int32) *batchv1beta1.ElasticConfig {
		return &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](8), ExpectedReplicas: &n}
	}
	runPolicy := batchv1beta1.RunPolicy{BackoffLimit: ptr.To[int32](7), RestartScope: batchv1beta1.RestartScopeReplica}
	runMode := &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	scheduler := &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "q"}}
	const (
		scopeJob     = batchv1beta1.RestartScopeJob
		scopeReplica = batchv1beta1.RestartScopeReplica
	)
	for name, tc := range map[string]struct {
		spec PyTorchTrainingJobSpec
		want batchv1beta1.JobSpec
	}{
		"one replica of weight one unless told otherwise": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{worker}},
			want: batchv1beta1.JobSpec{Roles: roles, DefaultRestartScope: scopeJob},
		},
		"every field of a role": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{{
				Type: "worker", Replicas: ptr.To[int32](4), ScalingWeight: ptr.To[int32](2),
				RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: template,
			}}},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{{
					Type: "worker", Replicas: 4, ScalingWeight: 2, RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: &template,
				}},
				DefaultRestartScope: scopeJob,
			},
		},
		"the weight is the number of replicas unless told otherwise": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{{Type: "worker", Replicas: ptr.To[int32](4), Template: template}}},
			want: batchv1beta1.JobSpec{
				Roles:               []batchv1beta1.Role{{Type: "worker", Replicas: 4, ScalingWeight: 4, Template: &template}},
				DefaultRestartScope: scopeJob,
			},
		},
		"0 is a number of replicas and a weight": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{
				{Type: "worker", Replicas: ptr.To[int32](0), Template: template},
				{Type: "node", ScalingWeight: ptr.To[int32](0), Template: template},
			}},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{
					{Type: "node", Replicas: 1, Template: &template},
					{Type: "worker", Template: &template},
				},
				DefaultRestartScope: scopeJob,
			},
		},
		"the master leads": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{worker, {Type: "master", Template: template}}},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{
					{Type: "master", Replicas: 1, ScalingWeight: 1, Template: &template},
					{Type: "worker", Replicas: 1, ScalingWeight: 1, Template: &template},
				},
				DefaultRestartScope: scopeJob,
			},
		},
		"policies are passed on": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{worker}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler},
			want: batchv1beta1.JobSpec{
				Roles: roles, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler, DefaultRestartScope: scopeJob,
			},
		},
		"elastic with torchrun: replicas come and go one by one": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{worker}, Elastic: elastic, TorchrunConfig: &TorchrunConfig{Enabled: true}},
			want: batchv1beta1.JobSpec{Roles: roles, Elastic: elastic, DefaultRestartScope: scopeReplica, Rendezvous: true},
		},
		"elastic with torchrun: what is expected is shared by weight, and a master stays one": {
			spec: PyTorchTrainingJobSpec{
				ReplicaSpecs: []ReplicaSpec{
					{Type: "worker", Replicas: ptr.To[int32](6), ScalingWeight: ptr.To[int32](2), Template: template},
					{Type: "spot", Replicas: ptr.To[int32](1), Template: template},
					{Type: "master", Replicas: ptr.To[int32](0), Template: template},
				},
				Elastic: expecting(7), TorchrunConfig: &TorchrunConfig{Enabled: true},
			},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{
					{Type: "master", Replicas: 1, Template: &template},
					{Type: "worker", Replicas: 4, ScalingWeight: 2, Template: &template},
					{Type: "spot", Replicas: 2, ScalingWeight: 1, Template: &template},
				},
				Elastic: expecting(7), DefaultRestartScope: scopeReplica, Rendezvous: true,
			},
		},
		"elastic without torchrun has no effect": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{worker}, Elastic: elastic},
			want: batchv1beta1.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, Notice: notice},
		},
		"elastic with torchrun switched off has none either": {
			spec: PyTorchTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{worker}, Elastic: elastic, TorchrunConfig: &TorchrunConfig{}},
			want: batchv1beta1.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, Notice: notice},
		},
		"torchrun with elastic switched off is one collective": {
			spec: PyTorchTrainingJobSpec{
				ReplicaSpecs: []ReplicaSpec{worker}, TorchrunConfig: &TorchrunConfig{Enabled: true},
				Elastic: &batchv1beta1.ElasticConfig{MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4)},
			},
			want: batchv1beta1.JobSpec{Roles: roles, DefaultRestartScope: scopeJob},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &PyTorchTrainingJob{Spec: tc.spec}
			if diff := cmp.Diff(tc.want, job.JobSpec()); diff != "" {
				t.Errorf("unexpected view of the spec (-want +got):\n%s", diff)
			}
		})
	}
}

// The engine writes the status through the view.
func TestJobStatusIsTheJobsOwn(t *testing.T) {
	t.Parallel()
	job := &PyTorchTrainingJob{}
	job.JobStatus().Phase = batchv1beta1.JobPhaseRunning
	if job.Status.Phase != batchv1beta1.JobPhaseRunning {
		t.Errorf("the phase is %q, want Running", job.Status.Phase)
	}
}
