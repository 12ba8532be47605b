package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/why"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/shell"
)

func newWhy(e *environment) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "why JOB",
		Short: "Explain why a job does not run, or why it failed",
		Long: `Explain in one paragraph what a job waits for, or why it failed, and which command to type next.

The explanation comes from everything that you may read about the job: its status and events, its pods, its queue and
its TensorBoard. It names what you may not read. Nothing is changed.

The command succeeds whenever it can explain the job, whatever the state of the job is.`,
		Example: `  # Explain why the job digits does not run
  kubectl train why digits

  # Explain a job of the kind TensorFlowTrainingJob in another namespace
  kubectl train why tfjob/digits -n vision

  # Print all reasons that the objects of the job have, for a program
  kubectl train why digits -o json`,
		Args:              oneJob,
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, job, err := e.connectTo(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			facts, err := factsOf(cmd.Context(), c, job, time.Now())
			if err != nil {
				return err
			}
			facts.Flags, facts.ClusterFlags = c.flags, c.clusterFlags
			explanation := why.Explain(facts)
			if output != "" {
				return printValue(e.Out, output, explanation)
			}
			_, err = fmt.Fprint(e.Out, explanation)
			return err
		},
	}
	addEnum(cmd, &output, "output", "o", "output format: json or yaml (default: a text)", "json", "yaml")
	return cmd
}

// typedFlags returns the flags with which the user has selected the cluster. The second result has these flags and
// the flag for the namespace. Commands that a message suggests to the user need the same flags.
func (e *environment) typedFlags() (ofCluster, all string) {
	add := func(flags, name string, value *string) string {
		if !isSet(value) {
			return flags
		}
		return strings.TrimSpace(flags + " " + name + " " + shell.Quote(*value))
	}
	ofCluster = add(add("", "--kubeconfig", e.flags.KubeConfig), "--context", e.flags.Context)
	return ofCluster, add(ofCluster, "-n", e.flags.Namespace)
}

// Limits of the lists that are read about a job.
const (
	maxPods   = 500
	maxEvents = 500
	// maxNodes limits how many nodes are compared with the requests of a pod. In a cluster with more nodes, none are
	// compared.
	maxNodes = 1000
	// maxPodsOfStatus limits how many pods of pending replicas are read by name if the list of pods is truncated.
	maxPodsOfStatus = 3
	// maxPodsWithEvents is the maximum number of pending pods whose events are read.
	maxPodsWithEvents = 3
)

// collector reads the facts about a job. It records which of them cannot be read.
type collector struct {
	*cluster

	facts why.Facts
}

// factsOf reads the facts about a job.
func factsOf(ctx context.Context, c *cluster, job jobs.Job, now time.Time) (why.Facts, error) {
	r := &collector{cluster: c, facts: why.Facts{Now: now, Job: job}}
	r.readPods(ctx)
	r.readEvents(ctx)
	if scheduler := job.Spec().T9kScheduler(); scheduler != nil {
		r.readQueue(ctx, scheduler.Queue)
	} else if queue := job.GetLabels()[kueuev1beta2.LabelQueueName]; queue != "" {
		r.readKueue(ctx, queue)
	}
	r.readNodes(ctx)
	board, err := jobs.ReadTensorBoard(ctx, r, job)
	if r.ok(err, "its TensorBoard") {
		r.facts.TensorBoard = board
	}
	if len(job.JobStatus().Conditions) == 0 {
		r.readControllers(ctx)
	}
	return r.facts, ctx.Err()
}

// ok reports whether a read has succeeded. If it has failed, ok adds what to the facts that could not be read, unless
// the object or its kind does not exist.
func (r *collector) ok(err error, what string) bool {
	if err == nil {
		return true
	}
	if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		r.facts.NotRead = append(r.facts.NotRead, what)
	}
	return false
}

// inNamespace returns the key of an object in the namespace of the job.
func (r *collector) inNamespace(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.facts.Job.GetNamespace(), Name: name}
}

// readPods reads the pods of the job. If the job has more than maxPods, readPods also reads some pods of pending
// replicas by name.
func (r *collector) readPods(ctx context.Context) {
	job := r.facts.Job
	var list corev1.PodList
	if !r.ok(r.List(ctx, &list, append(podsOf(job), client.Limit(maxPods))...), "its pods") {
		return
	}
	known := map[string]bool{}
	for _, pod := range list.Items {
		if metav1.IsControlledBy(&pod, job) {
			known[pod.Name] = true
			r.facts.Pods = append(r.facts.Pods, pod)
		}
	}
	left := maxPodsOfStatus
	for replica := range job.JobStatus().EachReplica() {
		if list.Continue == "" || left == 0 || known[replica.Name] || replica.Phase != batchv1beta1.ReplicaPhasePending {
			continue
		}
		left--
		var pod corev1.Pod
		if err := r.Get(ctx, r.inNamespace(replica.Name), &pod); err == nil && metav1.IsControlledBy(&pod, job) {
			r.facts.Pods = append(r.facts.Pods, pod)
		}
	}
}

