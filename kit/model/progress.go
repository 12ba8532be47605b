package model

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/progress"
)

// Training is the training of a pod that can report its progress, as its sidecar knows it.
//
// A training that makes progress reports another step all the time. The model does not show these steps, since the
// status would then never stay the same. It shows only the reports that are events of their own.
type Training struct {
	// Step is the last reported step. 0 means that nothing was reported.
	Step int64
	// Reported is the time of the last report that is an event of its own.
	Reported time.Time
	// Stopped is when the training stopped making progress. Zero means that it makes progress, or has reported nothing.
	Stopped time.Time
	// SilentUntil is the end of the silence that the training announced. Zero means none.
	SilentUntil time.Time
	// Started is when the processes of the training started again. Zero means that they have not since the last step.
	Started time.Time
	// Done reports whether the training has reported 100 percent.
	Done bool
	// Unreadable is since when the sidecar cannot be read. Zero means that it can be read. Until it can be read again,
	// nothing happens to the training.
	Unreadable time.Time
	// Forgotten is set if the sidecar cannot be read and the controller has restarted since the last reading.
	Forgotten bool
}

// Trainings are the trainings of pods by UID. Trainings never change: a copy replaces them.
type Trainings map[types.UID]Training

// stateAt returns the state of the sidecar at a time.
func (t Training) stateAt(now time.Time) progress.State {
	if t.Step == 0 {
		return progress.State{}
	}
	state := progress.State{
		Reports: t.Step, Step: new(t.Step), SinceReport: now.Sub(t.Reported),
		AnnouncedSilence: max(0, t.SilentUntil.Sub(now)),
	}
	if !t.Started.IsZero() {
		state.SinceStart = new(now.Sub(t.Started))
	}
	if t.Done {
		state.Percent = new(int32(100))
	}
	if !t.Stopped.IsZero() {
		state.SinceProgress = now.Sub(t.Stopped)
	}
	return state
}

// errUnreadable is the error of reading a sidecar that cannot be read.
var errUnreadable = errors.New("the sidecar cannot be read")

// reading returns the last reading of the sidecar at a time.
func (t Training) reading(pod types.UID, now time.Time) progress.Reading {
	switch {
	case t.Forgotten:
		return progress.Reading{UID: pod, Err: errUnreadable}
	case !t.Unreadable.IsZero():
		return progress.Reading{UID: pod, Time: t.Unreadable, State: t.stateAt(t.Unreadable), Err: errUnreadable}
	default:
		return progress.Reading{UID: pod, Time: now, State: t.stateAt(now)}
	}
}

// canReport reports whether the training of a pod can report its progress.
func canReport(pod *corev1.Pod) bool {
	return pod.Annotations[batchv1beta1.AnnotationProgressToken] != ""
}

// follow starts and ends the training of a pod whose status changes. The training of the leader reports its first step
// when its containers start. The other trainings report nothing. When the sidecar ends, its last state is the message
// of its container.
func (c *Cluster) follow(pod *corev1.Pod) {
	if !canReport(pod) {
		return
	}
	training, isTraining := c.trainings[pod.UID]
	if pod.Status.Phase == corev1.PodRunning && !isTraining {
		pod.Status.PodIP = "10.0.0.1" + pod.Labels[batchv1beta1.LabelReplicaIndex]
		if pod.Labels[batchv1beta1.LabelReplicaIndex] == "0" {
			training = Training{Step: 1, Reported: c.clock.Now()}
		}
		c.train(pod.UID, training)
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if s.Name != framework.ProgressContainer || s.State.Terminated == nil || !isTraining {
			continue
		}
		message, err := json.Marshal(training.stateAt(c.clock.Now()))
		if err != nil {
			panic(err) // a State always encodes
		}
		s.State.Terminated.Message = string(message)
		c.endTraining(pod.UID)
	}
}

func (c *Cluster) train(pod types.UID, training Training) {
	c.trainings = maps.Clone(c.trainings)
	if c.trainings == nil {
		c.trainings = Trainings{}
	}
	c.trainings[pod] = training
}

func (c *Cluster) endTraining(pod types.UID) {
	if _, ok := c.trainings[pod]; ok {
		c.trainings = maps.Clone(c.trainings)
		delete(c.trainings, pod)
	}
}

// Training returns the training of a pod, or nil if there is none.
func (t Trainings) Training(pod *corev1.Pod) *Training {
	if training, ok := t[pod.UID]; ok {
		return &training
	}
	return nil
}

// Trainings returns the trainings of the pods that run.
func (c *Cluster) Trainings() Trainings { return c.trainings }

// ForgetReadings makes the controller forget its readings of sidecars, as the end of its process does.
func (t Trainings) ForgetReadings() Trainings {
	forgotten := maps.Clone(t)
	for pod, training := range forgotten {
		training.Forgotten = !training.Unreadable.IsZero()
		forgotten[pod] = training
	}
	return forgotten
}

