package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/policy"
)

// snapshot is the job as plan sees it, whatever its kind.
type snapshot struct {
	Namespace  string
	Name       string
	UID        types.UID
	Generation int64
	// Deleting says that the user has deleted the job, which waits for what it owns to go.
	Deleting bool
	// Created is when the user created the job.
	Created time.Time
	// Selector matches the job's pods.
	Selector string
	Spec     framework.JobSpec
	Status   batchv1beta1.JobStatus
	// TensorBoardSpec is the TensorBoard that the job wants, nil for none.
	TensorBoardSpec *tensorboardv1beta1.TensorBoardSpec
	// TensorBoardStatus is what the status says of it, nil for nothing.
	TensorBoardStatus *batchv1beta1.DependentStatus

	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// Image of the controller.
	Image string
	// MainContainers are the names by which pods mark their main container.
	MainContainers []string
	// PeerGrace is how long the peers of a leader that succeeded may take to end by themselves.
	PeerGrace time.Duration
	// FailureWindow is how long after a failure in a collective the reports of its peers may take.
	FailureWindow time.Duration
	// NodeLostDelay is how long the pod of a lost node may stay Terminating past its grace period; 0 is for ever.
	NodeLostDelay time.Duration
	// DependentRetry is how long after something about the TensorBoard or the PodGroup failed it is tried again.
	DependentRetry time.Duration
	// BuildPod makes the pod of a member, which waits until the awaited names resolve. An error speaks of the template.
	BuildPod func(gang framework.Gang, member framework.Member, awaited []string, current attempt) (*corev1.Pod, error)
}

// observation is what the cluster holds of the job.
type observation struct {
	// Pods that the job controls, by name.
	Pods map[string]*corev1.Pod
	// HasService says whether the job's headless Service is there.
	HasService bool
	// TensorBoard is what there is of the job's TensorBoard, if it has to do with any.
	TensorBoard tensorBoardView
	// PodGroup is what there is of the job's PodGroup, if it needs one.
	PodGroup podGroupView
	// StatusWaitsSince is since when the status has something to say that can wait, zero if it does not or that is not known.
	StatusWaitsSince time.Time
}

// hasMoreThan says that there are pods which are not in another observation.
func (o observation) hasMoreThan(other observation) bool {
	for name, pod := range o.Pods {
		if known := other.Pods[name]; known == nil || known.UID != pod.UID {
			return true
		}
	}
	return false
}

// decision is what to do: write Status if it differs and is due, then delete, then create. In this order a failure is accounted
// before the pod that shows it is deleted, so that a crash in between loses nothing and counts nothing twice.
type decision struct {
	Status batchv1beta1.JobStatus
	// TensorBoard is changed last, so that nothing about it keeps the training from going on. Its status is written with Status.
	TensorBoard tensorBoardDecision
	// PodGroup is changed first, so that what it holds is given back whatever becomes of the pods.
	PodGroup podGroupDecision
	Deletes  []*corev1.Pod
	// CleanUps are deleted only as they were seen: a pod that has ended since may have to stay, with its logs.
	CleanUps      []*corev1.Pod
	ForceDeletes  []*corev1.Pod
	Creates       []*corev1.Pod
	CreateService bool
	// DeleteJob says that the job has outlived its time after the end. Its pods go with it.
	DeleteJob bool
	// Events are emitted once Status is written.
	Events []event
	// Irrevocable says that the decision cannot be taken back, so that it must not follow from pods that a cache has wrong: it
	// accounts for a failure, or starts a member that must not meet one of an earlier attempt.
	Irrevocable bool
	// Restarts are those that Status accounts for. It must then be written before anything else is done.
	Restarts []restarted
	// StartDuration is how long the job took from its creation to running, if it now runs for the first time.
	StartDuration *time.Duration
	// RecoveryDuration is how long the job took from a failure until every replica ran again, if they now do.
	RecoveryDuration *time.Duration
	// WakeAt is when the job must be looked at again without any event; zero is never.
	WakeAt time.Time
	// Urgent says that nodes of the job may do nothing until then, so that it goes before jobs that are new.
	Urgent bool
}

