// Package stories has snapshots of jobs in typical situations. Tests draw them, and the pictures of the documents show
// them. The statuses and messages are those that the job controllers write.
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
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// Now is the time at which the stories are drawn.
var Now = time.Date(2026, time.November, 26, 17, 24, 5, 0, time.UTC)

// Story is a job in a typical situation.
type Story struct {
	// Name is the name of the files of the story.
	Name string
	// Snapshot is what is known of the job.
	Snapshot screen.Snapshot
}

// All returns all stories.
func All() []Story {
	return []Story{
		{"new", created()},
		{"image-pull", imagePull()},
		{"queued", queued()},
		{"running", running()},
		{"types", types()},
		{"stalled", stalled()},
		{"restarting", restarting()},
		{"failed", failed()},
		{"succeeded", succeeded()},
		{"paused", paused()},
		{"large", large()},
		{"elastic", elastic()},
		{"ending", ending()},
		{"avoids", avoids()},
		{"disconnected", disconnected()},
		{"deleted", deleted()},
	}
}

// Jobs returns the jobs of a namespace.
func Jobs() screen.Jobs {
	names := []struct {
		name  string
		story screen.Snapshot
	}{
		{"bert-large", running()},
		{"digits", imagePull()},
		{"gpt-13b", large()},
		{"llama-ft", stalled()},
		{"resnet50", failed()},
		{"retry", restarting()},
		{"sweep-7", queued()},
		{"vit-b16", succeeded()},
		{"words", paused()},
	}
	all := screen.Jobs{Namespace: "vision"}
	for _, n := range names {
		n.story.Job.SetName(n.name)
		all.Items = append(all.Items, n.story.Job)
	}
	return all
}

// before returns a time before Now.
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

// condition sets a condition of the job.
func condition(s *screen.Snapshot, conditionType string, status metav1.ConditionStatus, reason, message string,
	since time.Duration,
) {
	s.Job.JobStatus().Conditions = append(s.Job.JobStatus().Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: *before(since),
	})
}

// replicas adds replicas of a type, with a pod for each replica that is not being created. phase returns the phase of
// the replica with an index. Replicas that have started are on nodes of eight.
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

// all returns the same phase for all replicas.
func all(phase batchv1beta1.ReplicaPhase) func(int) batchv1beta1.ReplicaPhase {
	return func(int) batchv1beta1.ReplicaPhase { return phase }
}

// event adds an event. Events are added newest first.
func event(s *screen.Snapshot, eventType, reason, message string, since time.Duration) {
	s.Events = append(s.Events, screen.Event{
		Name: fmt.Sprintf("event-%d", len(s.Events)), Type: eventType, Reason: reason, Message: message,
		Time: before(since).Time,
	})
}

func created() screen.Snapshot {
	s := job("digits", 2, batchv1beta1.JobPhasePending, "")
	s.Job.SetCreationTimestamp(*before(3 * time.Second))
	s.Job.JobStatus().StartTime = nil
	return s
}

func imagePull() screen.Snapshot {
	s := job("digits", 2, batchv1beta1.JobPhasePending, batchv1beta1.ReasonImagePull)
	s.Job.SetCreationTimestamp(*before(13 * time.Minute))
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonImagePull,
		`2 of 2 replicas are not running yet: container pytorch of digits-worker-0 cannot start: ImagePullBackOff: Back-off `+
			`pulling image "registry.example/train:2.7": ErrImagePull: rpc error: code = NotFound desc = failed to pull and `+
			`unpack image "registry.example/train:2.7": not found`, 12*time.Minute+40*time.Second)
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhasePending))
	for name, pod := range s.Pods {
		pod.Reason, pod.Accepted = "ImagePullBackOff", before(12*time.Minute+20*time.Second)
		s.Pods[name] = pod
	}
	event(&s, "Warning", "ImagePull", s.Job.JobStatus().Conditions[0].Message, 12*time.Minute)
	event(&s, "Normal", "Created", "created 2 replicas", 13*time.Minute)
	return s
}

