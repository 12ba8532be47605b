package dependents

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// Workloads reads and writes the Workloads of jobs, by which Kueue admits them.
type Workloads struct {
	store[*kueuev1beta2.Workload]

	clock clock.PassiveClock
	words *Words
}

// NewWorkloads returns the Workloads of a cluster. words are the words of Kueue that jobs show.
func NewWorkloads(cluster Cluster, words *Words, clock clock.PassiveClock) *Workloads {
	return &Workloads{
		store: store[*kueuev1beta2.Workload]{kind: workloadKind(), Cluster: cluster}, words: words, clock: clock,
	}
}

// workloadKind returns the description of the kind Workload.
func workloadKind() kind[*kueuev1beta2.Workload] {
	return kind[*kueuev1beta2.Workload]{
		name:         "workload",
		newObject:    func() *kueuev1beta2.Workload { return &kueuev1beta2.Workload{} },
		newList:      func() client.ObjectList { return &kueuev1beta2.WorkloadList{} },
		reported:     workloadStatusRead,
		strip:        stripWorkload,
		notInstalled: workloadsNotInstalled,
		keepsRunning: true,
	}
}

// workloadStatusRead returns what can change what a job does about its Workload.
func workloadStatusRead(w *kueuev1beta2.Workload) any {
	conditions := map[string]string{}
	for _, c := range w.Status.Conditions {
		conditions[c.Type] = string(c.Status) + c.Reason
	}
	return []any{conditions, wordsOf(w).words, w.Status.Admission, w.Spec.Active}
}

// stripWorkload removes what the job controllers do not read, above all the templates.
func stripWorkload(w *kueuev1beta2.Workload) {
	for i := range w.Spec.PodSets {
		w.Spec.PodSets[i].Template = corev1.PodTemplateSpec{}
	}
}

// workloadsNotInstalled returns the problem of a job that needs a Workload if the CRD is not installed.
func workloadsNotInstalled(error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the label %s needs Workloads of %s, but their CustomResourceDefinition is not installed: no replica is created "+
			"until Kueue 0.15 or later is installed", kueuev1beta2.LabelQueueName, kueuev1beta2.GroupVersion)}
}

// Observe reads the Workload of a job from a cache. If live is true, it reads from the API server instead. Only then it
// also reads what a new Workload or a new pod needs.
func (w *Workloads) Observe(ctx context.Context, job client.Object, spec *plan.Job, live bool) Workload {
	seen := Workload{Queue: job.GetLabels()[kueuev1beta2.LabelQueueName], now: w.clock.Now()}
	if spec.Spec.T9kScheduler() != nil {
		seen.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: fmt.Errorf(
			"the job has both spec.scheduler.t9kScheduler and the label %s: remove one of them", kueuev1beta2.LabelQueueName)}
		return seen
	}
	reader, problem := w.reader(ctx, job.GetNamespace())
	if reader == nil {
		seen.Unknown, seen.Problem = problem == nil, problem
		return seen
	}
	if live {
		reader = w.APIReader
	}
	seen.View = w.read(ctx, reader, job)
	if live && seen.Problem == nil && !seen.Unknown {
		switch err := w.readMore(ctx, job, spec, &seen); {
		case err == nil:
		case owned.IsRefused(err), apierrors.IsNotFound(err):
			seen.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonReadFailed, Err: err}
		default:
			seen.Unknown = true
		}
	}
	if seen.Object != nil {
		seen.Words, seen.WordsDue = w.words.latest(client.ObjectKeyFromObject(job), wordsOf(seen.Object), w.clock.Now())
	}
	return seen
}

