package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/shell"
)

// findings returns all findings about the job. Among findings of the same weight, the most important is first.
func (v view) findings() []Finding {
	return slices.Concat(v.aboutTheStart(), v.aboutConditions(), v.aboutFailures(), v.aboutNodes(), v.aboutLimits(),
		v.aboutEvents(), v.aboutTheQueue(), v.aboutTheTensorBoard())
}

// patience is how long a controller can take to write the status of a new job.
const patience = time.Minute

// aboutTheStart returns the finding about a job that is being deleted, that another controller manages, or that has
// no conditions yet. It returns nil for all other jobs.
func (v view) aboutTheStart() []Finding {
	c := condition{object: v.Job.Ref(), name: "Status"}
	var e entry
	switch age := v.Now.Sub(v.Job.GetCreationTimestamp().Time); {
	case v.Job.GetDeletionTimestamp() != nil:
		c.reason = "Deleting"
		e = entry{
			cause: fmt.Sprintf("It still exists because of %s.", cmp.Or(finalizersOf(v.Job), "a finalizer")),
			do:    "It is gone when its pods have ended. If a pod stays, its node does not answer.",
			next:  []step{listPods, describeJob}, see: seeEnding,
		}
	case !v.spec.RunsHere() && !v.spec.RunsElsewhere():
		c.reason = "ManagedByOther"
		e = entry{
			cause: fmt.Sprintf("Its spec.managedBy is %s, so the {controller} leaves the job to the controller of that name.",
				clean(string(v.spec.ManagedBy))),
			do:   "Ask those who run that controller. The field cannot be changed.",
			next: []step{describeJob, jobEventsOf}, see: seeMultiKueue,
		}
	case len(v.status.Conditions) > 0:
		return nil
	case age < patience:
		c.reason = "New"
		e = entry{
			cause: "It is new, and the controller writes its status within seconds.",
			next:  []step{watchJob, findController}, see: seePending,
		}
	default:
		c.reason = "NoController"
		e = v.noController()
	}
	return []Finding{v.made(c, main, e)}
}

// noController returns the entry for a job that has had no status for longer than patience.
func (v view) noController() entry {
	e := entry{
		cause: "No controller handles the job: either the {controller} does not run, or it does not watch the namespace " +
			"{namespace}.",
		do:   "Ask an administrator to check its pod and its flag --namespace.",
		next: []step{findController, jobEventsOf, readController}, see: seeControllers,
	}
	if len(v.Controllers) == 0 {
		return e
	}
	first := v.Controllers[0]
	e.cause = fmt.Sprintf("No controller handles the job. The pod %s of the {controller} in namespace %s is not ready.",
		first.Name, first.Namespace)
	if i := slices.IndexFunc(v.Controllers, isReady); i >= 0 {
		first = v.Controllers[i]
		e.cause = fmt.Sprintf("The {controller} runs in namespace %s, but has not handled the job. It might be limited to "+
			"another namespace than {namespace} by its flag --namespace, or it lacks permissions.", first.Namespace)
	}
	e.do = "Ask an administrator to read its log."
	e.next = []step{{
		purpose: "For an administrator: read the errors of the controller",
		line:    fmt.Sprintf("kubectl logs -n %s %s --tail=50", first.Namespace, first.Name), ofCluster: true,
	}, findController}
	return e
}

// finalizersOf returns the finalizers of an object for a sentence.
func finalizersOf(object metav1.Object) string {
	if names := object.GetFinalizers(); len(names) > 0 {
		return "its finalizers " + strings.Join(names, " and ")
	}
	return ""
}

// made returns the finding for an entry that is not in a table.
func (v view) made(c condition, weight weight, e entry) Finding {
	return v.finding(c, weight, map[string]entry{c.reason: e})
}

// decisive returns the type of the condition that explains the phase.
func (v view) decisive() string {
	for _, end := range []string{
		batchv1beta1.ConditionCompleted, batchv1beta1.ConditionFailed, batchv1beta1.ConditionSuccessCriteriaMet,
		batchv1beta1.ConditionFailureTarget, batchv1beta1.ConditionPaused,
	} {
		if v.is(end) {
			return end
		}
	}
	initialized, running := v.find(batchv1beta1.ConditionInitialized), v.find(batchv1beta1.ConditionRunning)
	switch {
	case running != nil && running.Reason == batchv1beta1.ReasonPausing:
		return batchv1beta1.ConditionRunning
	case initialized != nil && initialized.Status == metav1.ConditionFalse, running == nil:
		return batchv1beta1.ConditionInitialized
	case v.is(batchv1beta1.ConditionRunning) && v.is(batchv1beta1.ConditionStalled):
		return batchv1beta1.ConditionStalled
	}
	return batchv1beta1.ConditionRunning
}

