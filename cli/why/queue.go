package why

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
)

// rival is a PodGroup of the same Queue as the job.
type rival = schedulerv1beta1.PodGroup

// place returns a sentence with the number of jobs that wait before the job in its Queue. The sentence is empty if
// the PodGroup of the job or the PodGroups of the Queue are not known.
func (v view) place() string {
	if v.PodGroup == nil || v.Rivals == nil {
		return ""
	}
	ahead := 0
	for _, group := range v.Rivals {
		isScheduled := meta.IsStatusConditionTrue(group.Status.Conditions, schedulerv1beta1.ConditionGroupScheduled)
		if group.UID != v.PodGroup.UID && !isScheduled && gang.Compare(&group, v.PodGroup) < 0 {
			ahead++
		}
	}
	where := ""
	if !v.HasAllRivals {
		where = " of this namespace"
	}
	switch ahead {
	case 0:
		return fmt.Sprintf(" No job%s waits before it.", where)
	case 1:
		return fmt.Sprintf(" 1 job%s waits before it.", where)
	}
	return fmt.Sprintf(" %d jobs%s wait before it.", ahead, where)
}

// mismatched matches the name of the pod in the message about a PriorityClass that does not match the group.
var mismatched = regexp.MustCompile(`pod (\S+) has PriorityClass`)

// priorityClassMismatch returns the entry for a PodGroup with a pod that has another PriorityClass than the group.
func priorityClassMismatch(_ view, c condition) entry {
	e := entry{
		cause: "A pod has another PriorityClass than its group: {message}.",
		do:    "Delete the pod, and set no PriorityClass for its replacement.",
		next:  []step{describeGroup}, see: seeQueue,
	}
	if found := mismatched.FindStringSubmatch(c.message); found != nil && isName(found[1]) {
		e.next = append(e.next, step{
			purpose: "Delete the pod. The job creates it again", line: "kubectl delete pod " + found[1],
		})
	}
	return e
}

// describeWorkload shows why Kueue does not admit the job.
var describeWorkload = step{
	purpose: "Read what Kueue reports about the job", line: "kubectl describe workloads.kueue.x-k8s.io {workload}",
}

// queued returns the entry for a job that its queue has not admitted.
func queued(v view, c condition) entry {
	if v.spec.T9kScheduler() != nil {
		return entry{
			cause: "The job waits in Queue {queue}, and has no pods before it is admitted." + v.place(),
			do:    "This takes seconds. If it does not change, the scheduler-controller does not run.",
			next: []step{describeGroup, {
				purpose: "See whether the scheduler-controller runs",
				line:    "kubectl get pods -A -l app.kubernetes.io/name=scheduler-controller", ofCluster: true,
			}}, see: seeQueue,
		}
	}
	e := entry{
		cause: "The job waits in LocalQueue {queue} of Kueue, and has no pods before it is admitted.",
		next: []step{describeWorkload, {
			purpose: "See the queues of the namespace, and how many jobs wait in them",
			line:    "kubectl get localqueues.kueue.x-k8s.io",
		}}, see: seeKueue,
	}
	why, do := v.kueueWords()
	if why == "" {
		why = sentence(withoutCount(c.message)) + "."
	}
	e.cause, e.do = sentences(e.cause, why, v.kueueQueues()), do
	if v.isInactive() {
		e.next = append([]step{{
			purpose: "Let Kueue admit the job again",
			line:    `kubectl patch workloads.kueue.x-k8s.io {workload} --type=merge -p '{"spec": {"active": true}}'`,
		}}, e.next...)
	}
	return e
}

// isInactive reports whether somebody, or Kueue, has deactivated the Workload.
func (v view) isInactive() bool {
	return v.Workload != nil && v.Workload.Spec.Active != nil && !*v.Workload.Spec.Active
}

// kueueWords returns why Kueue has not admitted the job, and what to do. Both are empty if the Workload is not known.
func (v view) kueueWords() (why, do string) {
	if v.Workload == nil {
		return "", ""
	}
	conditions := v.Workload.Status.Conditions
	if gates := v.Workload.Annotations[kueuev1beta2.AnnotationAdmissionGatedBy]; gates != "" {
		return "It waits until these controllers allow the admission: " + quote(gates) + ".", ""
	}
	evicted := meta.FindStatusCondition(conditions, kueuev1beta2.ConditionEvicted)
	if v.isInactive() {
		why = "Its Workload is not active (spec.active is false)."
		if evicted != nil && evicted.Status == metav1.ConditionTrue {
			why = fmt.Sprintf("Its Workload is not active (spec.active is false): %s.", quote(evicted.Message))
		}
		return why, "Fix the cause, and activate the Workload."
	}
	if evicted != nil && evicted.Status == metav1.ConditionTrue {
		why = fmt.Sprintf("Kueue stopped it %s (%s): %s.", v.ago(evicted.LastTransitionTime.Time), clean(evicted.Reason),
			quote(evicted.Message))
		do = "It runs again when Kueue admits it again."
	}
	reserved := meta.FindStatusCondition(conditions, kueuev1beta2.ConditionQuotaReserved)
	switch {
	case reserved != nil && reserved.Status == metav1.ConditionFalse:
		do = "Wait until other jobs end, request less, or ask an administrator for a larger quota."
		if isMissing := strings.Contains(reserved.Message, "doesn't exist"); isMissing ||
			strings.Contains(reserved.Message, "is inactive") {
			do = "Ask an administrator about the queue. To use another one, pause the job, change its label " +
				"kueue.x-k8s.io/queue-name, and resume it."
		}
		return sentences(why, "Kueue reports: "+quote(reserved.Message)+"."), do
	case reserved != nil:
		var checks []string
		for _, check := range v.Workload.Status.AdmissionChecks {
			if check.State != "Ready" {
				checks = append(checks, strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", clean(check.Name), clean(check.State),
					quote(check.Message)), ": "))
			}
		}
		if len(checks) > 0 {
			return sentences(why, "Its quota is reserved, and it waits for the admission checks "+listed(checks)+"."),
				"Ask an administrator about the checks if this does not change."
		}
		return sentences(why, "Its quota is reserved."), "Kueue admits it within seconds."
	}
	return why, do
}

// kueueQueues returns sentences about the queues of the job.
func (v view) kueueQueues() string {
	var words []string
	for _, queue := range []*KueueQueue{v.LocalQueue, v.ClusterQueue} {
		switch {
		case queue == nil:
		case queue.Inactive != "":
			words = append(words, fmt.Sprintf("%s %s admits nothing: %s.", queue.Kind, queue.Name, quote(queue.Inactive)))
		case queue.Pending > 1:
			words = append(words, fmt.Sprintf("%d jobs wait in %s %s.", queue.Pending, queue.Kind, queue.Name))
		}
	}
	return sentences(words...)
}