// restarted is one restart, of a replica or of the whole job.
type restarted struct {
	// Cause is the reason of the failure, or ReasonCompleted.
	Cause string
	// Counted says that it counts towards the limit.
	Counted bool
}

// changesObjects says that the decision changes more than the job itself.
func (d decision) changesObjects() bool {
	return len(d.Deletes) > 0 || len(d.CleanUps) > 0 || len(d.ForceDeletes) > 0 || len(d.Creates) > 0 || d.CreateService ||
		d.TensorBoard.Change != "" || d.PodGroup.Change != ""
}

// planner is the working state of one call of plan.
type planner struct {
	job      snapshot
	seen     observation
	now      time.Time
	gang     framework.Gang
	replicas []*replica
	// accounted is the last failure that was accounted for just now.
	accounted *rootCause
	// hasLostPods says that lost nodes hold pods which are to be deleted by force.
	hasLostPods bool
	// refusal says why pods cannot be had: one cannot be made from its template, or the job's PodGroup cannot be had.
	refusal *owned.RefusedError
	// queued says what pods that are missing wait for, nil for nothing.
	queued   *queued
	decision decision
}

// plan decides what to do about a job. It is a pure function: the same arguments give the same decision.
func plan(job snapshot, seen observation, now time.Time) decision {
	p := &planner{job: job, seen: seen, now: now}
	p.decision.Status = copyOf(job.Status)
	p.forceDelete()
	p.planTensorBoard()
	if job.Deleting {
		return p.decision // what the job owns is garbage collected, but from lost nodes
	}
	p.formGang(p.presentRoles())
	p.replicas = p.observeReplicas()
	if job.Status.Finished() {
		p.decision.Status.ObservedGeneration = job.Generation
		p.cleanUp()
		return p.decision
	}

	pausing := job.Spec.RunMode.Pausing()
	if pausing && job.Status.StartTime == nil && !p.hasBegunUnsaid() {
		p.pause()
		return p.decision
	}
	reason, message := cannotRun(p.gang)
	if reason != "" && job.Status.StartTime == nil {
		p.hold(reason, message)
		return p.decision
	}
	p.begin()
	p.scale()
	if end := p.ending(); end != nil {
		p.forgetAdded()
		p.finish(*end)
		p.cleanUp()
		return p.decision
	}
	if deadline, ok := p.deadline(); ok {
		p.wakeAt(deadline)
	}
	if reason != "" && !pausing {
		p.hold(reason, message)
		return p.decision
	}
	if due, waits := p.reportsDue(); waits {
		p.awaitReports(due)
		return p.decision
	}
	p.restart()
	if pausing {
		p.endRun()
		p.pause()
		return p.decision
	}
	p.decision.CreateService = !seen.HasService
	p.removeObsolete()
	p.createMissing()
	p.joinGang()
	p.settle()
	return p.decision
}

// hasBegunUnsaid says that the job has pods and no status, of which the first write can wait.
func (p *planner) hasBegunUnsaid() bool {
	return p.job.Status.ObservedGeneration == 0 && len(p.seen.Pods) > 0
}

// copyOf returns a copy of a status that plan may change. It shares the tasks, of which there may be many: plan makes them anew and never
// changes them in place.
func copyOf(status batchv1beta1.JobStatus) batchv1beta1.JobStatus {
	tasks := status.Tasks
	status.Tasks = nil
	status = *status.DeepCopy()
	status.Tasks = tasks
	return status
}

// cannotRun says why a job has nothing to run.
func cannotRun(gang framework.Gang) (reason, message string) {
	if len(gang.Members) == 0 {
		return batchv1beta1.ReasonNoReplicas, "every replicaSpec has 0 replicas: nothing can run"
	}
	return "", ""
}