// aboutConditions returns the findings about the conditions of the job.
func (v view) aboutConditions() []Finding {
	tables := map[string][]map[string]entry{
		batchv1beta1.ConditionInitialized:        {initialized},
		batchv1beta1.ConditionRunning:            {running, paused, podGroups, initialized},
		batchv1beta1.ConditionStalled:            {stalled},
		batchv1beta1.ConditionPaused:             {paused},
		batchv1beta1.ConditionSuccessCriteriaMet: {ended},
		batchv1beta1.ConditionFailureTarget:      {ended},
		batchv1beta1.ConditionCompleted:          {ended},
		batchv1beta1.ConditionFailed:             {ended},
		batchv1beta1.ConditionReplicaFailure:     {failures, ended, running, paused},
	}
	decisive := v.decisive()
	var findings []Finding
	for _, c := range v.status.Conditions {
		weight := quiet
		switch {
		case c.Type == decisive && v.Job.GetDeletionTimestamp() == nil:
			weight = main
		case c.Type == batchv1beta1.ConditionStalled && c.Status == metav1.ConditionUnknown && v.status.Phase ==
			batchv1beta1.JobPhaseRunning:
			weight = note
		case c.Type == batchv1beta1.ConditionRunning && decisive == batchv1beta1.ConditionFailureTarget,
			c.Type == batchv1beta1.ConditionRunning && decisive == batchv1beta1.ConditionSuccessCriteriaMet:
			weight = note // the condition Running explains which pods still run
		}
		findings = append(findings, v.finding(reported(v.Job.Ref(), c), weight, tables[c.Type]...))
	}
	return findings
}

// aboutFailures returns the finding about the last failure of a replica.
func (v view) aboutFailures() []Finding {
	failure := v.Job.LastFailure()
	if failure == nil {
		return nil
	}
	weight := quiet
	switch {
	case v.Job.GetDeletionTimestamp() != nil:
	case v.endedByFailure(), v.isRestarting():
		weight = root
	case v.status.Decided() || v.spec.RunMode.Pausing():
	case v.is(batchv1beta1.ConditionReplicaFailure) || v.Now.Sub(failure.Time.Time) < recently:
		weight = note
	}
	c := condition{
		object: v.Job.Ref(), name: "Failure", reason: failure.Reason, message: firstLine(failure.Message),
		since: failure.Time.Time,
	}
	found := v.finding(c, weight, failures, map[string]entry{c.reason: v.otherFailure()})
	if weight == note {
		found.Text = sentences("Its last failure was "+v.ago(c.since)+".", found.Text)
	}
	return []Finding{found}
}

// recently is the maximum age of the failures and events that the text of the explanation mentions. There are
// exceptions, such as a failure that the job has not recovered from. The same duration is the maximum time until a
// deadline that the text mentions.
const recently = time.Hour

// endedByFailure reports whether the failure of a replica ended the job.
func (v view) endedByFailure() bool {
	for _, end := range []string{batchv1beta1.ConditionFailed, batchv1beta1.ConditionFailureTarget} {
		if c := v.find(end); c != nil && c.Status == metav1.ConditionTrue {
			return c.Reason == batchv1beta1.ReasonBackoffLimitExceeded || c.Reason == batchv1beta1.ReasonPermanentFailure
		}
	}
	return false
}

// isRestarting reports whether the job replaces replicas after a failure, and nothing keeps their pods from starting.
func (v view) isRestarting() bool {
	return v.status.Phase == batchv1beta1.JobPhasePending && v.is(batchv1beta1.ConditionReplicaFailure) &&
		!v.status.Decided() && slices.Contains([]string{
		batchv1beta1.ReasonRestarting, batchv1beta1.ReasonCreating, batchv1beta1.ReasonPending,
	}, v.status.Reason)
}

// aboutNodes returns the finding about the nodes that the job avoids.
func (v view) aboutNodes() []Finding {
	if len(v.status.AvoidedNodes) == 0 {
		return nil
	}
	oldest := v.status.AvoidedNodes[0]
	nodes := "node " + oldest.Name
	if more := len(v.status.AvoidedNodes) - 1; more > 0 {
		nodes = fmt.Sprintf("%d nodes, among them %s,", more+1, oldest.Name)
	}
	weight := note
	if v.status.Decided() || v.spec.RunMode.Pausing() {
		weight = quiet
	}
	return []Finding{v.made(condition{object: v.Job.Ref(), name: "AvoidedNodes", reason: oldest.Reason}, weight, entry{
		cause: fmt.Sprintf("New pods of the job avoid %s until %s, because replicas failed there twice (%s).", nodes,
			v.at(oldest.Until.Time), oldest.Reason),
		next: []step{{
			purpose: "Read what is wrong with the node", line: "kubectl describe node " + shell.Quote(clean(oldest.Name)),
			ofCluster: true,
		}}, see: seeBadNodes,
	})}
}

