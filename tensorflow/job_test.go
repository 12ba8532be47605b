package tensorflow

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

func TestJobSpec(t *testing.T) {
	t.Parallel()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "tensorflow"}}}}
	replicas := func(roleType v1beta1.ReplicaType, n int32) v1beta1.ReplicaSpec {
		return v1beta1.ReplicaSpec{Type: roleType, Replicas: &n, Template: template}
	}
	// inCluster returns a role that other replicas reach. The function outside returns a role that they do not reach.
	inCluster := func(roleType string, n int32) framework.Role {
		return framework.Role{Type: roleType, Replicas: n, Awaited: true, Serves: roleType == "ps", Template: &template}
	}
	outside := func(roleType string, n int32) framework.Role {
		return framework.Role{Type: roleType, Replicas: n, PeerGrace: 10 * time.Minute, Template: &template}
	}
	runPolicy := batchv1beta1.RunPolicy{BackoffLimit: ptr.To[int32](7), RestartScope: batchv1beta1.RestartScopeReplica}
	runMode := &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	scheduler := &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "q"}}
	const (
		scopeJob     = batchv1beta1.RestartScopeJob
		scopeReplica = batchv1beta1.RestartScopeReplica
	)
	for name, tc := range map[string]struct {
		spec v1beta1.TensorFlowTrainingJobSpec
		want framework.JobSpec
	}{
		"a type has one replica by default": {
			spec: v1beta1.TensorFlowTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{{Type: v1beta1.ReplicaTypeWorker, Template: template}},
			},
			want: framework.JobSpec{Roles: []framework.Role{inCluster("worker", 1)}, DefaultRestartScope: scopeJob},
		},
		"every field of a replica spec is copied to the role": {
			spec: v1beta1.TensorFlowTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{{
				Type: v1beta1.ReplicaTypeWorker, Replicas: ptr.To[int32](4), RestartPolicy: batchv1beta1.RestartPolicyExitCode,
				Template: template,
			}}},
			want: framework.JobSpec{
				Roles: []framework.Role{{
					Type: "worker", Replicas: 4, RestartPolicy: batchv1beta1.RestartPolicyExitCode, Awaited: true, Template: &template,
				}},
				DefaultRestartScope: scopeJob,
			},
		},
		"the chief is first, then workers, then other types; evaluators are not awaited": {
			spec: v1beta1.TensorFlowTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{
				replicas(v1beta1.ReplicaTypeEvaluator, 2), replicas(v1beta1.ReplicaTypePS, 1),
				replicas(v1beta1.ReplicaTypeWorker, 3), replicas(v1beta1.ReplicaTypeChief, 1),
			}},
			want: framework.JobSpec{
				Roles: []framework.Role{
					inCluster("chief", 1), inCluster("worker", 3), outside("evaluator", 2), inCluster("ps", 1),
				},
				DefaultRestartScope: scopeReplica,
			},
		},
		"without a chief, the workers lead, even if parameter servers come first in the spec": {
			spec: v1beta1.TensorFlowTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{replicas(v1beta1.ReplicaTypePS, 2), replicas(v1beta1.ReplicaTypeWorker, 2)},
			},
			want: framework.JobSpec{
				Roles:               []framework.Role{inCluster("worker", 2), inCluster("ps", 2)},
				DefaultRestartScope: scopeReplica,
			},
		},
		"a chief type without replicas does not lead": {
			spec: v1beta1.TensorFlowTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{replicas(v1beta1.ReplicaTypeChief, 0), replicas(v1beta1.ReplicaTypeWorker, 2)},
			},
			want: framework.JobSpec{
				Roles:               []framework.Role{inCluster("worker", 2), inCluster("chief", 0)},
				DefaultRestartScope: scopeJob,
			},
		},
		"a chief leads if no worker exists": {
			spec: v1beta1.TensorFlowTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{
				replicas(v1beta1.ReplicaTypeEvaluator, 1), replicas(v1beta1.ReplicaTypeWorker, 0),
				replicas(v1beta1.ReplicaTypeChief, 1),
			}},
			want: framework.JobSpec{
				Roles:               []framework.Role{inCluster("chief", 1), outside("evaluator", 1), inCluster("worker", 0)},
				DefaultRestartScope: scopeJob,
			},
		},
		"a ps type without replicas does not change the default restart scope": {
			spec: v1beta1.TensorFlowTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{replicas(v1beta1.ReplicaTypeWorker, 2), replicas(v1beta1.ReplicaTypePS, 0)},
			},
			want: framework.JobSpec{
				Roles:               []framework.Role{inCluster("worker", 2), inCluster("ps", 0)},
				DefaultRestartScope: scopeJob,
			},
		},
		"the run policy, the run mode and the scheduler are copied": {
			spec: v1beta1.TensorFlowTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{replicas(v1beta1.ReplicaTypeWorker, 1)}, RunPolicy: runPolicy, RunMode: runMode,
				Scheduler: scheduler,
			},
			want: framework.JobSpec{
				Roles: []framework.Role{inCluster("worker", 1)}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
				DefaultRestartScope: scopeJob,
			},
		},
		"a job that reports its progress runs the first process in its leader": {
			spec: v1beta1.TensorFlowTrainingJobSpec{
				ReplicaSpecs: []v1beta1.ReplicaSpec{{Type: v1beta1.ReplicaTypeWorker, Template: template}},
				Progress:     &batchv1beta1.ProgressSpec{Enabled: true},
			},
			want: framework.JobSpec{
				Roles: []framework.Role{inCluster("worker", 1)}, DefaultRestartScope: scopeJob, ReportsProgress: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &v1beta1.TensorFlowTrainingJob{Spec: tc.spec}
			if diff := cmp.Diff(tc.want, tensorflow{}.JobSpec(job)); diff != "" {
				t.Errorf("unexpected job spec (-want +got):\n%s", diff)
			}
		})
	}
}
