package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Workload is a snapshot of the Workload of a job.
type Workload struct {
	view.Snapshot[*kueuev1beta2.Workload]

	// Queue is the name of the LocalQueue that the job names.
	Queue string
	// Prebuilt is the name of the Workload that somebody else creates for the job. It is empty if the job controller
	// creates the Workload.
	Prebuilt string
	// Priority is the priority of a new Workload, or of a Workload whose job now names another priority class. It is
	// only known after a live read.
	Priority kueue.Priority
	// Flavors are the flavors that Kueue has assigned to the Workload, by name. They are only known after a live read.
	Flavors map[string]kueuev1beta2.ResourceFlavorSpec
	// Words is Kueue's message about why the Workload is not admitted. The message can be some minutes old. WordsDue is
	// the time until a newer message replaces this message. WordsDue is 0 if there is no newer message.
	Words    string
	WordsDue time.Duration

	// gates is the job's annotation with the names of the controllers that must allow the admission.
	gates map[string]string
	// parameters are the annotations of the job that a new Workload gets for its admission checks.
	parameters map[string]string
	// PriorityClass is the name of the WorkloadPriorityClass of the job. It is empty if the job names none.
	PriorityClass string
	// maxTime limits, in seconds, how long a new Workload stays admitted. Nil means no limit.
	maxTime *int32
	// Live reports whether the Workload was read from the API server. A Workload from the cache has no pod templates.
	Live bool
	now  time.Time
}

var _ view.Admission = Workload{}

// Is reports whether a condition of the Workload is True.
func (w Workload) Is(conditionType string) bool {
	return w.Object != nil && meta.IsStatusConditionTrue(w.Object.Status.Conditions, conditionType)
}

// WorkloadOf returns the snapshot of a job whose Workload is not read yet.
func WorkloadOf(job metav1.Object, spec *view.Job, now time.Time) Workload {
	seen := Workload{
		Queue: job.GetLabels()[kueuev1beta2.LabelQueueName], Prebuilt: kueue.Prebuilt(job), gates: gatesOf(job),
		maxTime: kueue.MaxTime(job), parameters: kueue.Parameters(job.GetAnnotations()),
		PriorityClass: job.GetLabels()[kueuev1beta2.LabelPriorityClass], now: now,
	}
	if spec.Spec.T9kScheduler() != nil {
		seen.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: fmt.Errorf(
			"the job has both spec.scheduler.t9kScheduler and the label %s: remove one of them", kueuev1beta2.LabelQueueName)}
		return seen
	}
	if errs := validation.IsDNS1123Subdomain(seen.Name(spec)); errs != nil {
		seen.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: fmt.Errorf(
			"%s is not the name of a Workload: %s", kueuev1beta2.PrebuiltWorkload, strings.Join(errs, ", "))}
	}
	return seen
}

// MaxAnnotation is the maximum length, in bytes, of an annotation that the job controller reads.
const MaxAnnotation = 1 << 10

// Gates has the key of the annotation with the names of the controllers that must allow the admission of a Workload.
var Gates = []string{kueuev1beta2.AnnotationAdmissionGatedBy}

// gatesOf returns the annotation with the names of the controllers that must allow the admission. The object is a job
// or a Workload. The result is nil if the object has no such annotation.
func gatesOf(object metav1.Object) map[string]string {
	return bounded.Pick(object.GetAnnotations(), Gates, MaxAnnotation)
}

// IsOwn reports whether the job with the given UID controls the Workload.
func (w Workload) IsOwn(job types.UID) bool {
	return w.Object != nil && view.IsControlledBy(w.Object, job)
}

// isAdmitted reports whether the job controls the Workload and the Workload is admitted. An evicted or finished
// Workload does not count as admitted.
func (w Workload) isAdmitted(job types.UID) bool {
	return w.IsOwn(job) && w.Object.DeletionTimestamp == nil && w.Is(kueuev1beta2.ConditionAdmitted) &&
		!w.Is(kueuev1beta2.ConditionEvicted) && !w.Is(kueuev1beta2.ConditionFinished)
}

// assignsNodes reports whether Kueue assigns the nodes of the pods (topology-aware scheduling).
func (w Workload) assignsNodes() bool {
	return w.Object.Status.Admission != nil && slices.ContainsFunc(w.Object.Status.Admission.PodSetAssignments,
		func(a kueuev1beta2.PodSetAssignment) bool { return a.TopologyAssignment != nil })
}

