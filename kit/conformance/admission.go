package conformance

import (
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// admissionScenarios are scenarios in which admission or a user removes a label from pods. All scenarios of this
// package also run with admission that adds containers. See model.Mesh.
var admissionScenarios = []scenario{
	{
		name:   "a job reports that admission always removes the attempt label from its pods",
		shape:  Shape{Replicas: 1, RestartPolicy: onFailure},
		before: []step{admissionTakesOff(batchv1beta1.LabelAttempt)},
		steps:  []step{triesAtMost(9, 3*time.Minute), waitsFor("AdmissionChangedPod"), jobDeleted},
	},
	{
		name:     "a job reports that admission always removes the job-kind label from its pods",
		shape:    two(onFailure, scopeReplica),
		holdsNot: true, // a held pod without this label is not in the cache, so it stays if a fault delays its release
		before:   []step{admissionTakesOff(batchv1beta1.LabelJobKind)},
		steps:    []step{triesAtMost(9, 3*time.Minute), waitsFor("AdmissionChangedPod"), jobDeleted},
	},
	{
		name:   "a job runs once admission no longer removes the attempt label from its pods",
		shape:  two(onFailure, scopeJob, limit(0)),
		late:   time.Minute, // the longest backoff between two attempts to create a pod
		before: []step{admissionTakesOff(batchv1beta1.LabelAttempt)},
		steps: []step{
			passes(20 * time.Second), admissionIsFixed, passes(time.Minute), run, stands(batchv1beta1.JobPhaseRunning),
			exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
	{
		name:  "a job restarts once admission no longer removes the job-name label from its pods",
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
		name:  "a worker whose pod loses the attempt label is replaced once",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, marks(0), unlabeled(1, batchv1beta1.LabelAttempt), run, stands(batchv1beta1.JobPhaseRunning), keepsMarked,
			passes(time.Minute), exits(1, 0), exits(0, 0),
		},
		want: result{Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Succeeded"}},
	},
}

// waitsFor returns a step that checks that the job is Pending with the given reason.
func waitsFor(reason string) step {
	return func(w *world) {
		w.t.Helper()
		if s := w.status(); s.Phase != batchv1beta1.JobPhasePending || s.Reason != reason {
			w.t.Errorf("the job is %s with reason %s, want Pending with reason %s: %s", s.Phase, s.Reason, reason, w.describe())
		}
	}
}

// triesAtMost returns a step in which time passes. The step checks that the controller makes at most the given number
// of tries. In a try, the controller creates a pod and deletes it again. This takes two writes, or three if the
// controller must first remove the finalizer of a held pod.
func triesAtMost(tries int, d time.Duration) step {
	return func(w *world) {
		w.t.Helper()
		before, each := w.writes, 2
		if w.Kind.HoldsLeaders {
			each = 3
		}
		w.pass(d)
		if got := w.writes - before; got > each*tries {
			w.t.Errorf("the controller makes %d writes in %s, want at most %d: %s", got, d, each*tries, w.describe())
		}
	}
}

// admissionTakesOff returns a step after which admission removes a label from each new pod.
func admissionTakesOff(label string) step {
	return func(w *world) { w.Cluster.SetAdmission(w.Kind.Admission.TakesOff(label)) }
}

// admissionIsFixed is a step after which admission no longer removes labels.
func admissionIsFixed(w *world) { w.Cluster.SetAdmission(w.Kind.Admission) }