// hold keeps the replicas of the job as they are and says why.
func (p *planner) hold(reason, message string) {
	p.identify()
	status := &p.decision.Status
	if status.StartTime == nil {
		p.resume()
	}
	status.Phase = cmp.Or(status.Phase, batchv1beta1.JobPhasePending)
	status.Reason = reason
	if status.StartTime == nil {
		p.setTasks() // later a task may tell of a failure, which nobody accounts for while the job is held
	}
	p.refuse(reason, message)
	if !isRunning(*status) {
		p.setCondition(batchv1beta1.ConditionRunning, metav1.ConditionFalse, reason, message)
	}
}

// refuse says, in a condition and once in an event, why the job cannot be brought to what its spec says.
func (p *planner) refuse(reason, message string) {
	if before := initialized(p.decision.Status); before == nil || before.Reason != reason {
		p.addEvent(corev1.EventTypeWarning, reason, "Plan", message)
	}
	p.setCondition(batchv1beta1.ConditionInitialized, metav1.ConditionFalse, reason, message)
}

// identify says what the status speaks of, and by which labels others find the pods.
func (p *planner) identify() {
	p.decision.Status.ObservedGeneration = p.job.Generation
	p.decision.Status.Selector = p.job.Selector
}

func (p *planner) begin() {
	p.identify()
	status := &p.decision.Status
	if status.StartTime == nil {
		p.resume()
		status.StartTime = p.timestamp(p.begun())
	}
	if p.hasBegunUnsaid() {
		// What a first status says must not be missing when that tells of an end, or a failure.
		p.accept(accepted)
		p.settleWaiting(batchv1beta1.ReasonPending, "the replicas were on their way")
		status.Reason = batchv1beta1.ReasonPending
	}
}

// begun returns when the controller took up the job: now, unless the first status has waited since. Where a controller that was started
// anew does not know since when, the first pod tells, if by the clock of the API server. What is known from before the job was created is
// of another job of its name.
func (p *planner) begun() time.Time {
	since := p.seen.StatusWaitsSince
	switch {
	case !p.hasBegunUnsaid():
		return p.now
	case !since.IsZero() && !since.Before(p.job.Created):
		return since
	}
	begun := p.now
	for _, pod := range p.seen.Pods {
		if pod.CreationTimestamp.Time.Before(begun) {
			begun = pod.CreationTimestamp.Time
		}
	}
	return begun
}

// deadline returns when the job must have finished, and whether it must. A job that is to be paused need not.
func (p *planner) deadline() (time.Time, bool) {
	if p.job.Spec.RunMode.Pausing() {
		return time.Time{}, false
	}
	return policy.Deadline(p.job.Spec.RunPolicy, p.decision.Status.StartTime)
}

// formGang lists the members of the job's roles.
func (p *planner) formGang(roles []framework.Role) {
	p.job.Spec.Roles = roles
	p.gang = framework.NewGang(p.job.Namespace, p.job.Name, p.job.UID, p.job.ClusterDomain, jobAttempt(p.decision.Status), roles)
	p.gang.Image = p.job.Image
	p.gang.AllOrNothing = t9kScheduler(p.job.Spec) != nil
}

// jobAttempt counts how often the pods of all replicas were replaced together. It never falls.
func jobAttempt(status batchv1beta1.JobStatus) int32 { return status.Attempt + status.Pauses }

// forceDelete deletes the pods that lost nodes hold, so that the job recovers, or is cleaned up, without an administrator.
func (p *planner) forceDelete() {
	for _, pod := range p.seen.Pods {
		due, ok := policy.ForceDeletion(pod, p.job.NodeLostDelay)
		if !ok {
			continue
		}
		p.hasLostPods = true
		if p.now.Before(due) {
			p.wakeUrgentlyAt(due)
			continue
		}
		p.decision.ForceDeletes = append(p.decision.ForceDeletes, pod)
	}
	sortByName(p.decision.ForceDeletes)
}

