package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/printable"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
)

// view has the facts about a job, and values that are derived from them.
type view struct {
	Facts

	status *batchv1beta1.JobStatus
	spec   framework.JobSpec
	// stuck is a pod that keeps the job from running. Nil means that none is known.
	stuck *stuck
	// names maps the placeholders of texts and commands, without their braces, to their values.
	names map[string]string
}

// newView returns the view of the facts.
func newView(facts Facts) view {
	v := view{Facts: facts, status: facts.Job.JobStatus(), spec: facts.Job.Spec()}
	v.Pods = slices.SortedFunc(slices.Values(facts.Pods), func(a, b corev1.Pod) int {
		return cmp.Compare(a.Name, b.Name)
	})
	v.stuck = v.findStuck()
	v.names = v.allNames()
	return v
}

// allNames returns the values of the placeholders, in a form that is safe to print. It omits placeholders whose
// values are not known.
func (v view) allNames() map[string]string {
	leader, template := v.leader()
	names := map[string]string{
		"job": v.Job.Ref(), "name": v.Job.GetName(), "namespace": v.Job.GetNamespace(), "kind": v.Job.Kind.Kind,
		"controller": v.Job.Kind.Controller,
		"framework":  strings.TrimSuffix(v.Job.Kind.Controller, "-controller"), "leader": leader, "pod": leader,
		"replica": leader, "who": "A replica",
		"queue":  v.Job.GetLabels()[kueuev1beta2.LabelQueueName],
		"limit":  fmt.Sprint(ptr.Deref(v.spec.RunPolicy.BackoffLimit, batchv1beta1.DefaultBackoffLimit)),
		"policy": string(v.policyOf(leader)), "tensorboard": v.Job.GetName(), "workload": v.workloadName(),
	}
	if scheduler := v.spec.T9kScheduler(); scheduler != nil {
		names["queue"] = scheduler.Queue
	}
	if template != nil {
		if main := framework.MainContainer(v.Job.Kind.MainContainers, template.Spec.Containers); main != nil {
			names["container"], names["image"] = main.Name, main.Image
		}
	}
	if waiting := v.waitingReplicas(); len(waiting) > 0 {
		names["pod"] = waiting[0]
	}
	if failure := v.Job.LastFailure(); failure != nil {
		names["replica"], names["node"], names["who"] = failure.Replica, failure.Node, v.who()
		names["policy"] = string(v.policyOf(failure.Replica))
	}
	if s := v.stuck; s != nil {
		names["pod"], names["container"], names["image"] = s.pod.Name, cmp.Or(s.container, names["container"]),
			cmp.Or(s.image, names["image"])
	}
	for name, value := range names {
		names[name] = printable.Shortened(clean(value), maxName)
	}
	maps.DeleteFunc(names, func(_, value string) bool { return value == "" })
	return names
}

// maxName is the maximum number of characters of a name in a text. No object has a longer name, but an image can.
const maxName = 253

// condition is a condition of an object, an event, or another part of a status that has a reason.
type condition struct {
	object, name, reason, message string
	since                         time.Time
}

// reported returns a condition in the status of an object.
func reported(object string, c metav1.Condition) condition {
	return condition{object, c.Type, c.Reason, c.Message, c.LastTransitionTime.Time}
}

// find returns a condition of the job. It is nil if the status does not have it.
func (v view) find(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(v.status.Conditions, conditionType)
}

// is reports whether a condition of the job is True.
func (v view) is(conditionType string) bool {
	return meta.IsStatusConditionTrue(v.status.Conditions, conditionType)
}

// leader returns the name of the leader and its template. They are empty for a job without replicas.
func (v view) leader() (string, *corev1.PodTemplateSpec) {
	for _, role := range v.spec.Roles {
		if role.Replicas > 0 {
			return framework.MemberName(v.Job.GetName(), role.Type, 0), role.Template
		}
	}
	return "", nil
}