// readEvents reads the events of the job and of some of its pending pods.
func (r *collector) readEvents(ctx context.Context) {
	job := r.facts.Job
	uids := []types.UID{job.GetUID()}
	for _, pod := range r.facts.Pods {
		if pod.Status.Phase == corev1.PodPending && len(uids) <= maxPodsWithEvents {
			uids = append(uids, pod.UID)
		}
	}
	for _, uid := range uids {
		var list corev1.EventList
		ofObject := client.MatchingFields{"involvedObject.uid": string(uid)}
		err := r.List(ctx, &list, client.InNamespace(job.GetNamespace()), client.Limit(maxEvents), ofObject)
		if !r.ok(err, "the events") {
			return
		}
		r.facts.Events = append(r.facts.Events, list.Items...)
	}
}

// readQueue reads the PodGroup of the job and the Queue with the given name. If the job has a PodGroup, readQueue
// also reads the PodGroups of the Queue. If the user may not read the PodGroups of all namespaces, readQueue reads
// only those in the namespace of the job.
func (r *collector) readQueue(ctx context.Context, name string) {
	var group schedulerv1beta1.PodGroup
	if r.ok(r.Get(ctx, r.inNamespace(r.facts.Job.GetName()), &group), "its PodGroup") &&
		metav1.IsControlledBy(&group, r.facts.Job) {
		r.facts.PodGroup = &group
	}
	var queue schedulerv1beta1.Queue
	if r.ok(r.Get(ctx, client.ObjectKey{Name: name}, &queue), "its Queue") {
		r.facts.Queue = &queue
	}
	if r.facts.PodGroup == nil {
		return
	}
	groups, err := jobs.ReadGroups(ctx, r, r.facts.Job.GetNamespace())
	if !r.ok(err, "the PodGroups") {
		return
	}
	r.facts.HasAllRivals = !groups.OfNamespace && !groups.IsTruncated
	r.facts.Rivals = slices.DeleteFunc(groups.Items,
		func(g schedulerv1beta1.PodGroup) bool { return g.Spec.Queue != name })
}

// readKueue reads the Workload of the job, the LocalQueue with the given name, and its ClusterQueue.
func (r *collector) readKueue(ctx context.Context, name string) {
	var workload kueuev1beta2.Workload
	key := r.inNamespace(cmp.Or(kueue.Prebuilt(r.facts.Job), r.facts.Job.GetName()))
	isNamed := kueue.Prebuilt(r.facts.Job) != ""
	if r.ok(r.Get(ctx, key, &workload), "its Workload") && (isNamed || metav1.IsControlledBy(&workload, r.facts.Job)) {
		r.facts.Workload = &workload
	}
	local, clusterQueue := r.kueueQueue(ctx, "LocalQueue", r.inNamespace(name))
	r.facts.LocalQueue = local
	if clusterQueue != "" {
		r.facts.ClusterQueue, _ = r.kueueQueue(ctx, "ClusterQueue", client.ObjectKey{Name: clusterQueue})
	}
}

// kueueQueue reads a LocalQueue or a ClusterQueue of Kueue. For a LocalQueue, it also returns the name of its
// ClusterQueue. The queue is nil if it cannot be read.
func (r *collector) kueueQueue(
	ctx context.Context, kind string, key client.ObjectKey,
) (queue *why.KueueQueue, clusterQueue string) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kueuev1beta2.GroupVersion.WithKind(kind))
	if !r.ok(r.Get(ctx, key, object), "its "+kind) {
		return nil, ""
	}
	queue = &why.KueueQueue{Kind: kind, Name: key.Name}
	queue.Pending, _, _ = unstructured.NestedInt64(object.Object, "status", "pendingWorkloads")
	clusterQueue, _, _ = unstructured.NestedString(object.Object, "spec", "clusterQueue")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Active" && condition["status"] == "False" {
			queue.Inactive, _ = condition["message"].(string)
		}
	}
	return queue, clusterQueue
}

// readNodes reads the nodes if a pod is unschedulable and the cluster has at most maxNodes. It ignores errors, since
// most users may not read nodes.
func (r *collector) readNodes(ctx context.Context) {
	isUnschedulable := slices.ContainsFunc(r.facts.Pods, func(pod corev1.Pod) bool {
		reason, _ := policy.WhyPending(&pod)
		return reason == batchv1beta1.ReasonUnschedulable
	})
	var list corev1.NodeList
	if isUnschedulable && r.List(ctx, &list, client.Limit(maxNodes)) == nil && list.Continue == "" {
		r.facts.Nodes = list.Items
	}
}

// readControllers reads the pods of the controller of the job. If the user may not read these pods, which is usual,
// the explanation lists them as not read.
func (r *collector) readControllers(ctx context.Context) {
	var list corev1.PodList
	if r.ok(r.List(ctx, &list, client.Limit(maxPods),
		client.MatchingLabels{"app.kubernetes.io/name": r.facts.Job.Kind.Controller}), "the pods of the controller") {
		r.facts.Controllers = list.Items
	}
}
