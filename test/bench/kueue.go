package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// localQueue and clusterQueue are the queues of the jobs that Kueue admits. The queues do not exist, because the
// benchmark plays Kueue: it changes the statuses of Workloads as Kueue does. It needs the CRDs of Kueue, but not
// Kueue itself, which takes minutes to build.
const (
	localQueue   = "queue"
	clusterQueue = "team"
)

// batching is the name of a copy of the pytorch-controller that batches status changes for up to an hour. With the
// default of a few seconds, the number of its status writes would depend on the speed of the machine.
const batching = pytorchController + "-batching"

// jobsPerLife is the number of jobs with the same life, which is a series of events between the creation of a job and
// its success.
const jobsPerLife = 4

// life describes the events between the creation and the success of a job.
type life struct {
	// namespace is a namespace that has only the jobs of this life.
	namespace string
	// queued is true if Kueue admits the jobs.
	queued bool
	// restarts is true if one replica of each job fails, which restarts all replicas of the job.
	restarts bool
	// stops is true if the jobs stop and run again. If Kueue admits the jobs, Kueue evicts them and admits them again.
	// Otherwise the user pauses and resumes them.
	stops bool
}

var (
	plainRuns     = life{namespace: "plain-runs"}
	plainRestarts = life{namespace: "plain-restarts", restarts: true}
	plainStops    = life{namespace: "plain-stops", stops: true}
	kueueRuns     = life{namespace: "kueue-runs", queued: true}
	kueueRestarts = life{namespace: "kueue-restarts", queued: true, restarts: true}
	kueueStops    = life{namespace: "kueue-stops", queued: true, stops: true}
)

// atRest is the life of jobs that Kueue admits and that run until the control plane stops.
var atRest = life{namespace: "kueue-rests", queued: true}

// work describes the jobs of a life. Each job has two replicas, because a test in kit/conformance checks the same
// bars for a job with two replicas. The benchmark plays the kubelet, so that the pods of all jobs change in the same
// order.
func (l life) work() work {
	w := work{namespace: l.namespace, replicas: 2, played: true}
	if l.queued {
		w.localQueue = localQueue
	}
	return w
}