// aboutLimits returns the findings that come from no condition: near deadlines, a status that is stale or not
// complete, debug mode, and the other cluster in which the job runs.
func (v view) aboutLimits() []Finding {
	var findings []Finding
	add := func(reason string, e entry) {
		findings = append(findings, v.made(condition{object: v.Job.Ref(), name: "Status", reason: reason}, note, e))
	}
	deadline := policy.After(v.status.StartTime, v.spec.RunPolicy.ActiveDeadlineSeconds)
	if !deadline.IsZero() && !v.status.Decided() && deadline.Sub(v.Now) < recently {
		add("DeadlineNear", entry{
			cause: fmt.Sprintf("It fails in %s, at %s, unless it has ended by then (runPolicy.activeDeadlineSeconds).",
				v.in(deadline), v.at(deadline)),
			next: []step{{purpose: "Raise runPolicy.activeDeadlineSeconds", line: "kubectl edit {job}"}}, see: seeFailed,
		})
	}
	expiry := policy.After(v.status.CompletionTime, v.spec.RunPolicy.TTLSecondsAfterFinished)
	if !expiry.IsZero() {
		add("Expires", entry{
			cause: fmt.Sprintf("It is deleted in %s, with its pods and their logs (runPolicy.ttlSecondsAfterFinished).",
				v.in(expiry)),
			next: []step{{purpose: "Keep the job longer: change ttlSecondsAfterFinished", line: "kubectl edit {job}"}},
			see:  seeSucceeded,
		})
	}
	if v.isStale() {
		add("NotObserved", entry{
			cause: "The controller has not handled the last change of the job yet.",
			do:    "If this does not change, the controller does not run.",
			next:  []step{findController}, see: seeControllers,
		})
	}
	if v.spec.RunMode.Debugging() && v.status.Phase == batchv1beta1.JobPhaseRunning {
		add("DebugMode", entry{
			cause: "It is in debug mode: its replicas idle until you start the training by hand.",
			next:  []step{{purpose: "Open a shell in the leader", line: "kubectl train debug {job}"}}, see: seeDebugMode,
		})
	}
	if v.spec.RunsElsewhere() {
		add("RunsElsewhere", entry{
			cause: "MultiKueue runs it in another cluster, where its pods and logs are." + v.otherCluster(),
			next:  []step{describeWorkload}, see: seeMultiKueue,
		})
	}
	if v.status.Omitted != "" {
		add("Omitted", entry{
			cause: "Its status is not complete: " + quote(v.status.Omitted) + ".", next: []step{listPods}, see: seePending,
		})
	}
	return findings
}

// isStale reports whether the controller has not handled the newest spec of the job yet. It returns false if the job
// has ended or runs in another cluster.
func (v view) isStale() bool {
	return v.status.ObservedGeneration != 0 && v.status.ObservedGeneration < v.Job.GetGeneration() &&
		!v.status.Decided() && v.spec.RunsHere()
}

// otherCluster returns the message of an admission check, as a sentence. MultiKueue names the cluster in this
// message. The result is empty if there is no message.
func (v view) otherCluster() string {
	if v.Workload == nil {
		return ""
	}
	for _, check := range v.Workload.Status.AdmissionChecks {
		if check.Message != "" {
			return " It reports: " + quote(check.Message) + "."
		}
	}
	return ""
}

// aboutEvents returns the findings about the events of the job and its pods: one finding for each known reason, about
// the last event with this reason.
func (v view) aboutEvents() []Finding {
	newest := map[string]corev1.Event{}
	for _, e := range v.Events {
		_, ofJob := jobEvents[e.Reason]
		_, ofPod := queuedPodEvents[e.Reason]
		isOfJob := e.InvolvedObject.Kind == v.Job.Kind.Kind
		if last, ok := newest[e.Reason]; (ofJob && isOfJob || ofPod && !isOfJob) &&
			(!ok || jobs.LastSeen(&last).Before(jobs.LastSeen(&e))) {
			newest[e.Reason] = e
		}
	}
	var findings []Finding
	for _, e := range slices.SortedFunc(maps.Values(newest), func(a, b corev1.Event) int {
		return cmp.Or(jobs.LastSeen(&b).Compare(jobs.LastSeen(&a)), cmp.Compare(a.Reason, b.Reason))
	}) {
		weight, seen := quiet, jobs.LastSeen(&e)
		isOver := v.status.Finished()
		switch e.Reason {
		case batchv1beta1.EventNoEffect:
			weight = note
		case batchv1beta1.EventReplicaFailed, batchv1beta1.EventStopped, schedulerv1beta1.EventMaxDuration:
			if !isOver && v.Now.Sub(seen) < recently {
				weight = note
			}
		}
		findings = append(findings, v.finding(condition{
			object: strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name, name: "Event", reason: e.Reason,
			message: e.Message, since: seen,
		}, weight, jobEvents, queuedPodEvents))
	}
	return findings
}

// aboutTheQueue returns the findings about the PodGroup and the Queue of the job.
func (v view) aboutTheQueue() []Finding {
	var findings []Finding
	if v.PodGroup != nil {
		for _, c := range v.PodGroup.Status.Conditions {
			findings = append(findings, v.finding(reported("podgroup/"+v.PodGroup.Name, c), quiet, podGroups))
		}
	}
	if v.Queue != nil {
		for _, c := range v.Queue.Status.Conditions {
			findings = append(findings, v.finding(reported("queue/"+v.Queue.Name, c), quiet, queues))
		}
	}
	return findings
}
