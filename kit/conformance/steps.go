package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
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