// ForgetReadings makes the controller forget its readings of sidecars, as the end of its process does.
func (c *Cluster) ForgetReadings() { c.trainings = c.trainings.ForgetReadings() }

// trains returns a mishap that changes the training of a pod. It changes no object.
func trains(how func(*Training, time.Time)) Mishap {
	return func(c *Cluster, pod *corev1.Pod) error {
		training, ok := c.trainings[pod.UID]
		if ok {
			how(&training, c.clock.Now())
			c.train(pod.UID, training)
		}
		return nil
	}
}

// Events of the training of a pod that can report its progress.
var (
	// Reports makes the training report another step.
	Reports = trains(func(t *Training, now time.Time) {
		*t = Training{Step: t.Step + 1, Reported: now}
	})
	// Hangs makes the training stop making progress. Its containers still run.
	Hangs = trains(func(t *Training, now time.Time) { t.Stopped = now })
	// StartsAgain makes the processes of the training start again in the pod.
	StartsAgain = trains(func(t *Training, now time.Time) {
		t.Started = now
		if t.Stopped.IsZero() {
			t.Stopped = now
		}
	})
	// RunsAndHangs binds the pod to a node and starts its containers, but its training reports nothing.
	RunsAndHangs = Runs.then(trains(func(t *Training, _ time.Time) { *t = Training{} }))
	// Completes makes the training report 100 percent.
	Completes = trains(func(t *Training, now time.Time) {
		*t = Training{Step: t.Step + 1, Reported: now, Stopped: now, Done: true}
	})
	// IsUnreadable makes the sidecar of the training unreadable.
	IsUnreadable = trains(func(t *Training, now time.Time) { t.Unreadable = now })
	// IsReadable makes the sidecar of the training readable again.
	IsReadable = trains(func(t *Training, _ time.Time) { t.Unreadable, t.Forgotten = time.Time{}, false })
)

// Announces makes the training announce that it reports no step for a while.
func Announces(silence time.Duration) Mishap {
	return trains(func(t *Training, now time.Time) {
		t.Reported, t.Stopped, t.SilentUntil = now, now, now.Add(silence)
	})
}

// SidecarServer answers a read of the sidecars of pods. It decides which state the read sees.
type SidecarServer interface {
	ReadSidecars(call Call, from func(Snapshot, time.Time) Answer) Answer
}

// NewProgress returns the part of a controller that reads the sidecars of pods.
func NewProgress(server SidecarServer) controller.Progress { return sidecars{server} }

type sidecars struct{ server SidecarServer }

// Follow implements controller.Progress. It reads each sidecar immediately.
func (s sidecars) Follow(_ types.NamespacedName, pods []progress.Pod) []progress.Reading {
	if len(pods) == 0 {
		return nil
	}
	var uids []string
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
	}
	slices.Sort(uids)
	call := Call{Verb: "read the progress of", Key: strings.Join(uids, " ")}
	return s.server.ReadSidecars(call, func(from Snapshot, now time.Time) Answer {
		return Answer{Readings: from.readings(pods, now)}
	}).Readings
}

// Forget implements controller.Progress.
func (sidecars) Forget(types.NamespacedName) {}

// readings returns the readings of the sidecars of pods, by UID. A sidecar answers only with its token and address.
func (s Snapshot) readings(pods []progress.Pod, now time.Time) []progress.Reading {
	var readings []progress.Reading
	for _, live := range ListOf[*corev1.Pod](s.Objects) {
		address := live.Status.PodIP + ":" + live.Annotations[batchv1beta1.AnnotationProgressPort]
		target := progress.Target{Address: address, Token: live.Annotations[batchv1beta1.AnnotationProgressToken]}
		training := s.Trainings.Training(live)
		if training == nil || !slices.Contains(pods, progress.Pod{UID: live.UID, Target: target}) {
			continue
		}
		readings = append(readings, training.reading(live.UID, now))
	}
	return readings
}

// Stall is whether the training of a job is stalled.
type Stall struct {
	// Pod is the name of the pod whose training made progress last, or that was to report first. Empty means that no pod
	// can report.
	Pod string
	// WhyNot is why the training is not stalled. Empty means that it is stalled.
	WhyNot string
	// IsKnown reports whether the controller can know whether the training is stalled.
	IsKnown bool
}