// Standing implements view.Admission. Replicas that run were admitted, so they go on while the Workload cannot be
// read. They also go on while there is no Workload, for example because Kueue is being removed. The job then creates
// another Workload. Once that exists, the pods that the former Workload admitted stop. If a prebuilt Workload does
// not exist, the replicas stop immediately, because the job cannot create it.
func (w Workload) Standing(job types.UID) view.Standing {
	standing := view.Standing{Unknown: w.Unknown, Waits: true}
	if w.IsOwn(job) {
		standing.UID = w.Object.UID
	}
	switch {
	case w.Unknown, w.Problem != nil, w.Object == nil && w.Prebuilt == "":
		return standing
	case w.Object == nil:
		standing.Stops = "the workload that was created for the job does not exist"
		return standing
	}
	standing.AssignsNodes = w.assignsNodes()
	if w.isAdmitted(job) {
		standing.Waits, standing.AdmittedBy = false, w.Object.UID
		return standing
	}
	standing.Stops = "Kueue has not admitted the workload of the job"
	if w.Is(kueuev1beta2.ConditionEvicted) {
		evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
		standing.Stops = fmt.Sprintf("Kueue has evicted the workload of the job (%s): %s", evicted.Reason, evicted.Message)
	}
	return standing
}

// Name returns the name of the Workload that the job needs.
func (w Workload) Name(job *view.Job) string { return cmp.Or(w.Prebuilt, job.Name) }

// Request returns how to create, update or delete the Workload, so that it matches the job. Pods wait until Kueue has
// admitted the Workload.
func (w Workload) Request(job *view.Job, need view.Need) view.Answer {
	name := w.Name(job)
	waits := view.Answer{Wait: &view.Wait{
		Reason:  batchv1beta1.ReasonQueued,
		Message: fmt.Sprintf("workload %s waits for Kueue in queue %s", name, w.Queue),
	}}
	switch {
	case w.Unknown:
		waits.RetryAfter = view.CacheDelay
		waits.Wait.Message = fmt.Sprintf("workload %s cannot be read yet", name)
		return waits
	case w.Problem != nil:
		return cannotHave(job, w.Problem)
	case w.Object == nil && w.Prebuilt != "":
		waits.RetryAfter = job.DependentRetry
		waits.Wait.Message = fmt.Sprintf("workload %s, which was to be created for the job, does not exist", name)
		return waits
	case w.Object == nil:
		if err := kueue.CheckTopology(need.Roles); err != nil {
			return cannotHave(job, &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: err})
		}
		waits.Change = view.Change{Action: batchv1beta1.ActionCreate, Wanted: w.wanted(job, need)}
		return waits
	case w.Object.DeletionTimestamp != nil:
		waits.Wait.Message = fmt.Sprintf("workload %s is being deleted", name)
		return waits
	case w.Prebuilt != "" && len(w.Object.OwnerReferences) == 0 && w.isOther(job, need):
		return w.replaced(waits, need, "is for other replicas")
	case w.Prebuilt != "" && len(w.Object.OwnerReferences) == 0:
		waits.Change = view.Change{Action: batchv1beta1.ActionUpdate, Seen: w.Object, Wanted: w.adopted(job)}
		return waits
	case !view.IsControlledBy(w.Object, job.UID):
		return cannotHave(job, report.NameConflict(view.TheJob, "workload "+name, w.Object))
	case w.Is(kueuev1beta2.ConditionFinished) && need.Elsewhere:
		return w.finishedElsewhere(job, waits)
	case w.Is(kueuev1beta2.ConditionFinished):
		return w.replaced(waits, need, "is finished although the job is not")
	case !w.isAdmitted(job.UID):
		return w.pending(job, need, waits)
	case need.Elsewhere:
		return view.Answer{Change: w.follow(need)}
	case w.Prebuilt != "" && w.isOther(job, need):
		return w.replaced(waits, need, "is for other replicas")
	case kueue.NeedsReclaimed(w.Object, need.Roles, need.Done):
		waits.Wait.Message = fmt.Sprintf("workload %s has given back quota that the job needs again", name)
		waits.Change = w.changeStatus(kueue.Evict)
		return waits
	}
	answer := view.Answer{Change: w.follow(need), Most: kueue.Admitted(w.Object)}
	if message := kueue.Exceeding(answer.Most, need.Roles); message != "" {
		answer.Wait = &view.Wait{Reason: batchv1beta1.ReasonQueued, Message: message, NeedsHelp: true}
	}
	return answer
}

// finishedElsewhere returns the answer about a finished Workload of a job that runs in another cluster. Kueue copies
// the final status of the job before it finishes the Workload. If the job has started, the cache lacks this status,
// so the answer is to wait for it. If the job has not even started, the answer has NeedsHelp, because the wait does
// not end by itself.
func (w Workload) finishedElsewhere(job *view.Job, waits view.Answer) view.Answer {
	if job.Status.StartTime != nil {
		return view.Answer{RetryAfter: job.DependentRetry} // the cache does not show the copied status yet
	}
	waits.RetryAfter = job.DependentRetry
	waits.Wait.Message = fmt.Sprintf("workload %s is finished although the job is not", w.Object.Name)
	waits.Wait.NeedsHelp = true
	return waits
}

