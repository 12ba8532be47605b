package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/jobs"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

func TestLogsFollowNewReplicasUpToTheLimit(t *testing.T) {
	t.Parallel()
	workers := pytorchv1beta1.ReplicaSpec{Type: "worker", Replicas: new(int32(3))}
	workers.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
	object := &pytorchv1beta1.PyTorchTrainingJob{}
	object.Name, object.Spec.ReplicaSpecs = "digits", []pytorchv1beta1.ReplicaSpec{workers}
	job := jobs.Job{Kind: jobs.Kinds[0], Job: object}
	started := map[string]bool{"digits-worker-0": true, "digits-worker-7": true}
	o := logOptions{all: true, follow: true, maxStreams: 2}
	next, isLimited := o.notStarted(job, started)
	if next == nil || next.Name != "digits-worker-1" || isLimited {
		t.Errorf("got %v, %t, want digits-worker-1: removed replicas do not count", next, isLimited)
	}
	started["digits-worker-1"] = true
	if next, isLimited = o.notStarted(job, started); next != nil || !isLimited {
		t.Errorf("got %v, %t, want the limit", next, isLimited)
	}
}