func queued() screen.Snapshot {
	s := job("sweep-7", 4, batchv1beta1.JobPhasePending, schedulerv1beta1.ReasonQuotaExceeded)
	s.Job.SetCreationTimestamp(*before(41 * time.Minute))
	schedule(&s, "lab")
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, schedulerv1beta1.ReasonQuotaExceeded,
		`4 of 4 replicas are not running yet: 0 of 4 pods are on nodes: not enough nvidia.com/gpu left in the quota of `+
			`Queue "lab"`, 40*time.Minute)
	replicas(&s, "worker", 4, all(batchv1beta1.ReplicaPhasePending))
	for i := range s.Job.JobStatus().Tasks[0].Replicas {
		r := &s.Job.JobStatus().Tasks[0].Replicas[i]
		r.Node, r.Containers = "", nil
		s.Pods[r.Name] = screen.Pod{Reason: "SchedulingGated"}
	}
	s.Queue = &screen.Queue{Name: "lab", Place: 2, Waiting: 5, Usage: "nvidia.com/gpu 56 of 64 used"}
	event(&s, "Warning", "QuotaExceeded", s.Job.JobStatus().Conditions[0].Message, 40*time.Minute)
	event(&s, "Normal", "Created", "created 4 replicas", 41*time.Minute)
	return s
}

// schedule makes a job one that a Queue schedules.
func schedule(s *screen.Snapshot, queue string) {
	pytorch(s).Spec.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: queue}}
}

// pytorch returns the PyTorchTrainingJob of a snapshot.
func pytorch(s *screen.Snapshot) *pytorchv1beta1.PyTorchTrainingJob {
	return s.Job.Job.(*pytorchv1beta1.PyTorchTrainingJob) //nolint:forcetypeassert // job makes the snapshot
}

func running() screen.Snapshot {
	s := job("bert-large", 4, batchv1beta1.JobPhaseRunning, batchv1beta1.ReasonReplicasRunning)
	schedule(&s, "lab")
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning,
		"all 4 replicas run or have ended", 2*time.Hour+5*time.Minute)
	replicas(&s, "worker", 4, all(batchv1beta1.ReplicaPhaseRunning))
	reports(&s, 42, 42000, 100000, 20*time.Second)
	s.Job.JobStatus().Progress.EstimatedCompletionTime = before(-2*time.Hour - 53*time.Minute)
	s.TensorBoard = "http://bert-large-tb.vision.svc.cluster.local"
	s.Queue = &screen.Queue{Name: "lab", Admitted: true, Usage: "nvidia.com/gpu 56 of 64 used"}
	event(&s, "Normal", "Running", "all 4 replicas run or have ended", 2*time.Hour+5*time.Minute)
	event(&s, "Normal", "Created", "created 4 replicas", 2*time.Hour+11*time.Minute)
	return s
}

// reports sets the progress that a job reported last.
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

func types() screen.Snapshot {
	j := &tensorflowv1beta1.TensorFlowTrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "ranker", CreationTimestamp: *before(26 * time.Minute)},
		Spec: tensorflowv1beta1.TensorFlowTrainingJobSpec{ReplicaSpecs: []tensorflowv1beta1.ReplicaSpec{
			{Type: "chief", Replicas: new(int32(1)), Template: template("tensorflow", 1)},
			{Type: "worker", Replicas: new(int32(2)), Template: template("tensorflow", 1)},
			{Type: "ps", Replicas: new(int32(2)), Template: template("tensorflow", 0)},
		}},
	}
	s := screen.Snapshot{Job: jobs.Job{Job: j, Kind: jobs.KindOf(j)}, Pods: map[string]screen.Pod{}}
	j.Status.Phase, j.Status.Reason = batchv1beta1.JobPhaseRunning, batchv1beta1.ReasonReplicasRunning
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning,
		"all 5 replicas run or have ended", 25*time.Minute)
	replicas(&s, "chief", 1, all(batchv1beta1.ReplicaPhaseRunning))
	replicas(&s, "worker", 2, func(i int) batchv1beta1.ReplicaPhase {
		return []batchv1beta1.ReplicaPhase{batchv1beta1.ReplicaPhaseSucceeded, batchv1beta1.ReplicaPhaseRunning}[i]
	})
	replicas(&s, "ps", 2, all(batchv1beta1.ReplicaPhaseRunning))
	s.Missing = []string{"events (no permission to list events)"}
	return s
}

