package dependents

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
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
		store: newStore(workloadKind(), cluster), words: words, clock: clock,
	}
}

// copyPatience is how long an evicted job keeps its quota at most, while its copy in another cluster has pods. The
// cluster might be lost.
const copyPatience = 5 * time.Minute

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
		annotations:  gates,
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

// stripWorkload removes what the job controllers do not read from a cache, above all the templates.
func stripWorkload(w *kueuev1beta2.Workload) {
	for i := range w.Spec.PodSets {
		w.Spec.PodSets[i].Template, w.Spec.PodSets[i].TopologyRequest = corev1.PodTemplateSpec{}, nil
	}
}

// workloadsNotInstalled returns the problem of a job that needs a Workload if the CRD is not installed.
func workloadsNotInstalled(error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the label %s needs Workloads of %s, which the API server does not have: no replica is created until Kueue 0.15 or "+
			"later is installed", kueuev1beta2.LabelQueueName, kueuev1beta2.GroupVersion)}
}

// Observe reads the Workload of a job from a cache. If live is true, it reads from the API server instead. Only then it
// also reads what a new Workload or a new pod needs.
func (w *Workloads) Observe(ctx context.Context, job client.Object, spec *view.Job, live bool) Workload {
	seen := WorkloadOf(job, spec, w.clock.Now())
	if seen.Problem != nil {
		return seen
	}
	key := client.ObjectKey{Namespace: job.GetNamespace(), Name: seen.name(spec)}
	reader, problem := w.reader(ctx, job.GetNamespace())
	if reader == nil {
		seen.Unknown, seen.Problem = problem == nil, problem
		return seen
	}
	seen.live = live
	if live {
		reader = w.APIReader
	}
	seen.Snapshot = w.read(ctx, reader, key)
	if seen.Prebuilt != "" && !seen.isOwn(job.GetUID()) && !seen.Unknown && seen.Problem == nil {
		seen.Snapshot = w.read(ctx, w.APIReader, key) // the cache does not have it until it has the labels of the job
		seen.live = true
	}
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

// WorkloadOf returns the snapshot of a job that has no Workload yet.
func WorkloadOf(job client.Object, spec *view.Job, now time.Time) Workload {
	seen := Workload{
		Queue: job.GetLabels()[kueuev1beta2.LabelQueueName], Prebuilt: kueue.Prebuilt(job), gates: gatesOf(job),
		maxTime: kueue.MaxTime(job), parameters: kueue.Parameters(job.GetAnnotations()),
		priorityClass: job.GetLabels()[kueuev1beta2.LabelPriorityClass], now: now,
	}
	if spec.Spec.T9kScheduler() != nil {
		seen.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: fmt.Errorf(
			"the job has both spec.scheduler.t9kScheduler and the label %s: remove one of them", kueuev1beta2.LabelQueueName)}
		return seen
	}
	if errs := validation.IsDNS1123Subdomain(seen.name(spec)); errs != nil {
		seen.Problem = &report.RefusedError{Reason: batchv1beta1.ReasonInvalidTemplate, Err: fmt.Errorf(
			"%s is not the name of a Workload: %s", kueuev1beta2.PrebuiltWorkload, strings.Join(errs, ", "))}
	}
	return seen
}

// gates has the name of the annotation that gatesOf returns.
var gates = []string{kueuev1beta2.AnnotationAdmissionGatedBy}

// gatesOf returns the annotation of a job or a Workload with the controllers that must allow the admission. It returns
// nil if there is none.
func gatesOf(object client.Object) map[string]string {
	return bounded.Pick(object.GetAnnotations(), gates, maxAnnotation)
}

