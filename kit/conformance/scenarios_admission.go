package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// admissionScenarios are lives of jobs on a cluster whose admission takes a label off their pods. That the API server
// adds containers is checked by all scenarios; see Mesh.
var admissionScenarios = []scenario{
	{
		name:   "admission takes the attempt off the pods for good, and the job says why it does not run",
		shape:  Shape{Replicas: 1, RestartPolicy: onFailure},
		before: []step{admissionTakesOff(batchv1beta1.LabelAttempt)},
		steps:  []step{triesAtMost(9, 3*time.Minute), waitsFor("AdmissionChangedPod"), jobDeleted},
	},
	{
		name:   "admission takes the kind of job off the pods for good, and the job says why it does not run",
		shape:  two(onFailure, scopeReplica),
		before: []step{admissionTakesOff(batchv1beta1.LabelJobKind)},
		steps:  []step{triesAtMost(9, 3*time.Minute), waitsFor("AdmissionChangedPod"), jobDeleted},
	},
	{
		name:   "admission takes the attempt off the pods for a while, and then the job runs",
		shape:  two(onFailure, scopeJob, limit(0)),
		late:   time.Minute, // which is how far apart the tries may be
		before: []step{admissionTakesOff(batchv1beta1.LabelAttempt)},
		steps: []step{
			passes(20 * time.Second), admissionIsFixed, passes(time.Minute), run, stands(batchv1beta1.JobPhaseRunning),
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "admission takes the name of the job off the pods while the job restarts",
		shape: two(onFailure, scopeJob, limit(1)),
		late:  time.Minute,
		steps: []step{
			run, admissionTakesOff(batchv1beta1.LabelJobName), exits(1, 1), passes(20 * time.Second),
			stands(batchv1beta1.JobPhasePending), admissionIsFixed, passes(time.Minute), run,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2,
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "somebody takes the attempt off a worker's pod, which is replaced once",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), unlabelled(1, batchv1beta1.LabelAttempt), run, stands(batchv1beta1.JobPhaseRunning), keepsMarked,
			passes(time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
}

// waitsFor checks that the job is Pending, and the reason that it gives.
func waitsFor(reason string) step {
	return func(w *world) {
		w.t.Helper()
		if s := w.status(); s.Phase != batchv1beta1.JobPhasePending || s.Reason != reason {
			w.t.Errorf("the job is %s (%s), want Pending (%s): %s", s.Phase, s.Reason, reason, w.describe())
		}
	}
}

// triesAtMost lets time pass. In it the controller tries at most so often to create a pod, and deletes the pod. A pod
// that is held is released first.
func triesAtMost(tries int, d time.Duration) step {
	return func(w *world) {
		w.t.Helper()
		before, each := w.writes, 2
		if w.kind.HoldsLeaders {
			each = 3
		}
		w.pass(d)
		if got := w.writes - before; got > each*tries {
			w.t.Errorf("the controller writes %d times in %s: %s", got, d, w.describe())
		}
	}
}

// admissionTakesOff lets the admission of the cluster take a label off each pod from now on.
func admissionTakesOff(label string) step {
	return func(w *world) { w.cluster.SetAdmission(w.kind.Admission.TakesOff(label)) }
}

// admissionIsFixed lets the admission of the cluster leave the labels of pods alone.
func admissionIsFixed(w *world) { w.cluster.SetAdmission(w.kind.Admission) }
