// Package zebra adapts a training framework to the job controller. It sets the environment variables by
// which the replicas of a ZebraTrainingJob find each other.
package zebra

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/zebra/api/v1beta1"
)

// Environment variables of the main container.
const (
	envLeaderAddress = "LEADER_ADDRESS"
	envWorldSize     = "WORLD_SIZE"
	envRank          = "RANK"
)

// Controller describes the zebra-controller.
func Controller() framework.Controller[*v1beta1.ZebraTrainingJob] {
	return framework.Controller[*v1beta1.ZebraTrainingJob]{
		Name:        "zebra-controller",
		AddToScheme: v1beta1.AddToScheme,
		Framework:   zebra{},
	}
}

type zebra struct{}

var _ framework.Framework[*v1beta1.ZebraTrainingJob] = zebra{}

func (zebra) NewJob() *v1beta1.ZebraTrainingJob { return &v1beta1.ZebraTrainingJob{} }

func (zebra) MainContainers() []string { return []string{"zebra"} }

func (zebra) JobSpec(job *v1beta1.ZebraTrainingJob) framework.JobSpec {
	spec := framework.JobSpec{
		RunPolicy:           job.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             job.Spec.RunMode,
		Scheduler:           job.Spec.Scheduler,
		ManagedBy:           ptr.Deref(job.Spec.ManagedBy, ""),
		ReportsProgress:     job.Spec.Progress.Reports(),
	}
	for i := range job.Spec.ReplicaSpecs {
		r := &job.Spec.ReplicaSpecs[i]
		spec.Roles = append(spec.Roles, framework.Role{
			Type:          r.Type,
			Replicas:      ptr.Deref(r.Replicas, 1),
			RestartPolicy: r.RestartPolicy,
			Template:      &r.Template,
		})
	}
	return spec
}

func (f zebra) Wire(
	_ *v1beta1.ZebraTrainingJob, peers framework.Peers, member framework.Member, template *corev1.PodTemplateSpec,
) error {
	main := framework.MainContainer(f.MainContainers(), template.Spec.Containers)
	main.Env = framework.WithDefaults(main.Env, []corev1.EnvVar{
		{Name: envLeaderAddress, Value: peers.FQDN(peers.Leader())},
		{Name: envWorldSize, Value: strconv.Itoa(len(peers.Members))},
		{Name: envRank, Value: strconv.Itoa(int(member.Rank))},
	})
	return nil
}
