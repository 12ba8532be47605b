package zebra

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/zebra/api/v1beta1"
)

// training returns a template whose main container has the given environment.
func training(env ...corev1.EnvVar) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "zebra", Env: env}}}}
}

func TestEveryReplicaGetsItsRankAndTheAddressOfTheLeader(t *testing.T) {
	t.Parallel()
	job := &v1beta1.ZebraTrainingJob{Spec: v1beta1.ZebraTrainingJobSpec{ReplicaSpecs: []v1beta1.ReplicaSpec{
		{Type: "worker", Replicas: new(int32(2)), Template: training()},
		{Type: "observer", Template: training(corev1.EnvVar{Name: envRank, Value: "mine"})},
	}}}
	job.Namespace, job.Name, job.UID = "ns", "job", "job-uid"
	const leader = "job-worker-0.job.ns.svc.cluster.local"
	peers := framework.NewPeers(job.Namespace, job.Name, job.UID, "cluster.local", 0, zebra{}.JobSpec(job).Roles)
	got := map[string][]corev1.EnvVar{}
	for _, member := range peers.Members {
		template := member.Role.Template.DeepCopy()
		if err := (zebra{}).Wire(job, peers, member, template); err != nil {
			t.Fatal(err)
		}
		got[peers.FQDN(member)] = template.Spec.Containers[0].Env
	}
	env := func(rank string) []corev1.EnvVar {
		return []corev1.EnvVar{
			{Name: envLeaderAddress, Value: leader}, {Name: envWorldSize, Value: "3"}, {Name: envRank, Value: rank},
		}
	}
	want := map[string][]corev1.EnvVar{
		leader:                                  env("0"),
		"job-worker-1.job.ns.svc.cluster.local": env("1"),
		"job-observer-0.job.ns.svc.cluster.local": env("mine"),
	}
	byName := func(env []corev1.EnvVar) map[string]string {
		values := map[string]string{}
		for _, e := range env {
			values[e.Name] = e.Value
		}
		return values
	}
	for name := range want {
		if diff := cmp.Diff(byName(want[name]), byName(got[name])); diff != "" {
			t.Errorf("unexpected environment of %s (-want +got):\n%s", name, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d peers, want %d", len(got), len(want))
	}
}
