package conformance

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// step is an event that does not come from the controller, or a check. The world settles before and after a step.
type step func(*world)

// created returns a step in which the user creates the job.
func created(s Shape) step {
	return func(w *world) {
		w.shape = s
		w.create(w.newJob(s))
	}
}

// paused is a step in which the user pauses the job.
func paused(w *world) { edited(model.Pause)(w) }

// resumed is a step in which the user resumes the job.
func resumed(w *world) { edited(model.Resume)(w) }

// scaled returns a step in which the user changes the expected number of replicas.
func scaled(expected int32) step { return edited(model.Scale(expected)) }

// edited returns a step in which the user changes the job.
func edited(change func(*Shape)) step {
	return func(w *world) {
		change(&w.shape)
		w.Cluster.Edit(w.Kind, w.shape)
	}
}

// run is a step in which all pending pods start, each on a separate node.
func run(w *world) {
	for _, pod := range w.pods() {
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			w.happenTo(pod, model.Runs)
		}
	}
}

// runs returns a step in which the pods of some indices start. The other pods stay pending.
func runs(indices ...int) step {
	return func(w *world) {
		for _, index := range indices {
			happensTo(index, model.Runs)(w)
		}
	}
}

// marks returns a step that records the pods of some indices. Later, keepsMarked checks that they still exist.
func marks(indices ...int) step {
	return func(w *world) {
		for _, index := range indices {
			w.marked[index] = w.pod(index).UID
		}
	}
}

// keepsMarked checks that the marked pods still exist and are not being deleted.
func keepsMarked(w *world) {
	w.t.Helper()
	for index, uid := range w.marked {
		if pod := w.pod(index); pod.UID != uid || pod.DeletionTimestamp != nil {
			w.t.Errorf("the pod of index %d was replaced or is being deleted: %s", index, w.describe())
		}
	}
}

// waits returns a step in which time passes without a reconcile.
func waits(d time.Duration) step {
	return func(w *world) { w.Clock.SetTime(w.Clock.Now().Add(d)) }
}

// together returns a step that runs several steps before the controller sees any of them. The first of these steps
// happens at a full second. Times in the status of a pod are in whole seconds, so an event that the function soon
// adds half a second later has the same time there.
func together(steps ...step) step {
	return func(w *world) {
		if now := w.Clock.Now(); !now.Equal(now.Truncate(time.Second)) {
			w.Clock.SetTime(now.Truncate(time.Second).Add(time.Second))
		}
		for _, step := range steps {
			step(w)
		}
	}
}

// unseen returns a step that changes pods while the cache of pods is frozen. The next reconcile sees the stale cache.
func unseen(what step) step {
	return func(w *world) {
		w.Cache.Freeze(model.Pods)
		w.process.staleReconciles = 1
		what(w)
	}
}

// stands returns a step that checks the phase of the job.
func stands(phase batchv1beta1.JobPhase) step {
	return func(w *world) {
		w.t.Helper()
		if got := w.status().Phase; got != phase {
			w.t.Errorf("the phase of the job is %s, want %s: %s", got, phase, w.describe())
		}
	}
}

// decided returns a step that checks that the given condition is True and that the job has not finished. The
// condition decides how the job will end.
func decided(condition string) step {
	return func(w *world) {
		w.t.Helper()
		if status := w.status(); !model.IsTrue(status, condition) || status.Finished() {
			w.t.Errorf("the condition %s is %t, want true on a job that has not finished: %s",
				condition, model.IsTrue(status, condition), w.describe())
		}
	}
}

// hasPod returns a step that checks that a replica has a pod.
func hasPod(index int) step { return func(w *world) { w.pod(index) } }

// soon returns a step that runs another step half a second later. By then, the retries of the controller are over,
// but longer delays, such as the wait for failures of other replicas, are not.
func soon(s step) step { return func(w *world) { w.soon = append(w.soon, s) } }