// StallOf returns whether the training of a job is stalled at a time. The status is the one before the controller
// reacts.
func StallOf(k Kind, o Objects, trainings Trainings, status batchv1beta1.JobStatus, now time.Time) Stall {
	job := o.Job()
	spec := k.SpecOf(job)
	running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning)
	if running == nil || !IsTrue(status, batchv1beta1.ConditionRunning) || status.Decided() {
		return Stall{WhyNot: "the job does not run"}
	}
	if spec.RunMode.Pausing() {
		return Stall{WhyNot: "the job must pause"}
	}
	workload, isForKueue := o.Workload(), job.GetLabels()[kueuev1beta2.LabelQueueName] != ""
	if isForKueue && (workload == nil || !isAdmitted(workload)) {
		return Stall{WhyNot: "the admission of the job is withdrawn"}
	}
	var last *Training
	var name string
	for _, pod := range o.Pods() {
		training := trainings.Training(pod)
		if AttemptLabel(pod) != AttemptOf(status, pod.Name) || IsRelabelled(pod) {
			continue
		}
		if endsAttempt(pod) && !isSpared(spec, status, pod.Name) {
			return Stall{WhyNot: "pod " + pod.Name + " has failed or is being deleted"}
		}
		if training == nil {
			continue
		}
		if last == nil || training.progress(now).After(last.progress(now)) {
			last, name = training, pod.Name
		}
	}
	if last == nil {
		return Stall{WhyNot: "no pod can report"}
	}
	if !last.Unreadable.IsZero() {
		now = last.Unreadable
	}
	since := running.LastTransitionTime.Time
	stall := Stall{Pod: name, IsKnown: !last.Forgotten}
	seconds := func(n *int64) time.Duration { return time.Duration(ptr.Deref(n, 0)) * time.Second }
	limit, startLimit := seconds(spec.RunPolicy.ProgressDeadlineSeconds), seconds(spec.RunPolicy.StartupDeadlineSeconds)
	stopped := last.Stopped
	if !last.Started.IsZero() {
		stopped, limit = last.Started, startLimit
	}
	switch {
	case last.Step == 0 && startLimit == 0:
		stall.WhyNot, stall.IsKnown = "there is no deadline for the first report", false
	case last.Step == 0 && now.Before(since.Add(startLimit)):
		stall.WhyNot, stall.IsKnown = "the first report is not due", false
	case last.Step == 0:
	case limit == 0:
		stall.WhyNot = "there is no deadline for progress"
	case last.Done && last.Started.IsZero():
		stall.WhyNot = "the training is done"
	case last.Stopped.IsZero():
		stall.WhyNot = "the training makes progress"
	case now.Before(last.SilentUntil):
		stall.WhyNot = "the training has announced its silence"
	case now.Before(stopped.Add(limit)) || now.Before(since.Add(limit)):
		stall.WhyNot = "the deadline has not passed"
	}
	return stall
}

// endsAttempt reports whether the main container of a pod has failed, or the pod is being deleted.
func endsAttempt(pod *corev1.Pod) bool {
	return kubelet.HasFailed(pod) || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

// isSpared reports whether the job goes on although the pod of a replica has ended or is being deleted: the replica has
// succeeded; it has failed and its peers do not restart with it; or the job is elastic and trains without it.
func isSpared(spec framework.JobSpec, status batchv1beta1.JobStatus, name string) bool {
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			switch {
			case r.Name != name:
			case r.Phase == batchv1beta1.ReplicaPhaseSucceeded:
				return true
			case r.Phase == batchv1beta1.ReplicaPhaseFailed:
				return policy.Scope(spec) != batchv1beta1.RestartScopeJob
			default:
				return spec.Elastic != nil && r.Phase != batchv1beta1.ReplicaPhaseRunning
			}
		}
	}
	return false
}

// progress returns when the training made progress last. Zero means that it has reported nothing.
func (t Training) progress(now time.Time) time.Time {
	switch {
	case t.Step == 0:
		return time.Time{}
	case t.Stopped.IsZero():
		return now
	default:
		return t.Stopped
	}
}

// RecordsStall reports whether a change of a status records a stall as a failure.
func RecordsStall(before, after batchv1beta1.JobStatus) bool {
	return len(after.Failures) > 0 && after.Failures[0].Reason == batchv1beta1.ReasonNoProgress &&
		!equality.Semantic.DeepEqual(before.Failures, after.Failures)
}

// ChangesOnlyProgress reports whether two statuses differ only in the progress of the training.
func ChangesOnlyProgress(before, after batchv1beta1.JobStatus) bool {
	isSame := equality.Semantic.DeepEqual(before.Progress, after.Progress)
	before.Progress, after.Progress = nil, nil
	return !isSame && equality.Semantic.DeepEqual(before, after)
}