// roleOf returns the role of a replica, or nil.
func (v view) roleOf(replica string) *framework.Role {
	for i, role := range v.spec.Roles {
		index, ok := strings.CutPrefix(replica, v.Job.GetName()+"-"+role.Type+"-")
		if ok && index != "" && strings.Trim(index, "0123456789") == "" {
			return &v.spec.Roles[i]
		}
	}
	return nil
}

// policyOf returns the restart policy of a replica.
func (v view) policyOf(replica string) batchv1beta1.RestartPolicy {
	if role := v.roleOf(replica); role != nil {
		return role.RestartPolicy
	}
	return ""
}

// pod returns the pod of a replica, or nil.
func (v view) pod(replica string) *corev1.Pod {
	i := slices.IndexFunc(v.Pods, func(p corev1.Pod) bool { return p.Name == replica })
	if i < 0 {
		return nil
	}
	return &v.Pods[i]
}

// waitingReplicas returns the names of the replicas that the status shows as Creating, Pending or Failed.
func (v view) waitingReplicas() []string {
	var names []string
	for r := range v.status.EachReplica() {
		switch r.Phase {
		case batchv1beta1.ReplicaPhaseCreating, batchv1beta1.ReplicaPhasePending, batchv1beta1.ReplicaPhaseFailed:
			names = append(names, r.Name)
		default:
		}
	}
	return names
}

// counts returns how many replicas run or have succeeded, and the number of all replicas.
func (v view) counts() (running, all int32) {
	if a := v.status.Aggregate; a != nil {
		running = a.Running + a.Succeeded
		return running, running + a.Creating + a.Pending + a.Failed + a.Deleted + a.Unknown
	}
	for _, role := range v.spec.Roles {
		all += role.Replicas
	}
	return 0, all
}

// workloadName returns the name of the Workload of the job. If the Workload is not known, it returns the name of the
// job if the job has a LocalQueue, and otherwise an empty string.
func (v view) workloadName() string {
	if v.Workload != nil {
		return v.Workload.Name
	}
	if v.Job.GetLabels()[kueuev1beta2.LabelQueueName] != "" {
		return v.Job.GetName()
	}
	return ""
}

// canChange reports whether the user can change the templates of the job while it is paused.
func (v view) canChange() bool {
	return !v.status.Decided() && !v.spec.RunMode.Debugging() && v.spec.RunsHere()
}

// ago returns how long ago a time was, such as "5m ago".
func (v view) ago(t time.Time) string {
	return duration.HumanDuration(max(0, v.Now.Sub(t))) + " ago"
}

// in returns how far ahead a time is, such as "5m".
func (v view) in(t time.Time) string { return duration.HumanDuration(max(0, t.Sub(v.Now))) }

// at returns a time of the day, and the date if it is not today.
func (v view) at(t time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == v.Now.UTC().Format(time.DateOnly) {
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}

// eventOf returns the newest event that is about the object and has one of the reasons, or nil.
func (v view) eventOf(object string, reasons ...string) *corev1.Event {
	var newest *corev1.Event
	for i := range v.Events {
		e := &v.Events[i]
		if e.InvolvedObject.Name == object && slices.Contains(reasons, e.Reason) &&
			(newest == nil || jobs.LastSeen(newest).Before(jobs.LastSeen(e))) {
			newest = e
		}
	}
	return newest
}

// mainContainer returns the main container of a replica: of its pod, or of its template if the pod is gone. Nil means
// that neither is known.
func (v view) mainContainer(replica string) *corev1.Container {
	var containers []corev1.Container
	if pod := v.pod(replica); pod != nil { // unlike the template, the pod can have the limits of a LimitRange
		containers = pod.Spec.Containers
	} else if role := v.roleOf(replica); role != nil {
		containers = role.Template.Spec.Containers
	}
	return framework.MainContainer(v.Job.Kind.MainContainers, containers)
}
