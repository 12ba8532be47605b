package convert

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// tensorFlowRoles are the types of replicas of a TFJob. The old type Master is the same as Chief.
var tensorFlowRoles = []role{
	{"Chief", string(tensorflowv1beta1.ReplicaTypeChief)},
	{"Master", string(tensorflowv1beta1.ReplicaTypeChief)},
	{"Worker", string(tensorflowv1beta1.ReplicaTypeWorker)},
	{"PS", string(tensorflowv1beta1.ReplicaTypePS)},
	{"Evaluator", string(tensorflowv1beta1.ReplicaTypeEvaluator)},
}

// convertTFJob converts a TFJob into a TensorFlowTrainingJob.
func convertTFJob(c *conversion, from kubeflowJob[tfJobSpec], _ Options) ([]result, error) {
	list, err := replicasOf(from.Spec.TFReplicaSpecs, "spec.tfReplicaSpecs", "tensorflow", tensorFlowRoles)
	if err != nil {
		return nil, err
	}
	job := &tensorflowv1beta1.TensorFlowTrainingJob{
		TypeMeta:   typeOf(tensorflowv1beta1.Kind),
		ObjectMeta: c.metadataOf(from.Metadata, from.Status),
	}
	c.move("spec.tfReplicaSpecs", "spec.replicaSpecs")
	restarts := c.setReplicas(list, batchv1beta1.RestartPolicyNever)
	common := c.policiesOf(from.Spec.policySpec, job.Labels, restarts, noLimit)
	job.Spec.RunPolicy, job.Spec.RunMode = common.run, common.mode
	job.Spec.Scheduler, job.Spec.ManagedBy = common.scheduler, common.managedBy
	for _, r := range list {
		c.prioritize(r, common.priorityClass)
		c.remarkOnTemplate(from.Metadata.Name, r)
		job.Spec.ReplicaSpecs = append(job.Spec.ReplicaSpecs, tensorflowv1beta1.ReplicaSpec{
			Type: tensorflowv1beta1.ReplicaType(r.role), Replicas: r.Replicas, Template: r.Template, RestartPolicy: r.policy,
		})
	}
	c.notMappedIfSet("spec.successPolicy", from.Spec.SuccessPolicy, "spec",
		"The job succeeds when its chief does, or worker 0 if there is no chief. Make this replica end last.")
	c.notMappedIfSet("spec.enableDynamicWorker", from.Spec.EnableDynamicWorker, "spec",
		"The number of replicas of a TensorFlowTrainingJob is fixed while it runs.")
	return []result{{c, job}}, nil
}