func stalled() screen.Snapshot {
	s := running()
	s.Job.SetName("llama-ft")
	s.Job.JobStatus().Tasks, s.Queue, s.TensorBoard = nil, nil, ""
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhaseRunning))
	reports(&s, 42, 42000, 100000, 31*time.Minute)
	condition(&s, batchv1beta1.ConditionStalled, metav1.ConditionTrue, batchv1beta1.ReasonNoProgress,
		"no other step was reported for runPolicy.progressDeadlineSeconds (1200 s) after 42% (42000/100000) at "+
			before(31*time.Minute).UTC().Format(time.RFC3339), 11*time.Minute)
	s.Events = nil
	event(&s, "Warning", "Stalled", "replica llama-ft-worker-0 stalled: no other step was reported for "+
		"runPolicy.progressDeadlineSeconds (1200 s) after 42% (42000/100000)", 11*time.Minute)
	event(&s, "Normal", "Running", "all 2 replicas run or have ended", 2*time.Hour+5*time.Minute)
	event(&s, "Normal", "Created", "created 2 replicas", 2*time.Hour+11*time.Minute)
	return s
}

// failure adds a failure of a worker. Failures are added newest first.
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

func restarting() screen.Snapshot {
	s := job("retry", 2, batchv1beta1.JobPhasePending, batchv1beta1.ReasonRestarting)
	s.Job.JobStatus().BackoffCount, s.Job.JobStatus().Attempt = 2, 2
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonRestarting,
		"2 of 2 replicas are not running yet: retry-worker-0 restarts at 17:24:25 UTC", 18*time.Second)
	condition(&s, batchv1beta1.ConditionReplicaFailure, metav1.ConditionTrue, batchv1beta1.ReasonError,
		"replica retry-worker-1 failed with exit code 1 (Error): rank 8 ended with exit code 1 and is being replaced",
		18*time.Second)
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhaseCreating))
	for i := range s.Job.JobStatus().Tasks[0].Replicas {
		s.Job.JobStatus().Tasks[0].Replicas[i].RestartTime = before(-20 * time.Second)
	}
	failure(&s, 1, outOfMemory, 20*time.Second)
	failure(&s, 1, outOfMemory, 14*time.Minute)
	event(&s, "Warning", "Restarting", "restarting all 2 replicas: replica retry-worker-1 failed with exit code 1 "+
		"(Error): rank 8 ended with exit code 1", 18*time.Second)
	event(&s, "Warning", "Restarting", "restarting all 2 replicas: replica retry-worker-1 failed with exit code 1 "+
		"(Error): rank 8 ended with exit code 1", 14*time.Minute)
	event(&s, "Normal", "Running", "all 2 replicas run or have ended", 2*time.Hour+5*time.Minute)
	return s
}

func failed() screen.Snapshot {
	s := job("resnet50", 2, batchv1beta1.JobPhaseFailed, batchv1beta1.ReasonBackoffLimitExceeded)
	s.Job.JobStatus().BackoffCount, s.Job.JobStatus().Attempt = 3, 3
	s.Job.JobStatus().CompletionTime = before(7 * time.Minute)
	message := "replica resnet50-worker-1 failed with exit code 1 (Error): rank 8 ended with exit code 1 and " +
		"runPolicy.backoffLimit (3) allows no further restart; its last output:\n" + outOfMemory
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinished, message,
		8*time.Minute)
	condition(&s, batchv1beta1.ConditionFailed, metav1.ConditionTrue, batchv1beta1.ReasonBackoffLimitExceeded, message,
		7*time.Minute)
	replicas(&s, "worker", 2, func(i int) batchv1beta1.ReplicaPhase {
		return []batchv1beta1.ReplicaPhase{batchv1beta1.ReplicaPhaseDeleted, batchv1beta1.ReplicaPhaseFailed}[i]
	})
	failure(&s, 1, outOfMemory, 8*time.Minute)
	event(&s, "Warning", "Failed", message, 7*time.Minute)
	return s
}