// removeObsolete deletes the pods of earlier attempts and those of no replica.
func (p *planner) removeObsolete() {
	if p.hasOnlyCurrentPods() {
		return
	}
	wanted := map[string]bool{}
	for _, r := range p.replicas {
		if !r.obsolete() {
			wanted[r.member.Name] = true
		}
	}
	p.removeAllBut(wanted)
}

// hasOnlyCurrentPods says that each pod is the current one of a replica, as most often it is.
func (p *planner) hasOnlyCurrentPods() bool {
	current := 0
	for _, r := range p.replicas {
		if r.pod != nil && !r.obsolete() {
			current++
		}
	}
	return current == len(p.seen.Pods)
}

// hasEarlierPods says that pods of an earlier attempt of the whole job are still there.
func (p *planner) hasEarlierPods() bool {
	if p.hasOnlyCurrentPods() {
		return false
	}
	for _, pod := range p.seen.Pods {
		if !ofAttempt(pod, p.gang.Attempt) {
			return true
		}
	}
	return false
}

// removeAllBut deletes all pods but those of the given names. Each is deleted gracefully, once.
func (p *planner) removeAllBut(wanted map[string]bool) {
	for name, pod := range p.seen.Pods {
		if !wanted[name] && pod.DeletionTimestamp == nil {
			p.decision.Deletes = append(p.decision.Deletes, pod)
		}
	}
	sortByName(p.decision.Deletes)
}

// sortByName makes a decision about pods the same every time.
func sortByName(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// createMissing creates the pods that are missing, unless their restart is not due. Where all replicas start anew, none does
// before the pods of the earlier attempt are gone, since it could join them.
func (p *planner) createMissing() {
	if p.hasEarlierPods() {
		return
	}
	awaited := sync.OnceValue(p.awaited) // most often nothing is missing
	for _, r := range p.replicas {
		if r.pod != nil || r.done {
			continue
		}
		if r.recorded.RestartTime != nil && r.recorded.RestartTime.After(p.now) {
			p.wakeUrgentlyAt(r.recorded.RestartTime.Time)
			continue
		}
		own := p.gang.FQDN(*r.member)
		others := slices.DeleteFunc(slices.Clone(awaited()), func(name string) bool { return name == own })
		pod, err := p.job.BuildPod(p.gang, *r.member, others, r.attempt())
		if err != nil {
			p.decision.Creates = nil
			p.refusal = &owned.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: err}
			return
		}
		p.decision.Creates = append(p.decision.Creates, pod)
		p.decision.Irrevocable = p.decision.Irrevocable || p.gang.Attempt > 0 // which pods are gone must not be guessed
	}
}

// awaited lists the names that must resolve before another replica starts: that of the leader, and of those that every replica reaches
// out to. A name that is gone for good is not waited for.
func (p *planner) awaited() []string {
	var names []string
	for _, r := range p.replicas {
		isAwaited := r.member.Rank == 0 || r.member.Role.Awaited
		if isAwaited && !r.done && !r.succeeded() {
			names = append(names, p.gang.FQDN(*r.member))
		}
	}
	return names
}

func (p *planner) wakeAt(t time.Time) {
	if p.decision.WakeAt.IsZero() || t.Before(p.decision.WakeAt) {
		p.decision.WakeAt = t
	}
}

// wakeUrgentlyAt is wakeAt where nodes may do nothing until then.
func (p *planner) wakeUrgentlyAt(t time.Time) {
	p.wakeAt(t)
	p.decision.Urgent = true
}

// timestamp returns t as the API server stores it, so that a status compares equal to itself after a round trip.
func (p *planner) timestamp(t time.Time) *metav1.Time {
	stored := metav1.NewTime(t).Rfc3339Copy()
	return &stored
}

// addEvent tells of something once the status is written. The facts are what the log says of it, which the message never gets into.
func (p *planner) addEvent(eventType, reason, action, message string, facts ...any) {
	p.decision.Events = append(p.decision.Events, event{Type: eventType, Reason: reason, Action: action, Message: message, Facts: facts})
}
