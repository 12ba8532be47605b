package stories

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// before returns the time that was the given duration before Now.
func before(d time.Duration) *metav1.Time { return new(metav1.NewTime(Now.Add(-d))) }

// job returns a snapshot of a PyTorchTrainingJob with replicas of one type.
func job(name string, replicas int32, phase batchv1beta1.JobPhase, reason string) screen.Snapshot {
	j := &pytorchv1beta1.PyTorchTrainingJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "vision", Name: name, UID: "1", CreationTimestamp: *before(2*time.Hour + 12*time.Minute),
		},
		Spec: pytorchv1beta1.PyTorchTrainingJobSpec{
			ReplicaSpecs: []pytorchv1beta1.ReplicaSpec{{Type: "worker", Replicas: &replicas, Template: template("pytorch", 8)}},
			RunPolicy:    batchv1beta1.RunPolicy{BackoffLimit: new(int32(3))},
		},
	}
	j.Status.Phase, j.Status.Reason, j.Status.StartTime = phase, reason, before(2*time.Hour+11*time.Minute)
	return screen.Snapshot{Job: jobs.Job{Job: j, Kind: jobs.KindOf(j)}, Pods: map[string]screen.Pod{}}
}

// template returns a template with a main container and a number of GPUs.
func template(container string, gpus int64) corev1.PodTemplateSpec {
	c := corev1.Container{Name: container, Image: "registry.example/train:1"}
	if gpus > 0 {
		c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

// pytorch returns the PyTorchTrainingJob of a snapshot.
func pytorch(s *screen.Snapshot) *pytorchv1beta1.PyTorchTrainingJob {
	return s.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob) //nolint:forcetypeassert // job makes the snapshot
}

// schedule puts the job into a Queue.
func schedule(s *screen.Snapshot, queue string) {
	pytorch(s).Spec.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: queue}}
}

// condition adds a condition to the status of the job.
func condition(s *screen.Snapshot, conditionType string, status metav1.ConditionStatus, reason, message string,
	since time.Duration,
) {
	s.Job.JobStatus().Conditions = append(s.Job.JobStatus().Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: *before(since),
	})
}

// replicas adds n replicas of a type. The function phase returns the phase of the replica with the given index. Each
// replica has a pod on a node of its own, unless its phase is Creating or Deleted.
func replicas(s *screen.Snapshot, replicaType string, n int, phase func(index int) batchv1beta1.ReplicaPhase) {
	task := batchv1beta1.TaskStatus{Type: replicaType}
	for i := range n {
		r := batchv1beta1.ReplicaStatus{Name: fmt.Sprintf("%s-%s-%d", s.Job.GetName(), replicaType, i), Phase: phase(i)}
		container := batchv1beta1.ContainerStatus{Name: s.Job.Kind.MainContainers[0], State: batchv1beta1.ContainerRunning}
		switch r.Phase {
		case batchv1beta1.ReplicaPhaseCreating, batchv1beta1.ReplicaPhaseDeleted:
			task.Replicas = append(task.Replicas, r)
			continue
		case batchv1beta1.ReplicaPhasePending:
			container.State, container.Reason = batchv1beta1.ContainerWaiting, "ContainerCreating"
		case batchv1beta1.ReplicaPhaseSucceeded:
			container.State, container.ExitCode = batchv1beta1.ContainerTerminated, new(int32)
			container.Reason = batchv1beta1.ReasonCompleted
		case batchv1beta1.ReplicaPhaseFailed:
			container.State, container.ExitCode = batchv1beta1.ContainerTerminated, new(int32(1))
			container.Reason = batchv1beta1.ReasonError
		default: // the container runs
		}
		r.Node, r.UID = fmt.Sprintf("gpu-%02d", i+1), "pod"
		r.Containers = []batchv1beta1.ContainerStatus{container}
		task.Replicas = append(task.Replicas, r)
		s.Pods[r.Name] = screen.Pod{Node: r.Node, Accepted: before(2 * time.Hour)}
	}
	s.Job.JobStatus().Tasks = append(s.Job.JobStatus().Tasks, task)
	ready := len(slices.DeleteFunc(slices.Clone(task.Replicas), func(r batchv1beta1.ReplicaStatus) bool {
		return r.Phase != batchv1beta1.ReplicaPhaseRunning && r.Phase != batchv1beta1.ReplicaPhaseSucceeded
	}))
	s.Job.JobStatus().Ready = fmt.Sprintf("%d/%d", ready, n)
}

// all returns a function that returns the same phase for each index.
func all(phase batchv1beta1.ReplicaPhase) func(int) batchv1beta1.ReplicaPhase {
	return func(int) batchv1beta1.ReplicaPhase { return phase }
}

// reports adds progress to the status of a job, as the training reported it last.
func reports(s *screen.Snapshot, percent int32, step, steps int64, since time.Duration) {
	s.Job.JobStatus().Progress = &batchv1beta1.ProgressStatus{
		Summary: fmt.Sprintf("%d%% (%d/%d)", percent, step, steps), Percent: &percent, Step: &step, TotalSteps: &steps,
		Metrics: []batchv1beta1.ProgressMetric{
			{Name: "epoch", Value: "1.26"},
			{Name: "grad_norm", Value: "0.8123"},
			{Name: "learning_rate", Value: "2.9e-05"},
			{Name: "loss", Value: "1.8342"},
		},
		LastReportTime: before(since), Replica: s.Job.GetName() + "-worker-0",
	}
}

// failure adds a failure of a worker. The caller must add the newest failure first.
func failure(s *screen.Snapshot, worker int32, message string, since time.Duration) {
	s.Job.JobStatus().Failures = append(s.Job.JobStatus().Failures, batchv1beta1.ReplicaFailure{
		Replica: fmt.Sprintf("%s-worker-%d", s.Job.GetName(), worker), Node: fmt.Sprintf("gpu-%02d", worker+1),
		ExitCode: new(int32(1)), Rank: new(worker * 8), RankExitCode: new(int32(1)), Reason: batchv1beta1.ReasonError,
		Counted: true, Time: *before(since), Message: message,
	})
}

const outOfMemory = `Traceback (most recent call last):
  File "/code/train.py", line 88, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 3 has a total capacity of 79.15 GiB`

// event adds an event. The caller must add the newest event first.
func event(s *screen.Snapshot, eventType, reason, message string, since time.Duration) {
	s.Events = append(s.Events, screen.Event{
		Name: fmt.Sprintf("event-%d", len(s.Events)), Type: eventType, Reason: reason, Message: message,
		Time: before(since).Time,
	})
}