// happensTo returns a step in which a mishap happens to the pod of an index.
func happensTo(index int, what model.Mishap) step {
	return func(w *world) {
		w.t.Helper()
		w.happenTo(w.pod(index), what)
	}
}

func (w *world) happenTo(pod *corev1.Pod, what model.Mishap) {
	w.t.Helper()
	if err := what(w.Cluster, pod); err != nil {
		w.t.Fatal(err)
	}
}

// exits returns a step in which the main container of a replica ends with an exit code.
func exits(index int, code int32) step { return happensTo(index, model.Exits(code, "the last output")) }

// printsAndExits returns a step in which the main container of a replica prints its output and exits with 1.
func printsAndExits(index int, output string) step { return happensTo(index, model.Exits(1, output)) }

// rankEnded returns the output of torchrun for a rank that failed.
func rankEnded(rank, code int) string {
	return fmt.Sprintf(`torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_12:00:00
  rank      : %d (local_rank: 0)
  exitcode  : %d (pid: 17)
============================================================`, rank, code)
}

// lostPeer is the exception of a rank that lost the connection to its peer.
const lostPeer = `Traceback (most recent call last):
  File "/code/train.py", line 16, in main
RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:49873`

// restartsInPlace returns a step in which the main container of a replica ends with an exit code, and the kubelet
// restarts it in the same pod.
func restartsInPlace(index int, code int32) step {
	return happensTo(index, model.RestartsInPlace(code))
}

// ranOutOfMemory returns a step in which the main container of a replica is killed because of its memory limit.
func ranOutOfMemory(index int) step { return happensTo(index, model.RunsOutOfMemory) }

// ranOutOfStorage returns a step in which the pod of a replica is evicted because of its ephemeral-storage limit.
func ranOutOfStorage(index int) step { return happensTo(index, model.RunsOutOfStorage) }

// rejected returns a step in which the kubelet rejects the pending pod of a replica.
func rejected(index int) step { return happensTo(index, model.IsRejected) }

// preempted returns a step in which the scheduler preempts the pod of a replica.
func preempted(index int) step { return happensTo(index, model.IsPreempted) }

// nodeShutDown returns a step in which the node of a replica shuts down. The program saves its work and exits with 0.
func nodeShutDown(index int) step { return happensTo(index, model.IsShutDown) }

// losesContainers returns a step in which the node of a replica is restarted without a shutdown.
func losesContainers(index int) step { return happensTo(index, model.LosesItsContainers) }

// losesNode returns a step in which the node of a replica becomes unreachable.
func losesNode(index int) step { return happensTo(index, model.LosesItsNode) }

// deleted returns a step in which a user deletes the pod of a replica.
func deleted(index int) step { return happensTo(index, model.IsDeleted) }

// vanishes returns a step in which a user deletes the pod of a replica by force, without a grace period.
func vanishes(index int) step { return happensTo(index, model.Vanishes) }

// unlabeled returns a step in which a user removes a label from the pod of a replica.
func unlabeled(index int, label string) step {
	return func(w *world) {
		w.t.Helper()
		pod := w.pod(index).DeepCopy()
		delete(pod.Labels, label)
		w.Cluster.Put(pod)
	}
}

// serviceUnlabeled is a step in which a user removes the job-kind label from the Service of the job.
func serviceUnlabeled(w *world) {
	w.t.Helper()
	service := model.ListOf[*corev1.Service](w.Cluster.Live())[0].DeepCopy()
	delete(service.Labels, batchv1beta1.LabelJobKind)
	w.Cluster.Put(service)
}

// jobDeleted is a step in which the user deletes the job.
func jobDeleted(w *world) { w.remove(w.job()) }

// passes returns a step in which time passes. The job is reconciled at each requeue time.
func passes(d time.Duration) step { return func(w *world) { w.pass(d) } }

// wantsTensorBoard returns a step in which the user adds or changes the TensorBoard of the job. The API server allows
// this only while the job is paused.
func wantsTensorBoard(image string) step {
	return edited(func(s *Shape) { s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: image} })
}

