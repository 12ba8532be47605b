package tensorflow

import (
	"time"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

func (tensorflow) JobSpec(job *v1beta1.TensorFlowTrainingJob) framework.JobSpec {
	spec := framework.JobSpec{
		RunPolicy:           job.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             job.Spec.RunMode,
		Scheduler:           job.Spec.Scheduler,
		ManagedBy:           ptr.Deref(job.Spec.ManagedBy, ""),
		ReportsProgress:     job.Spec.Progress.Reports(),
	}
	roles := make([]framework.Role, 0, len(job.Spec.ReplicaSpecs))
	for i := range job.Spec.ReplicaSpecs {
		r := &job.Spec.ReplicaSpecs[i]
		role := framework.Role{
			Type:          string(r.Type),
			Replicas:      ptr.Deref(r.Replicas, 1),
			RestartPolicy: r.RestartPolicy,
			Template:      &r.Template,
			Awaited:       inCluster(r.Type),
			Serves:        r.Type == v1beta1.ReplicaTypePS,
			PeerGrace:     peerGrace[r.Type],
		}
		if r.Type == v1beta1.ReplicaTypePS && role.Replicas > 0 {
			// Parameter servers keep the shared state when a worker fails, so the other workers can continue.
			spec.DefaultRestartScope = batchv1beta1.RestartScopeReplica
		}
		roles = append(roles, role)
	}
	roles = framework.LeaderFirst(string(v1beta1.ReplicaTypeWorker), roles)
	spec.Roles = framework.LeaderFirst(string(v1beta1.ReplicaTypeChief), roles)
	return spec
}

// peerGrace is how long replicas of a type can continue by default after the leader has succeeded. In this time, an
// evaluator evaluates the last checkpoint.
var peerGrace = map[v1beta1.ReplicaType]time.Duration{v1beta1.ReplicaTypeEvaluator: 10 * time.Minute}

// inCluster reports whether the replicas of the type are in the cluster map of TF_CONFIG, which other replicas use to
// reach them.
func inCluster(t v1beta1.ReplicaType) bool { return t != v1beta1.ReplicaTypeEvaluator }