// readMore reads the flavors that the Workload is assigned, or the priority if there is no Workload.
func (w *Workloads) readMore(ctx context.Context, job client.Object, spec *plan.Job, seen *Workload) error {
	if seen.Object == nil {
		var err error
		seen.Priority, err = w.priorityOf(ctx, job, spec)
		return err
	}
	if seen.Object.Status.Admission == nil {
		return nil
	}
	seen.Flavors = map[string]kueuev1beta2.ResourceFlavorSpec{}
	for _, assignment := range seen.Object.Status.Admission.PodSetAssignments {
		for _, name := range assignment.Flavors {
			if _, known := seen.Flavors[name]; known {
				continue
			}
			var flavor kueuev1beta2.ResourceFlavor
			if err := w.APIReader.Get(ctx, client.ObjectKey{Name: name}, &flavor); err != nil {
				return fmt.Errorf("reading the resourceflavor %s that the workload is assigned: %w", name, err)
			}
			seen.Flavors[name] = flavor.Spec
		}
	}
	return nil
}

// priorityOf returns the priority that a new Workload of the job gets: that of its WorkloadPriorityClass, otherwise
// that of the PriorityClass of its pods, otherwise that of the default PriorityClass.
func (w *Workloads) priorityOf(ctx context.Context, job client.Object, spec *plan.Job) (kueue.Priority, error) {
	if name := job.GetLabels()[kueuev1beta2.LabelPriorityClass]; name != "" {
		var class kueuev1beta2.WorkloadPriorityClass
		if err := w.APIReader.Get(ctx, client.ObjectKey{Name: name}, &class); err != nil {
			return kueue.Priority{}, fmt.Errorf("reading the workloadpriorityclass %s of the label %s: %w", name,
				kueuev1beta2.LabelPriorityClass, err)
		}
		return kueue.Priority{Value: class.Value, Ref: &kueuev1beta2.PriorityClassRef{
			Group: kueuev1beta2.GroupVersion.Group, Kind: "WorkloadPriorityClass", Name: name,
		}}, nil
	}
	var classes schedulingv1.PriorityClassList
	if err := w.APIReader.List(ctx, &classes); err != nil {
		return kueue.Priority{}, fmt.Errorf("reading the priorityclasses: %w", err)
	}
	return kueue.PriorityOf(spec.Spec.Roles, classes.Items), nil
}

// Apply makes a change of the Workload of a job. Its errors are those of PodGroups.Apply.
func (w *Workloads) Apply(ctx context.Context, job client.Object, change plan.Change) error {
	err := w.write(ctx, job, change)
	if change.Action == batchv1beta1.ActionUpdate && owned.IsRefused(err) {
		return &report.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: err}
	}
	return err
}

// Workload is a snapshot of the Workload of a job.
type Workload struct {
	View[*kueuev1beta2.Workload]

	// Queue is the name of the LocalQueue that the job is for.
	Queue string
	// Priority is the priority of a new Workload. It is only known after a live read.
	Priority kueue.Priority
	// Flavors are the flavors that the Workload is assigned, by name. They are only known after a live read.
	Flavors map[string]kueuev1beta2.ResourceFlavorSpec
	// Words is why the Workload is not admitted, in the words of Kueue. They can be some minutes old. WordsDue is how long
	// until newer words can be shown. It is 0 if there are none.
	Words    string
	WordsDue time.Duration

	now time.Time
}

var _ plan.Admission = Workload{}

// is reports whether a condition of the Workload is True.
func (w Workload) is(conditionType string) bool {
	return w.Object != nil && meta.IsStatusConditionTrue(w.Object.Status.Conditions, conditionType)
}

// isAdmitted reports whether the pods of the job may run.
func (w Workload) isAdmitted(job types.UID) bool {
	return w.OwnUID(job) != "" && w.Object.DeletionTimestamp == nil && w.is(kueuev1beta2.ConditionAdmitted) &&
		!w.is(kueuev1beta2.ConditionEvicted) && !w.is(kueuev1beta2.ConditionFinished)
}

