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

// step is what happens to a job, other than by its controller. The controller rests before and after it.
type step func(*world)

// created lets the user create the job.
func created(s Shape) step {
	return func(w *world) {
		w.shape = s
		w.create(w.newJob(s))
	}
}

// paused lets the user pause the job.
func paused(w *world) { edited(model.Pause)(w) }

// resumed lets the user end the pause.
func resumed(w *world) { edited(model.Resume)(w) }

// scaled lets the user expect another number of replicas.
func scaled(expected int32) step { return edited(model.Scale(expected)) }

// edited lets the user change the job.
func edited(change func(*Shape)) step {
	return func(w *world) {
		change(&w.shape)
		w.cluster.Edit(w.kind, w.shape)
	}
}

// run lets every pod that waits run, each on a node of its own.
func run(w *world) {
	for _, pod := range w.pods() {
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			w.befall(pod, model.Runs)
		}
	}
}

// runs lets the pods of some indices run; there is no room for others.
func runs(indices ...int) step {
	return func(w *world) {
		for _, index := range indices {
			befalls(index, model.Runs)(w)
		}
	}
}

// marks remembers the pods of some indices, which are to stay.
func marks(indices ...int) step {
	return func(w *world) {
		for _, index := range indices {
			w.marked[index] = w.pod(index).UID
		}
	}
}

// keepsMarked checks that the marked pods are still there, and are not being deleted.
func keepsMarked(w *world) {
	w.t.Helper()
	for index, uid := range w.marked {
		if pod := w.pod(index); pod.UID != uid || pod.DeletionTimestamp != nil {
			w.t.Errorf("the pod of index %d was replaced: %s", index, w.describe())
		}
	}
}

// waits lets time pass before the controller can do anything about it.
func waits(d time.Duration) step {
	return func(w *world) { w.clock.SetTime(w.clock.Now().Add(d)) }
}

// together lets several things happen before the controller sees any of them. They begin with a full second, so that
// those that happen half a second later are reported to be of the same one, whatever the controller waited for
// before.
func together(steps ...step) step {
	return func(w *world) {
		if now := w.clock.Now(); !now.Equal(now.Truncate(time.Second)) {
			w.clock.SetTime(now.Truncate(time.Second).Add(time.Second))
		}
		for _, step := range steps {
			step(w)
		}
	}
}

// stands checks the phase of the job in between.
func stands(phase batchv1beta1.JobPhase) step {
	return func(w *world) {
		w.t.Helper()
		if got := w.status().Phase; got != phase {
			w.t.Errorf("the job is %s, want %s: %s", got, phase, w.describe())
		}
	}
}

// decided checks that it is decided how the job ends, and that the job has not finished.
func decided(condition string) step {
	return func(w *world) {
		w.t.Helper()
		if status := w.status(); !model.IsTrue(status, condition) || status.Finished() {
			w.t.Errorf("%s is %t: %s", condition, model.IsTrue(status, condition), w.describe())
		}
	}
}

// hasPod checks that a replica has a pod by now.
func hasPod(index int) step { return func(w *world) { w.pod(index) } }

// soon lets a step happen half a second later, before the controller acts on anything that it waits for.
func soon(s step) step { return func(w *world) { w.soon = append(w.soon, s) } }

// befalls lets something happen to the pod of an index.
func befalls(index int, what model.Mishap) step {
	return func(w *world) {
		w.t.Helper()
		w.befall(w.pod(index), what)
	}
}

func (w *world) befall(pod *corev1.Pod, what model.Mishap) {
	w.t.Helper()
	if err := what(w.cluster, pod); err != nil {
		w.t.Fatal(err)
	}
}

// exits ends the main container of a replica.
func exits(index int, code int32) step { return befalls(index, model.Exits(code, "the last output")) }

// printsAndExits ends the main container of a replica with code 1 after it printed something.
func printsAndExits(index int, output string) step { return befalls(index, model.Exits(1, output)) }

// rankEnded returns what torchrun prints at its end, of one rank.
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

// lostPeer is the exception of a rank whose peer is gone.
const lostPeer = `Traceback (most recent call last):
  File "/code/train.py", line 16, in main
RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:49873`

// restartsInPlace lets a kubelet restart the main container of a replica.
func restartsInPlace(index int, code int32) step { return befalls(index, model.RestartsInPlace(code)) }

// ranOutOfMemory ends the main container of a replica for its memory.
func ranOutOfMemory(index int) step { return befalls(index, model.RunsOutOfMemory) }

