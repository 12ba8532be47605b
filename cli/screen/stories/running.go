package stories

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

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
	s.Job.JobStatus().RestartsInPlace = &batchv1beta1.RestartsInPlace{
		Count: 3, AttemptCount: 2, PodUID: "pod", Last: []batchv1beta1.RestartInPlace{
			{Replica: "segment-worker-3", Rank: new(int32(29)), Signal: "SIGKILL", Time: *before(19 * time.Minute)},
		},
	}
	event(&s, "Warning", "RestartedInPlace", "restarted the processes in place: rank 29 on segment-worker-3 was "+
		"terminated by SIGKILL", 19*time.Minute)
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