// Standing implements plan.Admission. While the Workload cannot be read, the replicas that run go on: they were
// admitted. They also go on while there is no Workload, since that is so when Kueue is being removed. Otherwise, the
// job gets another Workload, and pods that the former one admitted stop.
func (w Workload) Standing(job types.UID) plan.Standing {
	switch {
	case w.Unknown, w.Problem != nil, w.Object == nil:
		return plan.Standing{Waits: true}
	case w.isAdmitted(job):
		return plan.Standing{AdmittedBy: w.Object.UID}
	}
	standing := plan.Standing{Waits: true, Stops: "Kueue has not admitted the workload of the job"}
	if w.is(kueuev1beta2.ConditionEvicted) {
		evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
		standing.Stops = fmt.Sprintf("Kueue has evicted the workload of the job (%s): %s", evicted.Reason, evicted.Message)
	}
	return standing
}

// Request creates or updates the Workload as the job needs it. Pods wait until Kueue has admitted it.
func (w Workload) Request(job *plan.Job, need plan.Need) plan.Answer {
	waits := plan.Answer{Wait: &plan.Wait{
		Reason:  batchv1beta1.ReasonQueued,
		Message: fmt.Sprintf("workload %s waits for Kueue in queue %s", job.Name, w.Queue),
	}}
	switch {
	case w.Unknown:
		waits.RetryAfter = plan.CacheDelay
		waits.Wait.Message = fmt.Sprintf("workload %s cannot be read yet", job.Name)
		return waits
	case w.Problem != nil:
		return cannotHave(job, w.Problem)
	case w.Object != nil && !plan.IsControlledBy(w.Object, job.UID):
		return cannotHave(job, report.NameConflict(plan.TheJob, "workload "+job.Name, w.Object))
	case w.Object == nil:
		waits.Change = plan.Change{Action: batchv1beta1.ActionCreate, Wanted: w.wanted(job, need)}
		return waits
	case w.Object.DeletionTimestamp != nil:
		waits.Wait.Message = fmt.Sprintf("workload %s is being deleted and will be recreated", job.Name)
		return waits
	case w.is(kueuev1beta2.ConditionFinished):
		return w.replaced(waits, need, "is finished although the job is not")
	case !w.isAdmitted(job.UID):
		return w.pending(job, need, waits)
	}
	answer := plan.Answer{Change: w.report(need), Most: kueue.Admitted(w.Object)}
	if message := kueue.Exceeding(answer.Most, need.Roles); message != "" {
		answer.Wait = &plan.Wait{Reason: batchv1beta1.ReasonQueued, Message: message, NeedsHelp: true}
	}
	return answer
}

// wanted returns the Workload that the job needs.
func (w Workload) wanted(job *plan.Job, need plan.Need) *kueuev1beta2.Workload {
	return &kueuev1beta2.Workload{
		ObjectMeta: job.MetaOfOwned(),
		Spec: kueuev1beta2.WorkloadSpec{
			QueueName:        w.Queue,
			PodSets:          kueue.PodSets(need.Roles),
			Priority:         new(w.Priority.Value),
			PriorityClassRef: w.Priority.Ref,
		},
	}
}

// pending returns the answer about a Workload that is not admitted.
func (w Workload) pending(job *plan.Job, need plan.Need, waits plan.Answer) plan.Answer {
	evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
	isEvicted := evicted != nil && evicted.Status == metav1.ConditionTrue
	isReserved := w.is(kueuev1beta2.ConditionQuotaReserved)
	switch {
	case w.Object.Spec.Active != nil && !*w.Object.Spec.Active:
		waits.Wait.Message = fmt.Sprintf("workload %s is not active: set its spec.active to true", job.Name)
		waits.Wait.NeedsHelp = true
	case isEvicted && isReserved:
		waits.Wait.Message = fmt.Sprintf("workload %s was evicted: %s", job.Name, evicted.Message)
	case w.Words != "":
		waits.Wait.Message, waits.RetryAfter = w.Words, w.WordsDue
	}
	if need.Pods > 0 {
		return waits // the pods of the withdrawn admission still hold its resources
	}
	switch {
	case isEvicted && isReserved:
		waits.Change = w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
			kueue.ClearAdmission(status, *evicted, w.Object.Generation, w.now)
		})
	case !isReserved && (w.Object.Spec.QueueName != w.Queue || !kueue.HasCounts(w.Object, need.Roles)):
		return w.replaced(waits, need, "is for other replicas")
	}
	return waits
}