// kueueWrites counts how many more writes a job needs if Kueue admits the job. First, kueueWrites replaces the
// running pytorch-controller with the batching copy.
func (c *cluster) kueueWrites(ctx context.Context) error {
	if err := c.Terminate(pytorchController); err != nil {
		return err
	}
	if err := c.runController(ctx, pytorchController, batching, "--status-interval=1h"); err != nil {
		return err
	}
	if _, err := c.leads(ctx, pytorchController); err != nil {
		return err
	}
	began := time.Now()
	perJob := map[life]float64{}
	lives := []life{plainRuns, plainRestarts, plainStops, kueueRuns, kueueRestarts, kueueStops}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, l := range lives {
		group.Go(func() error { return c.live(groupCtx, l) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, l := range lives {
		writes, err := c.writes.selected(began, func(w write) bool {
			return w.of(batching) && w.ObjectRef.Namespace == l.namespace && !w.isEvent()
		})
		if err != nil {
			return err
		}
		perJob[l] = float64(len(writes)) / jobsPerLife
		c.bench.progress.Printf("%s: %.2f writes per job: %s", l.namespace, perJob[l], summary(writes))
	}
	c.bench.record("kueue-admission-writes", perJob[kueueRuns]-perJob[plainRuns])
	for _, f := range []struct {
		name          string
		queued, plain life
	}{{"kueue-restart-writes", kueueRestarts, plainRestarts}, {"kueue-eviction-writes", kueueStops, plainStops}} {
		c.bench.record(f.name, perJob[f.queued]-perJob[kueueRuns]-(perJob[f.plain]-perJob[plainRuns]))
	}
	return nil
}

// summary returns a text with the number of writes of each kind, such as "8 create pods".
func summary(writes []write) string {
	counts := map[string]int{}
	for _, w := range writes {
		name := strings.TrimSuffix(w.Verb+" "+w.ObjectRef.Resource+"/"+w.ObjectRef.Subresource, "/")
		if w.ResponseStatus.Code >= 300 {
			name += fmt.Sprintf(" (%d)", w.ResponseStatus.Code)
		}
		counts[name]++
	}
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(kinds, ", ")
}

// live creates the jobs of a life, causes the events of this life, and makes the jobs succeed.
func (c *cluster) live(ctx context.Context, l life) error {
	steps := []func(context.Context, work) error{c.beginJobs}
	if l.restarts {
		steps = append(steps, c.restartJobs)
	}
	if l.stops {
		steps = append(steps, c.stopJobs)
	}
	for _, step := range append(steps, c.endJobs) {
		if err := step(ctx, l.work()); err != nil {
			return fmt.Errorf("jobs in namespace %s: %w", l.namespace, err)
		}
	}
	return nil
}

// beginJobs creates the jobs, and returns when their statuses show that they run.
func (c *cluster) beginJobs(ctx context.Context, w work) error {
	if err := c.namespace(ctx, w.namespace); err != nil {
		return err
	}
	if err := forEachJob(func(i int) error { return ours.create(ctx, c, w, i) }); err != nil {
		return err
	}
	if w.localQueue != "" {
		if err := c.admitJobs(ctx, w); err != nil {
			return err
		}
	}
	return c.startPods(ctx, w)
}

// admitJobs waits for the Workloads of the jobs and admits them.
func (c *cluster) admitJobs(ctx context.Context, w work) error {
	if err := c.workloadsAre(ctx, w, "created", func(kueuev1beta2.Workload) bool { return true }); err != nil {
		return err
	}
	return c.changeWorkloads(ctx, w, admit)
}

// startPods waits until all pods are created, and then makes them run. It returns when the statuses of all jobs are
// Running, and the Workloads of the jobs, if any, are ready.
func (c *cluster) startPods(ctx context.Context, w work) error {
	if err := c.podsAre(ctx, w.namespace, corev1.PodPending, jobsPerLife*int(w.replicas)); err != nil {
		return err
	}
	for index := range w.replicas {
		if err := forEachJob(func(i int) error {
			return c.setContainer(ctx, w.namespace, w.pod(i, index), corev1.PodRunning, `"running":{}`)
		}); err != nil {
			return err
		}
	}
	if err := c.allRun(ctx, w); err != nil {
		return err
	}
	return c.workloadsAre(ctx, w, "ready", isTrue(kueuev1beta2.ConditionPodsReady))
}

// restartJobs makes a replica of each job fail, and returns when the jobs run again.
func (c *cluster) restartJobs(ctx context.Context, w work) error {
	if err := forEachJob(func(i int) error { return c.fail(ctx, w.namespace, w.pod(i, 1)) }); err != nil {
		return err
	}
	if err := c.jobsAre(ctx, w, "have restarted", func(status batchv1beta1.JobStatus) bool {
		return status.Attempt == 1 && isCreating(status)
	}); err != nil {
		return err
	}
	return c.startPods(ctx, w)
}

// stopJobs stops the jobs and then makes them run again. It evicts and admits jobs that Kueue admits, and pauses and
// resumes other jobs. It returns when the jobs run again.
func (c *cluster) stopJobs(ctx context.Context, w work) error {
	stop, resume := c.evictJobs, c.admitJobs
	if w.localQueue == "" {
		stop = func(ctx context.Context, w work) error { return c.pause(ctx, w, true) }
		resume = func(ctx context.Context, w work) error { return c.pause(ctx, w, false) }
	}
	if err := stop(ctx, w); err != nil {
		return err
	}
	if err := c.jobsAre(ctx, w, "have stopped", func(status batchv1beta1.JobStatus) bool {
		return status.Reason == batchv1beta1.ReasonQueued || status.Reason == batchv1beta1.ReasonPaused
	}); err != nil {
		return err
	}
	if err := resume(ctx, w); err != nil {
		return err
	}
	if err := c.jobsAre(ctx, w, "create their pods", isCreating); err != nil {
		return err
	}
	return c.startPods(ctx, w)
}

// isCreating reports whether the pods of a job are being created, or have been created but do not all run yet.
func isCreating(status batchv1beta1.JobStatus) bool {
	return status.Reason == batchv1beta1.ReasonCreating || status.Reason == batchv1beta1.ReasonPending
}

// evictJobs evicts the Workloads. It returns when the pytorch-controller has removed the admission of each Workload,
// which releases the quota.
func (c *cluster) evictJobs(ctx context.Context, w work) error {
	if err := c.changeWorkloads(ctx, w, evict); err != nil {
		return err
	}
	return c.workloadsAre(ctx, w, "without quota", func(workload kueuev1beta2.Workload) bool {
		return workload.Status.Admission == nil
	})
}

// pause pauses or resumes the jobs.
func (c *cluster) pause(ctx context.Context, w work, paused bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"runMode":{"pause":{"enabled":%t}}}}`, paused)
	return forEachJob(func(i int) error {
		return c.Client.Patch(ctx, w.trainingJob(i), client.RawPatch(types.MergePatchType, patch))
	})
}

// endJobs makes all replicas succeed, the leader last. It returns when the statuses of the jobs show that they have
// succeeded, and their Workloads, if any, are finished.
func (c *cluster) endJobs(ctx context.Context, w work) error {
	for index := w.replicas - 1; index >= 0; index-- {
		if err := forEachJob(func(i int) error {
			return c.setContainer(ctx, w.namespace, w.pod(i, index), corev1.PodSucceeded, `"terminated":{"exitCode":0}`)
		}); err != nil {
			return err
		}
		if err := c.jobsAre(ctx, w, "have reported the end of a replica", func(status batchv1beta1.JobStatus) bool {
			return status.Aggregate.Succeeded == w.replicas-index
		}); err != nil {
			return err
		}
	}
	if err := c.jobsAre(ctx, w, "have succeeded", func(status batchv1beta1.JobStatus) bool {
		return status.Phase == batchv1beta1.JobPhaseSucceeded
	}); err != nil {
		return err
	}
	return c.workloadsAre(ctx, w, "finished", isTrue(kueuev1beta2.ConditionFinished))
}

// forEachJob calls the function do with the number of each job of a life. It stops at the first error.
func forEachJob(do func(i int) error) error {
	for i := range jobsPerLife {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// jobsAre waits until the statuses of all jobs in the namespace meet a condition.
func (c *cluster) jobsAre(
	ctx context.Context, w work, what string, condition func(batchv1beta1.JobStatus) bool,
) error {
	return c.eventually(ctx, "all jobs "+what, func(ctx context.Context) (bool, error) {
		list := &pytorchv1beta1.PyTorchTrainingJobList{}
		err := c.Client.List(ctx, list, client.InNamespace(w.namespace))
		isOther := func(job pytorchv1beta1.PyTorchTrainingJob) bool { return !condition(*job.JobStatus()) }
		return !slices.ContainsFunc(list.Items, isOther), err
	})
}

// workloadsAre waits until each job in the namespace has a Workload that meets a condition. It does not wait if Kueue
// does not admit the jobs.
func (c *cluster) workloadsAre(
	ctx context.Context, w work, what string, condition func(kueuev1beta2.Workload) bool,
) error {
	if w.localQueue == "" {
		return nil
	}
	return c.eventually(ctx, "all workloads are "+what, func(ctx context.Context) (bool, error) {
		list := &kueuev1beta2.WorkloadList{}
		err := c.Client.List(ctx, list, client.InNamespace(w.namespace))
		isOther := func(workload kueuev1beta2.Workload) bool { return !condition(workload) }
		return len(list.Items) == jobsPerLife && !slices.ContainsFunc(list.Items, isOther), err
	})
}

// isTrue returns a function that reports whether the condition of the given type is True in a Workload.
func isTrue(conditionType string) func(kueuev1beta2.Workload) bool {
	return func(workload kueuev1beta2.Workload) bool {
		return meta.IsStatusConditionTrue(workload.Status.Conditions, conditionType)
	}
}

// changeWorkloads changes the statuses of the Workloads of the jobs.
func (c *cluster) changeWorkloads(ctx context.Context, w work, change func(*kueuev1beta2.Workload)) error {
	return forEachJob(func(i int) error {
		key := client.ObjectKey{Namespace: w.namespace, Name: w.name(i)}
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			workload := &kueuev1beta2.Workload{}
			if err := c.Client.Get(ctx, key, workload); err != nil {
				return err
			}
			change(workload)
			return c.Client.Status().Update(ctx, workload)
		})
	})
}

// admit admits a Workload.
func admit(workload *kueuev1beta2.Workload) {
	workload.Status.Admission = &kueuev1beta2.Admission{ClusterQueue: clusterQueue}
	for _, set := range workload.Spec.PodSets {
		workload.Status.Admission.PodSetAssignments = append(workload.Status.Admission.PodSetAssignments,
			kueuev1beta2.PodSetAssignment{Name: set.Name, Count: new(set.Count)})
	}
	setCondition(workload, kueuev1beta2.ConditionQuotaReserved, metav1.ConditionTrue, "QuotaReserved")
	setCondition(workload, kueuev1beta2.ConditionAdmitted, metav1.ConditionTrue, "Admitted")
	if isTrue(kueuev1beta2.ConditionEvicted)(*workload) {
		setCondition(workload, kueuev1beta2.ConditionEvicted, metav1.ConditionFalse, "QuotaReserved")
	}
}

// evict evicts a Workload as Kueue does when a more important Workload preempts it.
func evict(workload *kueuev1beta2.Workload) {
	setCondition(workload, kueuev1beta2.ConditionEvicted, metav1.ConditionTrue, kueuev1beta2.ReasonPreempted)
}

func setCondition(workload *kueuev1beta2.Workload, conditionType string, status metav1.ConditionStatus, reason string) {
	meta.SetStatusCondition(&workload.Status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, ObservedGeneration: workload.Generation,
	})
}
