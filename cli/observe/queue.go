package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/plan/view"
)

// visibility is the group and version of Kueue's API for the positions of Workloads in their queues.
var visibility = schema.GroupVersion{Group: "visibility.kueue.x-k8s.io", Version: "v1beta2"}

// readSides reads the queue and the TensorBoard of a job. The result lacks the facts that could not be read. Its
// field missing names the objects that the user may not read.
func readSides(ctx context.Context, from client.Client, job jobs.Job) sides {
	read := sides{isRead: true, state: stateOf(job)}
	board, err := jobs.ReadTensorBoard(ctx, from, job)
	switch {
	case apierrors.IsForbidden(err):
		read.missing = append(read.missing, missing("TensorBoard"))
	case board != nil:
		read.tensorBoard = board.Status.URL
	}
	if job.JobStatus().Finished() {
		return read // a job that has finished is in no queue
	}
	if scheduler := job.Spec().T9kScheduler(); scheduler != nil {
		read.queue, err = queueOf(ctx, from, job, scheduler.Queue)
	} else if name := job.GetLabels()[kueuev1beta2.LabelQueueName]; name != "" {
		read.queue, err = localQueueOf(ctx, from, job, name)
	}
	if apierrors.IsForbidden(err) {
		read.missing = append(read.missing, missing("queue"))
	}
	return read
}

// queueOf returns the Queue of a job and the position of the job in it. It computes the position from the PodGroups
// of all namespaces, or only from those in the namespace of the job if the user may not read the others.
func queueOf(ctx context.Context, from client.Reader, job jobs.Job, name string) (*screen.Queue, error) {
	q := &screen.Queue{Name: name}
	var queue schedulerv1beta1.Queue
	// Ignore an error: a user of a namespace usually may not read Queues, since they are cluster-scoped.
	if err := from.Get(ctx, client.ObjectKey{Name: name}, &queue); err == nil {
		q.Usage = usageOf(queue, job)
	}
	groups, err := jobs.ReadGroups(ctx, from, job.GetNamespace())
	if groups.OfNamespace {
		q.Within = "of this namespace"
	}
	if err != nil {
		return q, err
	}
	place(q, groups.Items, job)
	if groups.IsTruncated { // without all PodGroups, the position is not known
		q.Place, q.Waiting = 0, 0
	}
	return q, nil
}

// place sets the position of a job among the PodGroups that wait for the same Queue, and the number of these
// PodGroups. If the PodGroup of the job does not wait, place sets Admitted. If the job has no PodGroup, place sets
// nothing.
func place(q *screen.Queue, groups []schedulerv1beta1.PodGroup, job jobs.Job) {
	waiting := slices.DeleteFunc(slices.Clone(groups), func(g schedulerv1beta1.PodGroup) bool {
		return g.Spec.Queue != q.Name ||
			meta.IsStatusConditionTrue(g.Status.Conditions, schedulerv1beta1.ConditionGroupScheduled)
	})
	slices.SortFunc(waiting, func(a, b schedulerv1beta1.PodGroup) int { return gang.Compare(&a, &b) })
	isOwn := func(g schedulerv1beta1.PodGroup) bool {
		return g.Namespace == job.GetNamespace() && view.IsControlledBy(&g, job.GetUID())
	}
	if !slices.ContainsFunc(groups, isOwn) {
		return // the job has no PodGroup yet
	}
	q.Place, q.Waiting = slices.IndexFunc(waiting, isOwn)+1, len(waiting)
	q.Admitted = q.Place == 0
}

// usageOf returns how much of the quota of a Queue is used, for at most two resources. If the quota limits devices
// that the job requests, the result is about these devices. Otherwise, it is about the resources of the quota whose
// names come first. Without a quota, the result is empty.
func usageOf(queue schedulerv1beta1.Queue, job jobs.Job) string {
	if queue.Spec.Quota == nil {
		return ""
	}
	names := slices.Sorted(maps.Keys(queue.Spec.Quota.Requests))
	if needed := slices.DeleteFunc(slices.Clone(names), func(name corev1.ResourceName) bool {
		return !strings.Contains(string(name), "/") || !requests(job, name)
	}); len(needed) > 0 {
		names = needed
	}
	texts := make([]string, 0, len(names))
	for _, name := range names[:min(len(names), 2)] {
		used, quota := queue.Status.Allocated[name], queue.Spec.Quota.Requests[name]
		texts = append(texts, fmt.Sprintf("%s %s of %s used", name, used.String(), quota.String()))
	}
	return strings.Join(texts, ", ")
}

// requests reports whether a container of the job requests a device. It reads the limits, since Kubernetes requires a
// limit for each device.
func requests(job jobs.Job, name corev1.ResourceName) bool {
	for _, role := range job.Spec().Roles {
		for _, c := range role.Template.Spec.Containers {
			if _, ok := c.Resources.Limits[name]; ok {
				return true
			}
		}
	}
	return false
}

// localQueueOf returns the LocalQueue of Kueue that a job is in. The position of the job comes from Kueue's
// visibility API. If that API returns no position, the result has the number of waiting jobs instead, from the status
// of the LocalQueue.
func localQueueOf(ctx context.Context, from client.Client, job jobs.Job, name string) (*screen.Queue, error) {
	q := &screen.Queue{Name: name}
	workload := kueuev1beta2.Workload{}
	key := client.ObjectKey{Namespace: job.GetNamespace(), Name: cmp.Or(kueue.Prebuilt(job), job.GetName())}
	// The Workload can belong to another job of the same name.
	if err := from.Get(ctx, key, &workload); err != nil || !view.IsControlledBy(&workload, job.GetUID()) {
		return q, err
	}
	if meta.IsStatusConditionTrue(workload.Status.Conditions, kueuev1beta2.ConditionAdmitted) {
		q.Admitted = true
		return q, nil
	}
	pending, queue := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	queue.SetNamespace(job.GetNamespace())
	queue.SetName(name)
	queue.SetGroupVersionKind(visibility.WithKind("LocalQueue"))
	pending.SetGroupVersionKind(visibility.WithKind("PendingWorkloadsSummary"))
	if err := from.SubResource("pendingworkloads").Get(ctx, queue, pending); err == nil {
		items, _, _ := unstructured.NestedSlice(pending.Object, "items")
		for _, item := range items {
			of, _ := item.(map[string]any)
			if found, _, _ := unstructured.NestedString(of, "metadata", "name"); found == workload.Name {
				before, _, _ := unstructured.NestedInt64(of, "positionInClusterQueue")
				q.Place, q.Within = int(before)+1, "of the ClusterQueue"
				return q, nil
			}
		}
	}
	queue.SetGroupVersionKind(kueuev1beta2.GroupVersion.WithKind("LocalQueue"))
	if err := from.Get(ctx, client.ObjectKeyFromObject(queue), queue); err == nil {
		waiting, _, _ := unstructured.NestedInt64(queue.Object, "status", "pendingWorkloads")
		q.Waiting = int(waiting)
	}
	return q, nil
}
