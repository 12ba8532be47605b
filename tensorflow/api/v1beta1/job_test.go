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
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "tensorflow"}}}}
	replicas := func(roleType ReplicaType, n int32) ReplicaSpec {
		return ReplicaSpec{Type: roleType, Replicas: &n, Template: template}
	}
	// inCluster is a role that the others reach, outside one that they do not.
	inCluster := func(roleType string, n int32) batchv1beta1.Role {
		return batchv1beta1.Role{Type: roleType, Replicas: n, Awaited: true, Template: &template}
	}
	outside := func(roleType string, n int32) batchv1beta1.Role {
		return batchv1beta1.Role{Type: roleType, Replicas: n, Template: &template}
	}
	runPolicy := batchv1beta1.RunPolicy{BackoffLimit: ptr.To[int32](7), RestartScope: batchv1beta1.RestartScopeReplica}
	runMode := &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	scheduler := &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: "q"}}
	const (
		scopeJob     = batchv1beta1.RestartScopeJob
		scopeReplica = batchv1beta1.RestartScopeReplica
	)
	for name, tc := range map[string]struct {
		spec TensorFlowTrainingJobSpec
		want batchv1beta1.JobSpec
	}{
		"one replica unless told otherwise": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{{Type: ReplicaTypeWorker, Template: template}}},
			want: batchv1beta1.JobSpec{Roles: []batchv1beta1.Role{inCluster("worker", 1)}, DefaultRestartScope: scopeJob},
		},
		"every field of a role": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{{
				Type: ReplicaTypeWorker, Replicas: ptr.To[int32](4), RestartPolicy: batchv1beta1.RestartPolicyExitCode, Template: template,
			}}},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{{
					Type: "worker", Replicas: 4, RestartPolicy: batchv1beta1.RestartPolicyExitCode, Awaited: true, Template: &template,
				}},
				DefaultRestartScope: scopeJob,
			},
		},
		"the chief leads, then the workers, then the others as they stand; nobody waits for evaluators": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{
				replicas(ReplicaTypeEvaluator, 2), replicas(ReplicaTypePS, 1), replicas(ReplicaTypeWorker, 3), replicas(ReplicaTypeChief, 1),
			}},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{
					inCluster("chief", 1), inCluster("worker", 3), outside("evaluator", 2), inCluster("ps", 1),
				},
				DefaultRestartScope: scopeReplica,
			},
		},
		"without a chief the workers lead, even if parameter servers stand first": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{replicas(ReplicaTypePS, 2), replicas(ReplicaTypeWorker, 2)}},
			want: batchv1beta1.JobSpec{
				Roles:               []batchv1beta1.Role{inCluster("worker", 2), inCluster("ps", 2)},
				DefaultRestartScope: scopeReplica,
			},
		},
		"a chief without a replica leads nobody": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{replicas(ReplicaTypeChief, 0), replicas(ReplicaTypeWorker, 2)}},
			want: batchv1beta1.JobSpec{
				Roles:               []batchv1beta1.Role{inCluster("worker", 2), inCluster("chief", 0)},
				DefaultRestartScope: scopeJob,
			},
		},
		"a chief leads where there is no worker": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{
				replicas(ReplicaTypeEvaluator, 1), replicas(ReplicaTypeWorker, 0), replicas(ReplicaTypeChief, 1),
			}},
			want: batchv1beta1.JobSpec{
				Roles:               []batchv1beta1.Role{inCluster("chief", 1), outside("evaluator", 1), inCluster("worker", 0)},
				DefaultRestartScope: scopeJob,
			},
		},
		"parameter servers of which there are none leave a collective": {
			spec: TensorFlowTrainingJobSpec{ReplicaSpecs: []ReplicaSpec{replicas(ReplicaTypeWorker, 2), replicas(ReplicaTypePS, 0)}},
			want: batchv1beta1.JobSpec{
				Roles:               []batchv1beta1.Role{inCluster("worker", 2), inCluster("ps", 0)},
				DefaultRestartScope: scopeJob,
			},
		},
		"policies are passed on": {
			spec: TensorFlowTrainingJobSpec{
				ReplicaSpecs: []ReplicaSpec{replicas(ReplicaTypeWorker, 1)}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
			},
			want: batchv1beta1.JobSpec{
				Roles: []batchv1beta1.Role{inCluster("worker", 1)}, RunPolicy: runPolicy, RunMode: runMode, Scheduler: scheduler,
				DefaultRestartScope: scopeJob,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &TensorFlowTrainingJob{Spec: tc.spec}
			if diff := cmp.Diff(tc.want, job.JobSpec()); diff != "" {
				t.Errorf("unexpected view of the spec (-want +got):\n%s", diff)
			}
		})
	}
}

// The engine writes the status through the view.
func TestJobStatusIsTheJobsOwn(t *testing.T) {
	t.Parallel()
	job := &TensorFlowTrainingJob{}
	job.JobStatus().Phase = batchv1beta1.JobPhaseRunning
	if job.Status.Phase != batchv1beta1.JobPhaseRunning {
		t.Errorf("the phase is %q, want Running", job.Status.Phase)
	}
}