func succeeded() screen.Snapshot {
	s := job("vit-b16", 2, batchv1beta1.JobPhaseSucceeded, batchv1beta1.ReasonLeaderSucceeded)
	s.Job.JobStatus().CompletionTime = before(4 * time.Minute)
	const message = "leader vit-b16-worker-0 succeeded"
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinished, message,
		5*time.Minute)
	condition(&s, batchv1beta1.ConditionCompleted, metav1.ConditionTrue, batchv1beta1.ReasonLeaderSucceeded, message,
		4*time.Minute)
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhaseSucceeded))
	reports(&s, 100, 90000, 90000, 5*time.Minute)
	event(&s, "Normal", "Completed", message, 4*time.Minute)
	return s
}

func paused() screen.Snapshot {
	s := job("words", 2, batchv1beta1.JobPhasePaused, batchv1beta1.ReasonPaused)
	s.Job.JobStatus().Pauses, s.Job.JobStatus().StartTime = 1, nil
	pytorch(&s).Spec.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonPaused, "the job is paused",
		35*time.Minute)
	condition(&s, batchv1beta1.ConditionPaused, metav1.ConditionTrue, batchv1beta1.ReasonPaused, "the job is paused",
		34*time.Minute)
	replicas(&s, "worker", 2, all(batchv1beta1.ReplicaPhaseDeleted))
	reports(&s, 63, 6300, 10000, 36*time.Minute)
	event(&s, "Normal", "Paused", "the job is paused", 34*time.Minute)
	return s
}

func large() screen.Snapshot {
	j := &deepspeedv1beta1.DeepSpeedJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "gpt-13b", CreationTimestamp: *before(9 * time.Hour)},
		Spec: deepspeedv1beta1.DeepSpeedJobSpec{
			Worker: deepspeedv1beta1.Worker{Replicas: new(int32(200)), Template: template("worker", 8)},
		},
	}
	s := screen.Snapshot{Job: jobs.Job{Job: j, Kind: jobs.KindOf(j)}, Pods: map[string]screen.Pod{}}
	j.Status.Phase, j.Status.Reason = batchv1beta1.JobPhasePending, batchv1beta1.ReasonPending
	j.Status.BackoffCount, j.Status.Attempt = 1, 2
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonPending,
		"9 of 200 replicas are not running yet: gpt-13b-worker-55 is starting", 95*time.Second)
	replicas(&s, "worker", 200, func(i int) batchv1beta1.ReplicaPhase {
		switch {
		case i == 17 || i == 142:
			return batchv1beta1.ReplicaPhaseFailed
		case i > 54 && i < 60 || i == 91:
			return batchv1beta1.ReplicaPhasePending
		case i == 178:
			return batchv1beta1.ReplicaPhaseCreating
		}
		return batchv1beta1.ReplicaPhaseRunning
	})
	for name, pod := range s.Pods {
		pod.Accepted = before(90 * time.Second)
		s.Pods[name] = pod
	}
	reports(&s, 71, 355000, 500000, 2*time.Minute)
	failure(&s, 142, "[rank1136]: torch.distributed.DistBackendError: NCCL error in: "+
		"ProcessGroupNCCL.cpp:2115, remote process exited or there was a network error, NCCL version 2.21.5\n"+
		"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
		95*time.Second)
	event(&s, "Warning", "Restarting", "restarting all 200 replicas: replica gpt-13b-worker-142 failed with exit code 1 "+
		"(Error): rank 1136 ended with exit code 1", 95*time.Second)
	event(&s, "Normal", "Running", "all 200 replicas run or have ended", 7*time.Hour)
	event(&s, "Normal", "Created", "created 200 replicas", 9*time.Hour)
	return s
}

func ending() screen.Snapshot {
	s := succeeded()
	s.Job.SetName("words")
	status := s.Job.JobStatus()
	status.Phase, status.CompletionTime, status.Conditions = batchv1beta1.JobPhaseRunning, nil, nil
	const message = "leader words-worker-0 succeeded"
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionFalse, batchv1beta1.ReasonFinishing,
		"waiting for overdue replica words-worker-1 to end: "+message, 2*time.Minute)
	condition(&s, batchv1beta1.ConditionSuccessCriteriaMet, metav1.ConditionTrue, batchv1beta1.ReasonLeaderSucceeded,
		message, 2*time.Minute)
	status.Tasks, s.Events = nil, nil
	replicas(&s, "worker", 2, func(i int) batchv1beta1.ReplicaPhase {
		return []batchv1beta1.ReplicaPhase{batchv1beta1.ReplicaPhaseSucceeded, batchv1beta1.ReplicaPhaseRunning}[i]
	})
	pod := s.Pods["words-worker-1"]
	pod.Ending = true
	s.Pods["words-worker-1"] = pod
	return s
}

