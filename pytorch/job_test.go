package pytorch

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestJobSpec(t *testing.T) {
	t.Parallel()
	progress := &batchv1beta1.ProgressSpec{Enabled: true}
	const notice = "spec.elastic has no effect without spec.torchrunConfig: the job runs its plain replicas"
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pytorch"}}}}
	worker := v1beta1.ReplicaSpec{Type: "worker", Template: template}
	roles := []framework.Role{{Type: "worker", Replicas: 1, ScalingWeight: 1, Template: &template}}
	elastic := &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4)}
	expecting := func(n int32) *batchv1beta1.ElasticConfig {
		return &batchv1beta1.ElasticConfig{
			Enabled: true, MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](8), ExpectedReplicas: &n,
		}
	}
	runPolicy := batchv1beta1.RunPolicy{BackoffLimit: ptr.To[int32](7), RestartScope: batchv1beta1.RestartScopeReplica}
	runMode := &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	scheduler := &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "q"}}
	const (
		scopeJob        = batchv1beta1.RestartScopeJob
		scopeRendezvous = batchv1beta1.RestartScopeRendezvous
	)
	for name, tc := range map[string]struct {
		spec v1beta1.PyTorchTrainingJobSpec
		want framework.JobSpec
	}{
		"a type has one replica of weight 1 by default": {
			spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{worker}},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob},
		},
		"every field of a replica spec is copied to the role": {
			spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: "worker", Replicas: ptr.To[int32](4), ScalingWeight: ptr.To[int32](2),
				RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: template,
			}}},
			want: framework.JobSpec{
				Roles: []framework.Role{{
					Type: "worker", Replicas: 4, ScalingWeight: 2, RestartPolicy: batchv1beta1.RestartPolicyExitCode,
					Template: &template,
				}},
				DefaultRestartScope: scopeJob,
			},
		},
		"the weight is the number of replicas by default": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{{Type: "worker", Replicas: ptr.To[int32](4), Template: template}},
			},
			want: framework.JobSpec{
				Roles:               []framework.Role{{Type: "worker", Replicas: 4, ScalingWeight: 4, Template: &template}},
				DefaultRestartScope: scopeJob,
			},
		},
		"0 replicas and a weight of 0 are not replaced by defaults": {
			spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{
				{Type: "worker", Replicas: ptr.To[int32](0), Template: template},
				{Type: "node", ScalingWeight: ptr.To[int32](0), Template: template},
			}},
			want: framework.JobSpec{
				Roles: []framework.Role{
					{Type: "node", Replicas: 1, Template: &template},
					{Type: "worker", Template: &template},
				},
				DefaultRestartScope: scopeJob,
			},
		},
		"the master leads the job": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker, {Type: "master", Template: template}},
			},
			want: framework.JobSpec{
				Roles: []framework.Role{
					{Type: "master", Replicas: 1, ScalingWeight: 1, Template: &template},
					{Type: "worker", Replicas: 1, ScalingWeight: 1, Template: &template},
				},
				DefaultRestartScope: scopeJob,
			},
		},
		"the run policy, the run mode and the scheduler are copied": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
			},
			want: framework.JobSpec{
				Roles: roles, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler, DefaultRestartScope: scopeJob,
			},
		},
		"an elastic job restarts single replicas by default": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Elastic: elastic,
				TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true},
			},
			want: framework.JobSpec{Roles: roles, Elastic: elastic, DefaultRestartScope: scopeRendezvous, RestartsInPlace: true},
		},
		"expectedReplicas is divided by weight, and the master keeps one replica": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{
					{Type: "worker", Replicas: ptr.To[int32](6), ScalingWeight: ptr.To[int32](2), Template: template},
					{Type: "spot", Replicas: ptr.To[int32](1), Template: template},
					{Type: "master", Replicas: ptr.To[int32](0), Template: template},
				},
				Elastic: expecting(7), TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true},
			},
			want: framework.JobSpec{
				Roles: []framework.Role{
					{Type: "master", Replicas: 1, Template: &template},
					{Type: "worker", Replicas: 4, ScalingWeight: 2, Template: &template},
					{Type: "spot", Replicas: 2, ScalingWeight: 1, Template: &template},
				},
				Elastic: expecting(7), DefaultRestartScope: scopeRendezvous, RestartsInPlace: true,
			},
		},
		"elastic without torchrun has no effect": {
			spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Elastic: elastic},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, Notice: notice},
		},
		"elastic with a disabled torchrunConfig has no effect": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Elastic: elastic, TorchrunConfig: &v1beta1.TorchrunConfig{},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, Notice: notice},
		},
		"torchrun with a disabled elastic restarts the whole job by default": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true},
				Elastic: &batchv1beta1.ElasticConfig{MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4)},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob},
		},
		"a job with torchrunConfig.maxRestarts counts restarts in place": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs:   []v1beta1.ReplicaSpec{worker},
				TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true, MaxRestarts: ptr.To[int32](3)},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, RestartsInPlace: true},
		},
		"a job whose replicas are replaced alone counts restarts in place without maxRestarts": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs:   []v1beta1.ReplicaSpec{worker},
				RunPolicy:      batchv1beta1.RunPolicy{RestartScope: scopeRendezvous},
				TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true},
			},
			want: framework.JobSpec{
				Roles: roles, DefaultRestartScope: scopeJob, RestartsInPlace: true,
				RunPolicy: batchv1beta1.RunPolicy{RestartScope: scopeRendezvous},
			},
		},
		"a job whose torchrun counts its restarts does not": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker},
				TorchrunConfig: &v1beta1.TorchrunConfig{
					Enabled: true, MaxRestarts: ptr.To[int32](3), ExtraOptions: []string{"--max-restarts=5"},
				},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob},
		},
		"a job in debug mode counts no restarts in place": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs:   []v1beta1.ReplicaSpec{worker},
				TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true, MaxRestarts: ptr.To[int32](3)},
				RunMode:        &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}},
			},
			want: framework.JobSpec{
				Roles: roles, DefaultRestartScope: scopeJob,
				RunMode: &batchv1beta1.RunMode{Debug: &batchv1beta1.DebugMode{Enabled: true}},
			},
		},
		"a job with an enabled progress reports it": {
			spec: v1beta1.PyTorchTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Progress: progress},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, ReportsProgress: true},
		},
		"a job with a disabled progress does not report it": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Progress: &batchv1beta1.ProgressSpec{},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob},
		},
		"torchrun with the default backend runs the first process by name": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Progress: progress,
				TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true, RdzvBackend: "c10d"},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, ReportsProgress: true},
		},
		"torchrun with another backend runs the first process anywhere": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Progress: progress,
				TorchrunConfig: &v1beta1.TorchrunConfig{Enabled: true, RdzvBackend: "etcd-v2"},
			},
			want: framework.JobSpec{
				Roles: roles, DefaultRestartScope: scopeJob, ReportsProgress: true, FirstProcess: framework.FirstProcessAnywhere,
			},
		},
		"the backend of a disabled torchrunConfig has no effect on the first process": {
			spec: v1beta1.PyTorchTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{worker}, Progress: progress,
				TorchrunConfig: &v1beta1.TorchrunConfig{RdzvBackend: "etcd-v2"},
			},
			want: framework.JobSpec{Roles: roles, DefaultRestartScope: scopeJob, ReportsProgress: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &v1beta1.PyTorchTrainingJob{Spec: tc.spec}
			// By default, torchrun or the program of the user determines where the first process runs.
			tc.want.FirstProcess = cmp.Or(tc.want.FirstProcess, framework.FirstProcessByName)
			// With torchrun, a replica can have several ranks.
			tc.want.RanksAreReplicas = tc.spec.TorchrunConfig == nil || !tc.spec.TorchrunConfig.Enabled
			if diff := gocmp.Diff(tc.want, pytorch{}.JobSpec(job)); diff != "" {
				t.Errorf("unexpected job spec (-want +got):\n%s", diff)
			}
		})
	}
}
