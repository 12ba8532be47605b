package stories

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

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
