package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/plan/view"
)

// copyPatience limits how long an evicted job keeps its quota while its copy in another cluster still has pods. After
// that time, the controller assumes that the other cluster is lost.
const copyPatience = 5 * time.Minute

// pending returns the answer about a Workload that is not admitted.
func (w Workload) pending(job *view.Job, need view.Need, waits view.Answer) view.Answer {
	name := w.Object.Name
	evicted := meta.FindStatusCondition(w.Object.Status.Conditions, kueuev1beta2.ConditionEvicted)
	isEvicted := evicted != nil && evicted.Status == metav1.ConditionTrue
	isReserved := w.Is(kueuev1beta2.ConditionQuotaReserved)
	if isEvicted && isReserved && need.Elsewhere && need.Pods > 0 {
		if left := copyPatience - w.now.Sub(evicted.LastTransitionTime.Time); left > 0 {
			return view.Answer{RetryAfter: left} // Kueue is evicting the copy
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
		waits.Change = w.changeStatus(kueue.ClearAdmission)
	case !isReserved && w.isOther(job, need):
		return w.replaced(waits, need, "is for other replicas")
	case w.HasOtherPriority():
		waits.Change = w.withPriority()
	case w.Prebuilt == "" && w.opensGate():
		waits.Change = view.Change{Action: batchv1beta1.ActionUpdate, Seen: w.Object, Wanted: w.gated()}
	}
	return waits
}

// opensGate reports whether the user has removed controllers from the annotation that names those that must allow the
// admission. The result is false if the annotation of the job also names a controller that the Workload does not
// name, because Kueue rejects an update that adds one.
func (w Workload) opensGate() bool {
	names := func(of map[string]string) []string {
		return strings.FieldsFunc(of[kueuev1beta2.AnnotationAdmissionGatedBy], func(r rune) bool { return r == ',' })
	}
	before, now := names(gatesOf(w.Object)), names(w.gates)
	return len(now) < len(before) &&
		!slices.ContainsFunc(now, func(gate string) bool { return !slices.Contains(before, gate) })
}

// gated returns the Workload with the gates of the job: the controllers that must allow the admission of the
// Workload.
func (w Workload) gated() *kueuev1beta2.Workload {
	gated := w.Object.DeepCopy()
	delete(gated.Annotations, kueuev1beta2.AnnotationAdmissionGatedBy)
	gated.Annotations = labels.Merge(gated.Annotations, w.gates)
	return gated
}

// replaced returns the answer about a Workload that must be replaced. The Workload is deleted once the job has no
// pods in this cluster. The job then creates another one. A prebuilt Workload is not deleted, because only its
// creator can replace it.
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

// HasOtherPriority reports whether the priority class of the Workload must change, because the job now names another
// WorkloadPriorityClass. There are three exceptions. A prebuilt Workload never changes. A Workload whose class is a
// PriorityClass keeps it. A Workload without a class gets none while it has quota. The last two exceptions are the
// same as for jobs that Kueue itself supports.
func (w Workload) HasOtherPriority() bool {
	if w.Object == nil || w.Prebuilt != "" || w.PriorityClass == "" {
		return false
	}
	ref := w.Object.Spec.PriorityClassRef
	if ref == nil {
		return !w.Is(kueuev1beta2.ConditionQuotaReserved)
	}
	return ref.Kind == kueue.PriorityClassKind && ref.Name != w.PriorityClass
}

// withPriority returns the change that gives the Workload the priority class of the job. The position of the Workload
// among the Workloads of that priority does not depend on when the class changed.
func (w Workload) withPriority() view.Change {
	changed := w.Object.DeepCopy()
	changed.Spec.Priority, changed.Spec.PriorityClassRef = new(w.Priority.Value), w.Priority.Ref
	return view.Change{Action: batchv1beta1.ActionUpdate, Seen: w.Object, Wanted: changed}
}

// follow returns the change of an admitted Workload. The change reports the state of the job. If there is nothing to
// report, the change gives the Workload the priority class of the job.
func (w Workload) follow(need view.Need) view.Change {
	if change := w.report(need); change.Action != "" || !w.HasOtherPriority() {
		return change
	}
	return w.withPriority()
}

// report returns the change of the status that reports to Kueue whether the pods are ready, and how many replicas no
// longer need their resources.
func (w Workload) report(need view.Need) view.Change {
	return w.changeStatus(func(updated *kueuev1beta2.Workload, now time.Time) {
		kueue.SetPodsReady(updated, w.areReady(need), now)
		kueue.Reclaim(updated, need.Spent)
	})
}

// areReady reports whether each replica that is admitted is ready or has ended.
func (w Workload) areReady(need view.Need) bool {
	admitted := kueue.Admitted(w.Object)
	return !slices.ContainsFunc(need.Roles, func(role framework.Role) bool {
		return need.Ready[role.Type] < min(role.Replicas, admitted[role.Type])
	})
}

// changeStatus returns a change of the status. It returns no change if the status stays the same.
func (w Workload) changeStatus(change func(updated *kueuev1beta2.Workload, now time.Time)) view.Change {
	updated := w.Object.DeepCopy()
	change(updated, w.now)
	if equality.Semantic.DeepEqual(w.Object.Status, updated.Status) {
		return view.Change{}
	}
	return view.Change{Action: batchv1beta1.ActionUpdate, OfStatus: true, Seen: w.Object, Wanted: updated}
}