// ranOutOfStorage evicts the pod of a replica for its own use of storage.
func ranOutOfStorage(index int) step { return befalls(index, model.RunsOutOfStorage) }

// rejected lets the node refuse the pod of a replica that was about to start again.
func rejected(index int) step { return befalls(index, model.IsRejected) }

// preempted lets the scheduler take a replica's place.
func preempted(index int) step { return befalls(index, model.IsPreempted) }

// nodeShutDown lets the node of a replica shut down, at which the program saves its work and exits with 0.
func nodeShutDown(index int) step { return befalls(index, model.IsShutDown) }

// losesNode lets the node of a replica stop to answer.
func losesNode(index int) step { return befalls(index, model.LosesItsNode) }

// deleted lets somebody delete the pod of a replica.
func deleted(index int) step { return befalls(index, model.IsDeleted) }

// vanishes lets somebody delete the pod of a replica by force, so that nothing is left to be seen of it.
func vanishes(index int) step { return befalls(index, model.Vanishes) }

// unlabelled lets somebody take a label off the pod of a replica.
func unlabelled(index int, label string) step {
	return func(w *world) {
		w.t.Helper()
		pod := w.pod(index).DeepCopy()
		delete(pod.Labels, label)
		w.cluster.Put(pod)
	}
}

// serviceUnlabelled lets somebody take a label off the Service of the job.
func serviceUnlabelled(w *world) {
	w.t.Helper()
	service := model.ListOf[*corev1.Service](w.cluster.Live())[0].DeepCopy()
	delete(service.Labels, batchv1beta1.LabelJobKind)
	w.cluster.Put(service)
}

// jobDeleted lets the user delete the job.
func jobDeleted(w *world) { w.remove(w.job()) }

// passes lets time pass.
func passes(d time.Duration) step { return func(w *world) { w.pass(d) } }

// wantsTensorBoard lets the user want a TensorBoard of an image, which a job that runs allows only while it is paused.
func wantsTensorBoard(image string) step {
	return edited(func(s *Shape) { s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: image} })
}

// wantsNoTensorBoard lets the user do without.
func wantsNoTensorBoard(w *world) { edited(func(s *Shape) { s.TensorBoard = nil })(w) }

// tensorBoardServes lets the TensorBoard be ready, as its controller says it.
func tensorBoardServes(w *world) {
	w.t.Helper()
	serving := w.tensorBoard().DeepCopy()
	serving.Status = tensorboardv1beta1.TensorBoardStatus{
		Phase: tensorboardv1beta1.TensorBoardRunning,
		Conditions: []tensorboardv1beta1.TensorBoardCondition{
			{Type: tensorboardv1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: tensorboardv1beta1.ReasonServing},
		},
	}
	w.cluster.Put(serving)
}

// tensorBoardDeleted lets somebody delete the TensorBoard.
func tensorBoardDeleted(w *world) {
	w.t.Helper()
	w.remove(w.tensorBoard())
}

// tensorBoard returns the TensorBoard that there is. The test ends if there is none.
func (w *world) tensorBoard() *tensorboardv1beta1.TensorBoard {
	w.t.Helper()
	found := model.ListOf[*tensorboardv1beta1.TensorBoard](w.cluster.Live())
	if len(found) == 0 {
		w.t.Fatalf("there is no TensorBoard: %s", w.describe())
	}
	return found[0]
}

// closes lets the queue admit nothing new.
func closes(w *world) { w.closed = true }

// opens lets the queue admit what waits.
func opens(w *world) {
	w.closed = false
	w.cluster.Consider(w.closed)
}

// groupExpires lets the job have had nodes for as long as its queue allows.
func groupExpires(w *world) {
	w.t.Helper()
	if !w.cluster.ExpireGroup() {
		w.t.Fatalf("there is no PodGroup: %s", w.describe())
	}
}

// hasGroup checks how many pods the job's PodGroup needs; 0 is that there is none.
func hasGroup(minMember int32) step {
	return func(w *world) {
		w.t.Helper()
		group := w.cluster.Live().PodGroup()
		if got := group != nil; got != (minMember > 0) || got && group.Spec.MinMember != minMember {
			w.t.Errorf("the PodGroup is %+v, want one that needs %d: %s", group, minMember, w.describe())
		}
	}
}

// groupDeleted lets somebody delete the PodGroup.
func groupDeleted(w *world) {
	w.t.Helper()
	w.remove(w.cluster.Live().PodGroup())
}

func (w *world) create(object client.Object) {
	if err := w.cluster.Create(object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(object client.Object) {
	if err := w.cluster.Remove(object, client.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