// isOther reports whether the Workload is for other numbers of replicas than the job has, or for another queue. The
// numbers do not matter for an elastic job that is admitted. For a prebuilt Workload, the pod templates are compared
// instead of the queue, but only after a live read.
func (w Workload) isOther(job *view.Job, need view.Need) bool {
	isScaled := w.isAdmitted(job.UID) && job.Spec.Elastic != nil
	switch {
	case !isScaled && !kueue.HasCounts(w.Object, need.Roles):
		return true
	case w.Prebuilt != "":
		return w.Live && !kueue.Covers(w.Object, need.Roles)
	default:
		return w.Object.Spec.QueueName != w.Queue
	}
}

// wanted returns the Workload that the job needs. If another cluster runs the job, Kueue must admit all replicas or
// none in this cluster. The copy of the job has its own admission in the other cluster, which decides how many
// replicas run.
func (w Workload) wanted(job *view.Job, need view.Need) *kueuev1beta2.Workload {
	meta, spec := w.meta(job), job.Spec
	if len(w.gates)+len(w.parameters) > 0 {
		meta.Annotations = labels.Merge(w.gates, w.parameters)
	}
	if need.Elsewhere {
		spec.Elastic = nil
	}
	return &kueuev1beta2.Workload{
		ObjectMeta: meta,
		Spec: kueuev1beta2.WorkloadSpec{
			QueueName:                   w.Queue,
			PodSets:                     kueue.PodSets(spec, need.Roles, job.HelperResources),
			Priority:                    new(w.Priority.Value),
			PriorityClassRef:            w.Priority.Ref,
			MaximumExecutionTimeSeconds: w.maxTime,
		},
	}
}

// meta returns the metadata of a Workload that the job controls.
func (w Workload) meta(job *view.Job) metav1.ObjectMeta {
	meta := job.MetaOfOwned()
	meta.Labels[kueuev1beta2.LabelJobUID] = string(job.UID)
	return meta
}

// adopted returns the prebuilt Workload with the job as its controller, and with the labels by which the cache
// selects Workloads.
func (w Workload) adopted(job *view.Job) *kueuev1beta2.Workload {
	adopted, owned := w.Object.DeepCopy(), w.meta(job)
	adopted.OwnerReferences = owned.OwnerReferences
	adopted.Labels = labels.Merge(adopted.Labels, owned.Labels)
	return adopted
}

// Withdraw returns the change of the Workload of a job that needs no more pods. If the job has finished, the change
// reports its end to Kueue. If the job is paused and its pods are gone, the change deletes the Workload. A prebuilt
// Workload is not deleted, because the job cannot create it again. If a prebuilt Workload of a paused job is evicted,
// the change releases its quota.
func (w Workload) Withdraw(job *view.Job, rest view.Rest) view.Answer {
	switch {
	case w.Unknown:
		return view.Answer{RetryAfter: view.CacheDelay}
	case w.Problem != nil && w.Problem.Reason == batchv1beta1.ReasonReadFailed:
		return view.Answer{RetryAfter: job.DependentRetry}
	case w.Problem != nil, !w.IsOwn(job.UID), w.Object.DeletionTimestamp != nil:
		return view.Answer{}
	case rest.End != nil:
		return view.Answer{Change: w.changeStatus(func(updated *kueuev1beta2.Workload, now time.Time) {
			kueue.Finish(updated, *rest.End, now)
		})}
	case rest.Pods > 0 || job.Status.Decided() || w.Is(kueuev1beta2.ConditionFinished):
		return view.Answer{}
	case w.Prebuilt == "":
		return view.Answer{Change: view.Change{Action: batchv1beta1.ActionDelete, Seen: w.Object}}
	case w.Is(kueuev1beta2.ConditionEvicted) && w.Is(kueuev1beta2.ConditionQuotaReserved):
		return view.Answer{Change: w.changeStatus(kueue.ClearAdmission)}
	default:
		return view.Answer{}
	}
}

// Join adds the new pods to the Workload, and restricts them to the nodes of the flavors that Kueue has assigned to
// it.
func (w Workload) Join(_ *view.Job, creates []view.Creation, _ string, _ []*corev1.Pod) {
	for i := range creates {
		c := &creates[i]
		c.Join = func(pod *corev1.Pod) { kueue.Decorate(pod, w.Object, c.Type, w.Flavors) }
	}
}