// readMore reads the flavors that the Workload is assigned, and the priority if there is no Workload or if it has
// another priority class than the job.
func (w *Workloads) readMore(ctx context.Context, job client.Object, spec *view.Job, seen *Workload) error {
	if seen.Object == nil && seen.Prebuilt == "" || seen.hasOtherPriority() {
		var err error
		seen.Priority, err = w.priorityOf(ctx, job, spec)
		switch {
		case err == nil:
		case seen.is(kueuev1beta2.ConditionQuotaReserved):
			seen.priorityClass = "" // a job with a wrong label must be evicted as others, and can release its quota
		default:
			return err
		}
	}
	if seen.Object == nil || seen.Object.Status.Admission == nil {
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
func (w *Workloads) priorityOf(ctx context.Context, job client.Object, spec *view.Job) (kueue.Priority, error) {
	if name := job.GetLabels()[kueuev1beta2.LabelPriorityClass]; name != "" {
		var class kueuev1beta2.WorkloadPriorityClass
		if err := w.APIReader.Get(ctx, client.ObjectKey{Name: name}, &class); err != nil {
			return kueue.Priority{}, fmt.Errorf("reading the workloadpriorityclass %s of the label %s: %w", name,
				kueuev1beta2.LabelPriorityClass, err)
		}
		return kueue.Priority{Value: class.Value, Ref: &kueuev1beta2.PriorityClassRef{
			Group: kueuev1beta2.GroupVersion.Group, Kind: kueue.PriorityClassKind, Name: name,
		}}, nil
	}
	var classes schedulingv1.PriorityClassList
	if err := w.APIReader.List(ctx, &classes); err != nil {
		return kueue.Priority{}, fmt.Errorf("reading the priorityclasses: %w", err)
	}
	return kueue.PriorityOf(spec.Spec.Roles, classes.Items), nil
}

// Apply makes a change of the Workload of a job. Its errors are those of PodGroups.Apply.
func (w *Workloads) Apply(ctx context.Context, job client.Object, change view.Change) error {
	err := w.write(ctx, job, change)
	if change.Action == batchv1beta1.ActionUpdate && owned.IsRefused(err) {
		return &report.RefusedError{Reason: batchv1beta1.ReasonUpdateFailed, Err: err}
	}
	return err
}

// Workload is a snapshot of the Workload of a job.
type Workload struct {
	view.Snapshot[*kueuev1beta2.Workload]

	// Queue is the name of the LocalQueue that the job is for.
	Queue string
	// Prebuilt is the name of the Workload that was created for the job. It is empty if the job creates one.
	Prebuilt string
	// Priority is the priority of a new Workload, or of one whose job has got another priority class. It is only known
	// after a live read.
	Priority kueue.Priority
	// Flavors are the flavors that the Workload is assigned, by name. They are only known after a live read.
	Flavors map[string]kueuev1beta2.ResourceFlavorSpec
	// Words is why the Workload is not admitted, in the words of Kueue. They can be some minutes old. WordsDue is how
	// long until newer words can be shown. It is 0 if there are none.
	Words    string
	WordsDue time.Duration

	// gates is the annotation of the job with the names of the controllers that must allow the admission.
	gates map[string]string
	// parameters are the annotations of the job that a new Workload gets for its admission checks.
	parameters map[string]string
	// priorityClass is the name of the WorkloadPriorityClass of the job. It is empty if it names none.
	priorityClass string
	// maxTime is for how many seconds a new Workload can be admitted. Nil means no limit.
	maxTime *int32
	// live reports whether the Workload was read from the API server. The cache has no templates.
	live bool
	now  time.Time
}

var _ view.Admission = Workload{}

// is reports whether a condition of the Workload is True.
func (w Workload) is(conditionType string) bool {
	return w.Object != nil && meta.IsStatusConditionTrue(w.Object.Status.Conditions, conditionType)
}

// isOwn reports whether the job with the given UID controls the Workload.
func (w Workload) isOwn(job types.UID) bool {
	return w.Object != nil && view.IsControlledBy(w.Object, job)
}

// isAdmitted reports whether the pods of the job may run.
func (w Workload) isAdmitted(job types.UID) bool {
	return w.isOwn(job) && w.Object.DeletionTimestamp == nil && w.is(kueuev1beta2.ConditionAdmitted) &&
		!w.is(kueuev1beta2.ConditionEvicted) && !w.is(kueuev1beta2.ConditionFinished)
}

// assignsNodes reports whether Kueue assigns the nodes of the pods (topology-aware scheduling).
func (w Workload) assignsNodes() bool {
	return w.Object.Status.Admission != nil && slices.ContainsFunc(w.Object.Status.Admission.PodSetAssignments,
		func(a kueuev1beta2.PodSetAssignment) bool { return a.TopologyAssignment != nil })
}

// Standing implements view.Admission. While the Workload cannot be read, the replicas that run go on: they were
// admitted. They also go on while there is no Workload, since that is so when Kueue is being removed: the job creates
// another one, and pods that the former one admitted stop. The job cannot create a prebuilt Workload, so they stop.
func (w Workload) Standing(job types.UID) view.Standing {
	standing := view.Standing{Unknown: w.Unknown, Waits: true}
	if w.isOwn(job) {
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
	if w.is(kueuev1beta2.ConditionEvicted) {
		evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
		standing.Stops = fmt.Sprintf("Kueue has evicted the workload of the job (%s): %s", evicted.Reason, evicted.Message)
	}
	return standing
}

// name returns the name of the Workload that the job needs.
func (w Workload) name(job *view.Job) string { return cmp.Or(w.Prebuilt, job.Name) }

// Request creates or updates the Workload as the job needs it. Pods wait until Kueue has admitted it.
func (w Workload) Request(job *view.Job, need view.Need) view.Answer {
	name := w.name(job)
	waits := view.Answer{Wait: &view.Wait{
		Reason:  batchv1beta1.ReasonQueued,
		Message: fmt.Sprintf("workload %s waits for Kueue in queue %s", name, w.Queue),
	}}
	switch {
	case w.Unknown:
		waits.RetryAfter = plan.CacheDelay
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
	case w.is(kueuev1beta2.ConditionFinished) && need.Elsewhere:
		return w.finishedElsewhere(job, waits)
	case w.is(kueuev1beta2.ConditionFinished):
		return w.replaced(waits, need, "is finished although the job is not")
	case !w.isAdmitted(job.UID):
		return w.pending(job, need, waits)
	case need.Elsewhere:
		return view.Answer{Change: w.follow(need)}
	case w.Prebuilt != "" && w.isOther(job, need):
		return w.replaced(waits, need, "is for other replicas")
	case kueue.NeedsReclaimed(w.Object, need.Roles, need.Done):
		waits.Wait.Message = fmt.Sprintf("workload %s has given back quota that the job needs again", name)
		waits.Change = w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
			kueue.Evict(status, w.Object.Generation, w.now)
		})
		return waits
	}
	answer := view.Answer{Change: w.follow(need), Most: kueue.Admitted(w.Object)}
	if message := kueue.Exceeding(answer.Most, need.Roles); message != "" {
		answer.Wait = &view.Wait{Reason: batchv1beta1.ReasonQueued, Message: message, NeedsHelp: true}
	}
	return answer
}

// finishedElsewhere returns the answer if Kueue has finished the Workload of a job that runs in another cluster. It has
// copied the status of the job before.
func (w Workload) finishedElsewhere(job *view.Job, waits view.Answer) view.Answer {
	if job.Status.StartTime != nil {
		return view.Answer{RetryAfter: job.DependentRetry} // the cache does not show the copied status yet
	}
	waits.RetryAfter = job.DependentRetry
	waits.Wait.Message = fmt.Sprintf("workload %s is finished although the job is not", w.Object.Name)
	waits.Wait.NeedsHelp = true
	return waits
}

// isOther reports whether the Workload is for other replicas than the job has, or for another queue. The templates of a
// prebuilt Workload are compared after a live read. Its queue is not compared.
func (w Workload) isOther(job *view.Job, need view.Need) bool {
	isScaled := w.isAdmitted(job.UID) && job.Spec.Elastic != nil
	switch {
	case !isScaled && !kueue.HasCounts(w.Object, need.Roles):
		return true
	case w.Prebuilt != "":
		return w.live && !kueue.Covers(w.Object, need.Roles)
	default:
		return w.Object.Spec.QueueName != w.Queue
	}
}

// wanted returns the Workload that the job needs. In another cluster, a part of the replicas cannot be admitted, since
// the admission there is another one.
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

// adopted returns the prebuilt Workload with the job as its controller, and with the labels by which the cache has it.
func (w Workload) adopted(job *view.Job) *kueuev1beta2.Workload {
	adopted, owned := w.Object.DeepCopy(), w.meta(job)
	adopted.OwnerReferences = owned.OwnerReferences
	adopted.Labels = labels.Merge(adopted.Labels, owned.Labels)
	return adopted
}

// pending returns the answer about a Workload that is not admitted.
func (w Workload) pending(job *view.Job, need view.Need, waits view.Answer) view.Answer {
	name := w.Object.Name
	evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
	isEvicted := evicted != nil && evicted.Status == metav1.ConditionTrue
	isReserved := w.is(kueuev1beta2.ConditionQuotaReserved)
	if isEvicted && isReserved && need.Elsewhere && need.Pods > 0 {
		if left := copyPatience - w.now.Sub(evicted.LastTransitionTime.Time); left > 0 {
			return view.Answer{RetryAfter: left} // Kueue evicts the copy
		}
		need.Pods = 0
	}
	switch {
	case w.Object.Spec.Active != nil && !*w.Object.Spec.Active:
		waits.Wait.Message = fmt.Sprintf("workload %s is not active: set its spec.active to true", name)
		if evicted != nil && evicted.Message != "" {
			waits.Wait.Message += "; " + evicted.Message
		}
		waits.Wait.NeedsHelp = true
	case isEvicted && isReserved:
		waits.Wait.Message = fmt.Sprintf("workload %s was evicted: %s", name, evicted.Message)
	case w.Words != "":
		waits.Wait.Message, waits.RetryAfter = w.Words, w.WordsDue
	}
	if need.Pods > 0 && !need.Elsewhere {
		return waits // the pods of the withdrawn admission still hold its resources
	}
	switch {
	case isEvicted && isReserved:
		waits.Change = w.clearAdmission()
	case !isReserved && w.isOther(job, need):
		return w.replaced(waits, need, "is for other replicas")
	case w.hasOtherPriority():
		waits.Change = w.withPriority()
	case w.Prebuilt == "" && w.opensGate():
		waits.Change = view.Change{Action: batchv1beta1.ActionUpdate, Seen: w.Object, Wanted: w.gated()}
	}
	return waits
}

// opensGate reports whether the job waits for fewer controllers than its Workload. Kueue refuses to add one.
func (w Workload) opensGate() bool {
	names := func(of map[string]string) []string {
		return strings.FieldsFunc(of[kueuev1beta2.AnnotationAdmissionGatedBy], func(r rune) bool { return r == ',' })
	}
	before, now := names(gatesOf(w.Object)), names(w.gates)
	return len(now) < len(before) &&
		!slices.ContainsFunc(now, func(gate string) bool { return !slices.Contains(before, gate) })
}

// gated returns the Workload with the annotation of the job about the controllers that must allow the admission.
func (w Workload) gated() *kueuev1beta2.Workload {
	gated := w.Object.DeepCopy()
	delete(gated.Annotations, kueuev1beta2.AnnotationAdmissionGatedBy)
	gated.Annotations = labels.Merge(gated.Annotations, w.gates)
	return gated
}

// replaced returns the answer about a Workload that is deleted, so that the job gets another one. Only the creator of a
// prebuilt Workload can replace it.
func (w Workload) replaced(waits view.Answer, need view.Need, why string) view.Answer {
	if w.Prebuilt != "" {
		waits.Wait.Message = fmt.Sprintf("workload %s, which was created for the job, %s", w.Object.Name, why)
		waits.Wait.NeedsHelp = true
		return waits
	}
	waits.Wait.Message = fmt.Sprintf("workload %s %s, and is replaced", w.Object.Name, why)
	if need.Pods == 0 || need.Elsewhere {
		waits.Change = view.Change{Action: batchv1beta1.ActionDelete, Seen: w.Object}
	}
	return waits
}

// hasOtherPriority reports whether the job names another WorkloadPriorityClass than its Workload has. As for the jobs
// of Kueue, a Workload keeps the priority of a PriorityClass, and one that has quota gets no class if it has none.
func (w Workload) hasOtherPriority() bool {
	if w.Object == nil || w.Prebuilt != "" || w.priorityClass == "" {
		return false
	}
	ref := w.Object.Spec.PriorityClassRef
	if ref == nil {
		return !w.is(kueuev1beta2.ConditionQuotaReserved)
	}
	return ref.Kind == kueue.PriorityClassKind && ref.Name != w.priorityClass
}

// withPriority returns the change that gives the Workload the priority class of the job. It keeps its place among the
// Workloads of that priority.
func (w Workload) withPriority() view.Change {
	changed := w.Object.DeepCopy()
	changed.Spec.Priority, changed.Spec.PriorityClassRef = new(w.Priority.Value), w.Priority.Ref
	return view.Change{Action: batchv1beta1.ActionUpdate, Seen: w.Object, Wanted: changed}
}

// follow returns the change after which the Workload shows the state and the priority of the job.
func (w Workload) follow(need view.Need) view.Change {
	if change := w.report(need); change.Action != "" || !w.hasOtherPriority() {
		return change
	}
	return w.withPriority()
}

// report returns the change that tells Kueue whether the pods are ready, and how many replicas never run again.
func (w Workload) report(need view.Need) view.Change {
	return w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
		kueue.SetPodsReady(status, w.areReady(need), w.Object.Generation, w.now)
		kueue.Reclaim(status, w.Object.Spec.PodSets, need.Spent)
	})
}