func elastic() screen.Snapshot {
	s := job("segment", 8, batchv1beta1.JobPhaseRunning, batchv1beta1.ReasonPartiallyRunning)
	pytorch(&s).Spec.TorchrunConfig = &pytorchv1beta1.TorchrunConfig{Enabled: true, MaxRestarts: new(int32(3))}
	pytorch(&s).Spec.Elastic = &batchv1beta1.ElasticConfig{
		Enabled: true, MinReplicas: new(int32(2)), MaxReplicas: new(int32(8)), ExpectedReplicas: new(int32(6)),
	}
	condition(&s, batchv1beta1.ConditionRunning, metav1.ConditionTrue, batchv1beta1.ReasonPartiallyRunning,
		"4 of 6 replicas run, and elastic.minReplicas is 2: segment-worker-4 cannot be scheduled: 0/12 nodes are available: "+
			"12 Insufficient nvidia.com/gpu. preemption: 0/12 nodes are available: 12 No preemption victims found for incoming "+
			"pod.", 52*time.Minute)
	replicas(&s, "worker", 6, func(i int) batchv1beta1.ReplicaPhase {
		if i < 4 {
			return batchv1beta1.ReplicaPhaseRunning
		}
		return batchv1beta1.ReplicaPhasePending
	})
	for i := 4; i < 6; i++ {
		r := &s.Job.JobStatus().Tasks[0].Replicas[i]
		r.Node, r.Containers = "", nil
		s.Pods[r.Name] = screen.Pod{Reason: "Unschedulable"}
	}
	reports(&s, 12, 1200, 10000, 9*time.Second)
	s.Job.JobStatus().Progress.EstimatedCompletionTime = before(-6 * time.Hour)
	event(&s, "Normal", "Scaled", "scaled from 4 to 6 replicas", 31*time.Minute)
	return s
}

func avoids() screen.Snapshot {
	s := running()
	s.Queue, s.TensorBoard = nil, ""
	s.Job.JobStatus().Attempt = 2
	s.Job.JobStatus().AvoidedNodes = []batchv1beta1.AvoidedNode{
		{
			Name: "gpu-11", Reason: batchv1beta1.ReasonNodeLost, Since: *before(40 * time.Minute),
			Until: *before(-20 * time.Minute),
		},
		{
			Name: "gpu-09", Reason: batchv1beta1.ReasonDeviceUnhealthy, Since: *before(12 * time.Minute),
			Until: *before(-48 * time.Minute),
		},
	}
	s.Job.JobStatus().Failures = []batchv1beta1.ReplicaFailure{{
		Replica: "bert-large-worker-2", Node: "gpu-09", ExitCode: new(int32(137)),
		Reason: batchv1beta1.ReasonDeviceUnhealthy, Time: *before(12 * time.Minute),
		Devices: []batchv1beta1.UnhealthyDevice{{Resource: "nvidia.com/gpu", ID: "GPU-5f0c"}},
	}}
	s.Events = nil
	event(&s, "Warning", "NodeAvoided", "new pods avoid node gpu-09 until 2026-11-26T18:12:05Z: replicas "+
		"have failed on it twice, the last with reason DeviceUnhealthy", 12*time.Minute)
	return s
}

func disconnected() screen.Snapshot {
	s := running()
	s.Queue, s.TensorBoard = nil, ""
	s.Trouble = "Get \"https://10.0.0.1:6443/...\": dial tcp 10.0.0.1:6443: connect: connection refused"
	return s
}

func deleted() screen.Snapshot {
	s := running()
	s.Queue, s.TensorBoard = nil, ""
	s.Deleted = true
	return s
}