// wantsNoTensorBoard is a step in which the user removes the TensorBoard from the spec.
func wantsNoTensorBoard(w *world) { edited(func(s *Shape) { s.TensorBoard = nil })(w) }

// tensorBoardServes is a step in which the tensorboard-controller reports that the TensorBoard is ready.
func tensorBoardServes(w *world) {
	w.t.Helper()
	serving := w.tensorBoard().DeepCopy()
	serving.Status = tensorboardv1beta1.TensorBoardStatus{
		Phase: tensorboardv1beta1.TensorBoardRunning,
		Conditions: []tensorboardv1beta1.TensorBoardCondition{
			{Type: tensorboardv1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: tensorboardv1beta1.ReasonServing},
		},
	}
	w.Cluster.Put(serving)
}

// tensorBoardDeleted is a step in which a user deletes the TensorBoard.
func tensorBoardDeleted(w *world) {
	w.t.Helper()
	w.remove(w.tensorBoard())
}

// tensorBoard returns the TensorBoard. The test fails if there is none.
func (w *world) tensorBoard() *tensorboardv1beta1.TensorBoard {
	w.t.Helper()
	found := model.ListOf[*tensorboardv1beta1.TensorBoard](w.Cluster.Live())
	if len(found) == 0 {
		w.t.Fatalf("there is no TensorBoard: %s", w.describe())
	}
	return found[0]
}

// closes is a step that closes the queue.
func closes(w *world) { w.closed = true }

// opens is a step that opens the queue. Then the PodGroup or Workload that waits in the queue is admitted.
func opens(w *world) {
	w.closed = false
	w.Cluster.Consider(w.closed)
}

// evicts is a step in which Kueue evicts the job.
func evicts(w *world) {
	w.t.Helper()
	if !w.Cluster.Evict() {
		w.t.Fatalf("there is no admitted Workload: %s", w.describe())
	}
}

// gaveBack is a step that gives the quota of a replica back to Kueue, although the replica can still run again.
// Earlier versions of the controller did so.
func gaveBack(w *world) {
	w.t.Helper()
	if !w.Cluster.ReclaimTooMuch() {
		w.t.Fatalf("there is no admitted Workload: %s", w.describe())
	}
}

// hasWorkload returns a step that checks that there is a Workload, or that there is none if want is false.
func hasWorkload(want bool) step {
	return func(w *world) {
		w.t.Helper()
		if workload := w.Cluster.Live().Workload(); (workload != nil) != want {
			w.t.Errorf("the Workload is %+v, want one: %t: %s", workload, want, w.describe())
		}
	}
}

// workloadDeleted is a step in which a user deletes the Workload.
func workloadDeleted(w *world) {
	w.t.Helper()
	w.remove(w.Cluster.Live().Workload())
}

// groupExpires is a step in which the PodGroup exceeds the maximum duration of its queue.
func groupExpires(w *world) {
	w.t.Helper()
	if !w.Cluster.ExpireGroup() {
		w.t.Fatalf("there is no PodGroup: %s", w.describe())
	}
}

// hasGroup returns a step that checks the number of pods that the job's PodGroup needs. Zero means that there must be
// no PodGroup.
func hasGroup(minMember int32) step {
	return func(w *world) {
		w.t.Helper()
		group := w.Cluster.Live().PodGroup()
		if got := group != nil; got != (minMember > 0) || got && group.Spec.MinMember != minMember {
			w.t.Errorf("the PodGroup is %+v, want minMember %d (0 means no PodGroup): %s", group, minMember, w.describe())
		}
	}
}

// groupDeleted is a step in which a user deletes the PodGroup.
func groupDeleted(w *world) {
	w.t.Helper()
	w.remove(w.Cluster.Live().PodGroup())
}

func (w *world) create(object client.Object) {
	if err := w.Cluster.Create(object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(object client.Object) {
	if err := w.Cluster.Remove(object, client.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
