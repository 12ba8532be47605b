package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/kit/model"
)

// rest returns the violations in a state at rest. A state is at rest if nothing happens by itself.
func (x *exploration) rest(m *machine, s *state) []string {
	var wrong []string
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)+": "+s.String()) }
	live := s.live.Objects
	job := live.Job()
	if job == nil {
		// Only an administrator can remove a pod of a deleted job from a lost node.
		isLeft := func(o client.Object) bool { return !model.IsHeldByLostNode(o) && !isQuota(o) }
		if slices.ContainsFunc(slices.Collect(maps.Values(live)), isLeft) {
			fail("the job is gone, but it left objects behind")
		}
		return wrong
	}
	for _, why := range s.checkHeld(m.Kind) {
		fail("%s", why)
	}
	spec, status := m.Kind.SpecOf(job), *job.JobStatus()
	current := map[string]*corev1.Pod{}
	for _, pod := range live.Pods() {
		if model.IsRelabelled(pod) && (status.Finished() || spec.RunMode.Pausing()) {
			continue
		}
		current[pod.Name] = pod
		if !status.Decided() && model.AttemptLabel(pod) != model.AttemptOf(status, pod.Name) {
			fail("pod %s of an earlier attempt still exists", pod.Name)
		}
	}
	runs := slices.ContainsFunc(live.Pods(), func(pod *corev1.Pod) bool { return !policy.Ended(pod) })
	isLeft := func(s *corev1.Secret) bool { return !model.IsLate(s) }
	if status.Finished() && !runs && slices.ContainsFunc(model.ListOf[*corev1.Secret](live), isLeft) {
		fail("the job has finished and no pod runs, but its Secret still exists")
	}
	if status.Decided() != status.Finished() {
		fail("the end of the job is decided, but the job does not finish")
	}
	wantsGroup := spec.Scheduler != nil && !status.Finished() && !spec.RunMode.Pausing()
	if hasGroup := live.PodGroup() != nil; hasGroup != wantsGroup {
		fail("the job has a PodGroup: %t, want %t", hasGroup, wantsGroup)
	}
	for _, why := range s.checkQuota(spec) {
		fail("%s", why)
	}
	for _, why := range model.CheckWorkload(live, job, spec.RunMode.Pausing()) {
		fail("%s", why)
	}
	failed, queued := 0, false
	for _, task := range status.Tasks {
		for i, r := range task.Replicas {
			pod := current[r.Name]
			// Kueue can admit fewer replicas of an elastic job than it requests. The leader is always admitted.
			isBeyond := x.shape.Kueue && i > 0 && len(current) >= int(live.AdmittedReplicas())
			switch ended := r.Phase == batchv1beta1.ReplicaPhaseSucceeded || r.Phase == batchv1beta1.ReplicaPhaseFailed; {
			case status.Finished(), status.Phase == batchv1beta1.JobPhasePaused:
				if pod == nil && !ended && r.Phase != batchv1beta1.ReplicaPhaseDeleted && status.RunningTime != nil {
					fail("replica %s is %s according to the status, but it has no pod", r.Name, r.Phase)
				}
			case ended:
				if r.Phase == batchv1beta1.ReplicaPhaseFailed {
					failed++
				}
			case pod == nil && (s.closed || isBeyond || waitsForQuota(s)):
				queued = true
			case r.Phase != batchv1beta1.ReplicaPhaseRunning:
				fail("replica %s is %s, want Running", r.Name, r.Phase)
			case pod == nil || pod.UID != r.UID || !kubelet.IsTraining(pod):
				fail("replica %s runs in pod %s according to the status, but that pod does not run", r.Name, r.UID)
			}
		}
	}
	replicas := 0
	for _, task := range status.Tasks {
		replicas += len(task.Replicas)
	}
	over := policy.After(status.StartTime, spec.RunPolicy.ActiveDeadlineSeconds)
	if !over.IsZero() && s.now.After(over) && !status.Finished() && !spec.RunMode.Pausing() {
		fail("the deadline of the job has passed, but the job has not finished")
	}
	switch {
	case status.Finished():
		for _, pod := range current {
			if cleans := spec.RunPolicy.CleanUpPolicy; cleans != batchv1beta1.CleanUpPolicyNone && !policy.Ended(pod) {
				fail("the job has finished, but pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
	case spec.RunMode.Pausing():
		if status.Phase != batchv1beta1.JobPhasePaused || len(current) > 0 {
			fail("the job must be Paused without pods")
		}
	case queued:
		// An elastic job can run with the replicas that it has. Then the message of the condition Running gives the reason
		// why others are missing.
		running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning)
		isReported := status.Reason == schedulerv1beta1.ReasonQueueClosed || spec.Elastic != nil &&
			status.Reason == batchv1beta1.ReasonPartiallyRunning && strings.Contains(running.Message, model.QueueClosedMessage)
		isReported = isReported || waitsForQuota(s)
		// The message of Kueue in the status can be some minutes old, so this check does not compare it.
		if live.Workload() != nil {
			isReported = status.Reason == batchv1beta1.ReasonQueued || spec.Elastic != nil &&
				status.Reason == batchv1beta1.ReasonPartiallyRunning && strings.Contains(running.Message, "Kueue has admitted")
		}
		if !isReported {
			fail("the job does not report that its queue is closed")
		}
	case spec.Elastic != nil && replicas-failed < int(spec.Elastic.Least()):
		if status.Reason != batchv1beta1.ReasonTooFewReplicas {
			fail("the job has too few replicas, but its reason is not %s", batchv1beta1.ReasonTooFewReplicas)
		}
	default:
		if status.Phase != batchv1beta1.JobPhaseRunning || !model.IsTrue(status, batchv1beta1.ConditionRunning) {
			fail("the job must be Running")
		}
		if replicas != model.CountReplicas(spec) {
			fail("the job has %d replicas, want %d", replicas, model.CountReplicas(spec))
		}
		if model.IsTrue(status, batchv1beta1.ConditionReplicaFailure) != (failed > 0) {
			fail("%d replicas stay failed, but the condition ReplicaFailure is %t",
				failed, model.IsTrue(status, batchv1beta1.ConditionReplicaFailure))
		}
	}
	if len(live.Of(model.Services)) == 0 && !status.Finished() && status.StartTime != nil {
		fail("the job has no Service")
	}
	for _, why := range model.CheckProgress(m.Kind, live, s.live.Trainings, s.now) {
		fail("%s", why)
	}
	for _, why := range model.CheckRestartsInPlace(m.Kind, live, s.live.Trainings, s.inPlace) {
		fail("%s", why)
	}
	for _, why := range model.CheckNodes(m.Kind, live) {
		fail("%s", why)
	}
	counted := s.counted + s.Stalls
	// The controller may have missed a failure if the deadline passed first.
	isOverdue := status.Reason == batchv1beta1.ReasonDeadlineExceeded
	restarts := x.shape.RestartPolicy == model.OnFailure || x.shape.RestartPolicy == model.Always // after every failure
	if restarts && !isOverdue && !s.unclear && status.Phase != batchv1beta1.JobPhaseSucceeded {
		limit := batchv1beta1.DefaultBackoffLimit
		if l := spec.RunPolicy.BackoffLimit; l != nil {
			limit = *l
		}
		if counted > int(limit) && status.Phase != batchv1beta1.JobPhaseFailed && failed == 0 {
			fail("%d failures exceed backoffLimit %d, but the job has not failed", counted, limit)
		}
		if int(status.BackoffCount) != min(counted, int(limit)) {
			fail("backoffCount is %d, but %d failures must count", status.BackoffCount, counted)
		}
	}
	if int(status.BackoffCount) > counted {
		fail("backoffCount is %d, but at most %d failures can count", status.BackoffCount, counted)
	}
	return append(wrong, x.staysAtRest(m, s)...)
}

// staysAtRest reconciles a job at rest a long time later, once in the same process of the controller and once in a
// new one. It returns a violation for each reconcile that writes, requeues the job, or violates a law.
func (x *exploration) staysAtRest(m *machine, s *state) []string {
	var wrong []string
	for _, begin := range []func(*machine){func(*machine) {}, func(m *machine) { m.startAgain(nil, 0) }} {
		m.writes = 0
		next, laws := m.successor(s, action{do: func(m *machine) {
			m.state.now = m.state.now.Add(horizon)
			m.Clock.SetTime(m.state.now)
			begin(m)
			m.state.Dirty = false
			m.goOn(nil, 1<<30)
		}})
		isRequeued := !next.RequeueAt.IsZero() && !isPolled(m, s) && !waitsForQuota(s)
		if m.writes > 0 || next.Dirty || isRequeued || len(laws) > 0 {
			wrong = append(wrong, fmt.Sprintf("the job is at rest, but a reconcile makes %d writes or requeues the job: "+
				"first %s, then %s", m.writes, s, next))
		}
	}
	return wrong
}
