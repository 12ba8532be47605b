package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
)

// step is what happens to a job, other than by its controller. The controller rests before and after it.
type step func(*world)

// created lets the user create the job.
func created(s Shape) step {
	return func(w *world) {
		w.shape = s
		if err := w.cluster.create(w.newJob(s)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// paused lets the user pause the job.
func paused(w *world) { edited(func(s *Shape) { *s = pausing(*s) })(w) }

// resumed lets the user end the pause.
func resumed(w *world) { edited(func(s *Shape) { s.RunMode = nil })(w) }

// pausing returns a shape with a job that is to be paused.
func pausing(s Shape) Shape {
	s.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	return s
}

// scaled lets the user expect another number of replicas.
func scaled(expected int32) step {
	return edited(func(s *Shape) {
		elastic := *s.Elastic
		elastic.ExpectedReplicas = &expected
		s.Elastic = &elastic
	})
}

// edited lets the user change the job.
func edited(change func(*Shape)) step {
	return func(w *world) {
		change(&w.shape)
		w.cluster.put(w.cluster.keyOf(w.job()), w.kind.edited(w.job(), w.shape))
	}
}

// run lets every pod that waits run, each on a node of its own.
func run(w *world) {
	for _, pod := range w.pods() {
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			w.cluster.Change(pod, func(p *corev1.Pod) { kubelet.Run(p, "node-of-"+p.Name, w.clock.Now()) })
		}
	}
}

// runs lets the pods of some indices run; there is no room for others.
func runs(indices ...int) step {
	return func(w *world) {
		for _, index := range indices {
			befalls(index, func(p *corev1.Pod, at time.Time) { kubelet.Run(p, "node-of-"+p.Name, at) })(w)
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

// together lets several things happen before the controller sees any of them.
func together(steps ...step) step {
	return func(w *world) {
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

// hasPod checks that a replica has a pod by now.
func hasPod(index int) step { return func(w *world) { w.pod(index) } }

// soon lets a step happen half a second later, before the controller acts on anything that it waits for.
func soon(s step) step { return func(w *world) { w.soon = append(w.soon, s) } }

// befalls lets something befall the pod of an index.
func befalls(index int, what func(*corev1.Pod, time.Time)) step {
	return func(w *world) {
		w.t.Helper()
		w.cluster.Change(w.pod(index), func(p *corev1.Pod) { what(p, w.clock.Now()) })
	}
}

// exits ends the main container of a replica.
func exits(index int, code int32) step {
	return befalls(index, func(p *corev1.Pod, at time.Time) { kubelet.Exit(p, code, "the last output", at) })
}

// ranOutOfMemory ends the main container of a replica for its memory.
func ranOutOfMemory(index int) step { return befalls(index, kubelet.KillForMemory) }

// ranOutOfStorage evicts the pod of a replica for its own use of storage.
func ranOutOfStorage(index int) step { return befalls(index, kubelet.EvictForStorage) }

// rejected lets the node refuse the pod of a replica that was about to start again.
func rejected(index int) step {
	return befalls(index, func(p *corev1.Pod, _ time.Time) { kubelet.Reject(p, "node-of-"+p.Name) })
}

// preempted lets the scheduler take a replica's place.
func preempted(index int) step {
	return together(befalls(index, kubelet.Preempt), deleted(index))
}

// nodeShutDown lets the node of a replica shut down, at which the program saves its work and exits with 0.
func nodeShutDown(index int) step { return befalls(index, kubelet.ShutDownNode) }

// losesNode lets the node of a replica stop to answer.
func losesNode(index int) step {
	return func(w *world) {
		pod := w.pod(index)
		w.lost[pod.Spec.NodeName] = true
		befalls(index, kubelet.LoseNode)(w)
		deleted(index)(w)
	}
}

// deleted lets somebody delete the pod of a replica.
func deleted(index int) step {
	return func(w *world) { w.remove(w.pod(index), client.DeleteOptions{}) }
}

// vanishes lets somebody delete the pod of a replica by force, so that nothing is left to be seen of it.
func vanishes(index int) step {
	return func(w *world) { w.remove(w.pod(index), client.DeleteOptions{GracePeriodSeconds: new(int64(0))}) }
}

// jobDeleted lets the user delete the job.
func jobDeleted(w *world) { w.remove(w.job(), client.DeleteOptions{}) }

// passes lets time pass.
func passes(d time.Duration) step { return func(w *world) { w.pass(d) } }

// foreignPod puts a pod that is not the job's where one of the job's must go.
func foreignPod(w *world) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: jobKey.Namespace, Name: w.podName(1)}}
	if err := w.cluster.create(pod); err != nil {
		w.t.Fatal(err)
	}
}

// foreignPodGoes takes it away again.
func foreignPodGoes(w *world) {
	for _, pod := range list[*corev1.Pod](w.cluster.live()) {
		if metav1.GetControllerOf(pod) == nil {
			w.remove(pod, client.DeleteOptions{})
			return
		}
	}
	w.t.Fatal("the pod of somebody else is gone already")
}

// wantsTensorBoard lets the user want a TensorBoard of an image, which a job that runs allows only while it is paused.
func wantsTensorBoard(image string) step {
	return edited(func(s *Shape) { s.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{Image: image} })
}

// wantsNoTensorBoard lets the user do without.
func wantsNoTensorBoard(w *world) { edited(func(s *Shape) { s.TensorBoard = nil })(w) }

// tensorBoardServes lets the TensorBoard be ready, as its controller says it.
func tensorBoardServes(w *world) {
	w.t.Helper()
	serving := copyOf(w.tensorBoard())
	serving.Status = tensorboardv1beta1.TensorBoardStatus{
		Phase: tensorboardv1beta1.TensorBoardRunning,
		Conditions: []tensorboardv1beta1.TensorBoardCondition{
			{Type: tensorboardv1beta1.ConditionReady, Status: metav1.ConditionTrue, Reason: tensorboardv1beta1.ReasonServing},
		},
	}
	w.cluster.put(w.cluster.keyOf(serving), serving)
}

// tensorBoardDeleted lets somebody delete the TensorBoard.
func tensorBoardDeleted(w *world) {
	w.t.Helper()
	w.remove(w.tensorBoard(), client.DeleteOptions{})
}

// tensorBoard returns the TensorBoard that there is. The test ends if there is none.
func (w *world) tensorBoard() *tensorboardv1beta1.TensorBoard {
	w.t.Helper()
	found := list[*tensorboardv1beta1.TensorBoard](w.cluster.live())
	if len(found) == 0 {
		w.t.Fatalf("there is no TensorBoard: %s", w.describe())
	}
	return found[0]
}

// foreignTensorBoard puts a TensorBoard that is not the job's where the job's must go.
func foreignTensorBoard(w *world) {
	foreign := &tensorboardv1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Namespace: jobKey.Namespace, Name: jobKey.Name}}
	if err := w.cluster.create(foreign); err != nil {
		w.t.Fatal(err)
	}
}

// closes lets the queue admit nothing new.
func closes(w *world) { w.closed = true }

// opens lets the queue admit what waits.
func opens(w *world) {
	w.closed = false
	if group := w.cluster.live().podGroup(); group != nil && owned(group) {
		w.cluster.consider(group, false)
	}
}

// hasGroup checks how many pods the job's PodGroup needs; 0 is that there is none.
func hasGroup(minMember int32) step {
	return func(w *world) {
		w.t.Helper()
		group := w.cluster.live().podGroup()
		if got := group != nil; got != (minMember > 0) || got && group.Spec.MinMember != minMember {
			w.t.Errorf("the PodGroup is %+v, want one that needs %d: %s", group, minMember, w.describe())
		}
	}
}

// groupDeleted lets somebody delete the PodGroup.
func groupDeleted(w *world) {
	w.t.Helper()
	w.remove(w.cluster.live().podGroup(), client.DeleteOptions{})
}

// foreignGroup puts a PodGroup that is not the job's where the job's must go.
func foreignGroup(w *world) {
	foreign := &schedulerv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: jobKey.Namespace, Name: jobKey.Name}}
	if err := w.cluster.create(foreign); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(object client.Object, options client.DeleteOptions) {
	if err := w.cluster.remove(object, options); err != nil {
		w.t.Fatal(err)
	}
}
