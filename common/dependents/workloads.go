package dependents

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/owned"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// Workloads reads and writes the Workloads of jobs. Kueue admits a job by its Workload.
type Workloads struct {
	store[*kueuev1beta2.Workload]

	words *Words
}

// NewWorkloads returns a Workloads that uses the clients of the cluster. The parameter words has the messages of
// Kueue that the statuses of jobs show.
func NewWorkloads(cluster Cluster, words *Words) *Workloads {
	return &Workloads{store: newStore(workloadKind(), cluster), words: words}
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
		annotations:  admission.Gates,
	}
}

// workloadStatusRead returns the fields of a Workload that can change the decision about its job.
func workloadStatusRead(w *kueuev1beta2.Workload) any {
	conditions := map[string]string{}
	for _, c := range w.Status.Conditions {
		conditions[c.Type] = string(c.Status) + c.Reason
	}
	return []any{conditions, wordsOf(w).words, w.Status.Admission, w.Spec.Active}
}

// stripWorkload removes the pod templates and topology requests of a Workload. Job controllers do not read these from
// a cache.
func stripWorkload(w *kueuev1beta2.Workload) {
	for i := range w.Spec.PodSets {
		w.Spec.PodSets[i].Template, w.Spec.PodSets[i].TopologyRequest = corev1.PodTemplateSpec{}, nil
	}
}

// workloadsNotInstalled returns the problem of a job that needs a Workload while the CRD of Workloads is not
// installed.
func workloadsNotInstalled(error) *report.RefusedError {
	return &report.RefusedError{Reason: batchv1beta1.ReasonNotInstalled, Err: fmt.Errorf(
		"the label %s needs Workloads of %s, which the API server does not have: no replica is created until Kueue 0.15 or "+
			"later is installed", kueuev1beta2.LabelQueueName, kueuev1beta2.GroupVersion)}
}

// Observe reads the Workload of a job from a cache. If live is true, it reads from the API server instead. A live
// read also reads the priority for a new Workload and the flavors for new pods.
func (w *Workloads) Observe(ctx context.Context, job client.Object, spec *view.Job, live bool) admission.Workload {
	seen := admission.WorkloadOf(job, spec, w.Clock.Now())
	if seen.Problem != nil {
		return seen
	}
	key := client.ObjectKey{Namespace: job.GetNamespace(), Name: seen.Name(spec)}
	seen.Live = live
	seen.Snapshot = w.observe(ctx, key, live)
	if seen.Prebuilt != "" && !seen.IsOwn(job.GetUID()) && !seen.Unknown && seen.Problem == nil {
		seen.Snapshot = w.read(ctx, w.APIReader, key) // the cache has only Workloads with the labels of a job
		seen.Live = true
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
		seen.Words, seen.WordsDue = w.words.latest(client.ObjectKeyFromObject(job), wordsOf(seen.Object), w.Clock.Now())
	}
	return seen
}

// readMore reads the flavors that are assigned to the Workload. It also reads the priority if a Workload must be
// created, or if the Workload has another priority class than the job.
func (w *Workloads) readMore(ctx context.Context, job client.Object, spec *view.Job, seen *admission.Workload) error {
	if seen.Object == nil && seen.Prebuilt == "" || seen.HasOtherPriority() {
		var err error
		seen.Priority, err = w.priorityOf(ctx, job, spec)
		switch {
		case err == nil:
		case seen.Is(kueuev1beta2.ConditionQuotaReserved):
			seen.PriorityClass = "" // no error: an evicted job with a wrong label must be able to release its quota
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

// priorityOf returns the priority of a new Workload of the job. The priority is from the WorkloadPriorityClass of the
// job. If the job has none, the priority is from the PriorityClass of its pods, or from the default PriorityClass.
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