// areReady reports whether each replica that is admitted is ready or has ended.
func (w Workload) areReady(need view.Need) bool {
	admitted := kueue.Admitted(w.Object)
	return !slices.ContainsFunc(need.Roles, func(role framework.Role) bool {
		return need.Ready[role.Type] < min(role.Replicas, admitted[role.Type])
	})
}

// clearAdmission returns the change that returns the quota of an evicted Workload.
func (w Workload) clearAdmission() view.Change {
	evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
	return w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
		kueue.ClearAdmission(status, *evicted, w.Object.Generation, w.now)
	})
}

// changeStatus returns a change of the status. It returns no change if the status stays the same.
func (w Workload) changeStatus(change func(*kueuev1beta2.WorkloadStatus)) view.Change {
	updated := w.Object.DeepCopy()
	change(&updated.Status)
	if kueue.SameStatus(w.Object.Status, updated.Status) {
		return view.Change{}
	}
	return view.Change{Action: batchv1beta1.ActionUpdate, OfStatus: true, Seen: w.Object, Wanted: updated}
}

// Release reports the end of the job to Kueue, or deletes the Workload of a paused job once its pods are gone. The job
// cannot create a prebuilt Workload again, so it stays.
func (w Workload) Release(job *view.Job, rest view.Rest) view.Answer {
	switch {
	case w.Unknown:
		return view.Answer{RetryAfter: plan.CacheDelay}
	case w.Problem != nil && w.Problem.Reason == batchv1beta1.ReasonReadFailed:
		return view.Answer{RetryAfter: job.DependentRetry}
	case w.Problem != nil, !w.isOwn(job.UID), w.Object.DeletionTimestamp != nil:
		return view.Answer{}
	case rest.End != nil:
		return view.Answer{Change: w.changeStatus(func(status *kueuev1beta2.WorkloadStatus) {
			kueue.Finish(status, *rest.End, w.Object.Generation, w.now)
		})}
	case rest.Pods > 0 || job.Status.Decided() || w.is(kueuev1beta2.ConditionFinished):
		return view.Answer{}
	case w.Prebuilt == "":
		return view.Answer{Change: view.Change{Action: batchv1beta1.ActionDelete, Seen: w.Object}}
	case w.is(kueuev1beta2.ConditionEvicted) && w.is(kueuev1beta2.ConditionQuotaReserved):
		return view.Answer{Change: w.clearAdmission()}
	default:
		return view.Answer{}
	}
}

// Join makes the pods to create pods of the Workload, with the nodes of the flavors that it is assigned.
func (w Workload) Join(_ *view.Job, creates []view.Creation, _ string, _ []*corev1.Pod) {
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