// replaced returns the answer about a Workload that is deleted, so that the job gets another one.
func (w Workload) replaced(waits plan.Answer, need plan.Need, why string) plan.Answer {
	waits.Wait.Message = fmt.Sprintf("workload %s %s, and is replaced", w.Object.Name, why)
	if need.Pods == 0 {
		waits.Change = plan.Change{Action: batchv1beta1.ActionDelete, Seen: w.Object}
	}
	return waits
}

// report returns the change that tells Kueue whether the pods are ready, and how many resources are no longer needed.
func (w Workload) report(need plan.Need) plan.Change {
	return w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
		kueue.SetPodsReady(status, need.Ready, w.Object.Generation, w.now)
		kueue.Reclaim(status, w.Object.Spec.PodSets, need.Done)
	})
}

// changeStatus returns a change of the status. It returns no change if the status stays the same.
func (w Workload) changeStatus(change func(*kueuev1beta2.WorkloadStatus)) plan.Change {
	updated := w.Object.DeepCopy()
	change(&updated.Status)
	if kueue.SameStatus(w.Object.Status, updated.Status) {
		return plan.Change{}
	}
	return plan.Change{Action: batchv1beta1.ActionUpdate, OfStatus: true, Seen: w.Object, Wanted: updated}
}

// Release reports the end of the job to Kueue, or deletes the Workload of a paused job once its pods are gone.
func (w Workload) Release(job *plan.Job, rest plan.Rest) plan.Answer {
	switch {
	case w.Unknown:
		return plan.Answer{RetryAfter: plan.CacheDelay}
	case w.Problem != nil && w.Problem.Reason == batchv1beta1.ReasonReadFailed:
		return plan.Answer{RetryAfter: job.DependentRetry}
	case w.Problem != nil, w.OwnUID(job.UID) == "", w.Object.DeletionTimestamp != nil:
		return plan.Answer{}
	case rest.End != nil:
		return plan.Answer{Change: w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
			kueue.Finish(status, *rest.End, w.Object.Generation, w.now)
		})}
	case rest.Pods == 0 && !job.Status.Decided():
		return plan.Answer{Change: plan.Change{Action: batchv1beta1.ActionDelete, Seen: w.Object}}
	default:
		return plan.Answer{}
	}
}

// Join makes the pods to create pods of the Workload, with the nodes of the flavors that it is assigned.
func (w Workload) Join(_ *plan.Job, creates []plan.Creation, _ string, _ []*corev1.Pod) {
	infos := map[string]kueue.PodInfo{}
	for i := range creates {
		c := &creates[i]
		info, ok := infos[c.Type]
		if !ok {
			info = kueue.PodInfoOf(w.Object, c.Type, w.Flavors)
			infos[c.Type] = info
		}
		c.Join = info.Decorate
	}
}

// WhyPending implements plan.Admission. The pod itself has the reason.
func (w Workload) WhyPending(*plan.Job, *corev1.Pod) (reason, message string, known bool) {
	return "", "", false
}

// Expired implements plan.Admission. Kueue evicts a Workload that exceeds its maximum time.
func (w Workload) Expired(types.UID) (message string, expired bool) { return "", false }

// IsUnknown implements plan.Admission.
func (w Workload) IsUnknown() bool { return w.Unknown }

// OwnUID implements plan.Admission.
func (w Workload) OwnUID(job types.UID) types.UID {
	if w.Object == nil || !plan.IsControlledBy(w.Object, job) {
		return ""
	}
	return w.Object.UID
}