// checkStall checks a status write that reports a stall.
//
//   - A stall is reported only while the training of a pod of the current attempt is stalled. See StallOf.
//   - A stall is recorded as a failure only if the policy is Restart. It is of the pod whose training is stalled. It
//     counts once and begins one new attempt of all replicas, or it ends a job that has no restart left.
//   - If the policy is Restart, a stall is never only announced.
func checkStall(t Reporter, k Kind, now Objects, before, after batchv1beta1.JobStatus, by Writer) {
	t.Helper()
	records := RecordsStall(before, after)
	announces := IsTrue(after, batchv1beta1.ConditionStalled) && !IsTrue(before, batchv1beta1.ConditionStalled)
	if !records && !announces {
		return
	}
	stall := StallOf(k, now, by.Trainings, before, by.Now)
	if stall.WhyNot != "" {
		t.Errorf("the status reports a stall (as a failure: %t), but %s: %s", records, stall.WhyNot, now.Describe())
	}
	restarts := k.SpecOf(now.Job()).RunPolicy.ProgressPolicy == batchv1beta1.ProgressPolicyRestart
	if records != restarts {
		t.Errorf("a stall is recorded as a failure: %t, but the policy restarts the training: %t", records, restarts)
	}
	if !records {
		return
	}
	if replica := after.Failures[0].Replica; replica != stall.Pod {
		t.Errorf("the stall is of replica %s, but pod %s made progress last", replica, stall.Pod)
	}
	counted, attempts := after.BackoffCount-before.BackoffCount, after.Attempt-before.Attempt
	if after.Decided() {
		attempts, counted = attempts+1, counted+1
	}
	if counted != 1 || attempts != 1 || !after.Failures[0].Counted {
		t.Errorf("a stall counts %d times and begins %d attempts, want one: %+v", counted, attempts, after)
	}
}

// CheckProgress checks the progress in the status of a job at rest.
//
//   - If the policy is Restart, no training is stalled.
//   - If it is Notify, the condition Stalled is True if the training is stalled, and not True if the controller knows
//     that the training is not stalled.
//   - The condition is not True while the replicas of the job are stopped. When the job has finished, it is True only
//     if the stall ended the job.
//   - The status shows the last report of each pod that runs. If the job has succeeded, it shows the one with which the
//     leader ended.
func CheckProgress(k Kind, o Objects, trainings Trainings, now time.Time) (wrong []string) {
	job := o.Job()
	spec, status := k.SpecOf(job), *job.JobStatus()
	if !spec.ReportsProgress {
		return nil
	}
	isStalled := IsTrue(status, batchv1beta1.ConditionStalled)
	switch stall := StallOf(k, o, trainings, status, now); {
	case status.Finished():
		endedBy := status.Reason == batchv1beta1.ReasonBackoffLimitExceeded && len(status.Failures) > 0 &&
			status.Failures[0].Reason == batchv1beta1.ReasonNoProgress
		if isStalled != endedBy {
			wrong = append(wrong, "the job has finished, but its condition Stalled does not show whether a stall ended it")
		}
		for _, pod := range o.Pods() {
			last, isLeader := lastStep(pod), pod.Labels[batchv1beta1.LabelReplicaIndex] == "0"
			if isLeader && last > 0 && status.Phase == batchv1beta1.JobPhaseSucceeded &&
				(status.Progress == nil || ptr.Deref(status.Progress.Step, 0) != last) {
				wrong = append(wrong, "the status does not show the report with which the leader ended")
			}
		}
		return wrong
	case status.StartTime == nil && isStalled:
		wrong = append(wrong, "the job is stopped, but its condition Stalled is True")
	case !stall.IsKnown:
	case stall.WhyNot == "" && spec.RunPolicy.ProgressPolicy == batchv1beta1.ProgressPolicyRestart:
		wrong = append(wrong, "the training is stalled, but it is not restarted")
	case isStalled && stall.WhyNot != "":
		wrong = append(wrong, "the condition Stalled is True, but "+stall.WhyNot)
	case !isStalled && stall.WhyNot == "":
		wrong = append(wrong, "the training is stalled, but the condition Stalled is not True")
	}
	for _, pod := range o.Pods() {
		training := trainings.Training(pod)
		if training == nil || training.Step == 0 || !IsTrue(status, batchv1beta1.ConditionRunning) || training.Forgotten ||
			IsRelabelled(pod) {
			continue
		}
		if shown := status.Progress; shown == nil || ptr.Deref(shown.Step, 0) != training.Step || shown.Replica != pod.Name ||
			shown.LastReportTime.Sub(training.Reported).Abs() > tolerance {
			wrong = append(wrong, "the status does not show the last report of "+pod.Name)
		}
	}
	return wrong
}

// lastStep returns the step in the state with which the sidecar of a pod ended. 0 means none.
func lastStep(pod *corev1.Pod) int64 {
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == framework.ProgressContainer && s.State.Terminated != nil {
			if state, err := progress.ParseState([]byte(s.State.Terminated.Message)); err == nil {
				return ptr.Deref(state.Step, 0)
			}
		}
	}
	return 0
}

// tolerance is how much the time of a report in the status can differ from the time of the report.
const tolerance = 3 * time.Second
