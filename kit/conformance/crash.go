package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// staleEvery limits the restarts with stale caches, because they take most of the time of the tests. In testCrashes,
// they follow only every staleEvery-th write, or with full coverage every write.
const staleEvery = 8

// testCrashes runs every scenario once without a fault. Then it runs the scenario again for each write of the
// controller and each fault that the coverage selects for the write. With every fault, the same objects must be left
// at the end, with the same counts in the status of the job. If the coverage is less than thorough, the only fault is
// a stop of the controller.
func testCrashes(t *testing.T, k model.Kind, c model.Coverage) {
	t.Helper()
	for i, s := range scenarios {
		if !model.IsInPart(i) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if !s.isFor(k) {
				t.Skip("jobs of this kind do not support the scenario")
			}
			calm := s.happen(t, k, fault{}, nil)
			got := calm.result()
			want := s.want
			if k.Admission != nil {
				want.Pods = s.podsInMesh()
			}
			if want.Failure == "" {
				got.Failure = ""
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("without a fault the end is not as expected (-want +got):\n%s", diff)
			}
			ends := occurrences(calm.events, "Completed") + occurrences(calm.events, "Failed")
			if job := calm.job(); job != nil && job.JobStatus().Finished() != (ends == 1) {
				t.Errorf("%d events report the end, want one for a finished job and none otherwise: %q", ends, calm.events)
			}
			if refusals := occurrences(calm.events, batchv1beta1.ReasonAdmissionChangedPod); refusals > 1 {
				t.Errorf("%d events report that admission changes pods, want one: %q", refusals, calm.events)
			}
			most := calm.metrics()
			runs := 0
			try := func(f fault, behind lag) *world {
				runs++
				w := s.happen(t, k, f, behind)
				if diff := gocmp.Diff(calm.remains(), w.remains(), sameTime(max(s.late, tolerance))); diff != "" {
					t.Errorf("the fault changes the end (-without the fault +with the fault):\n%s", diff)
				}
				// If a process stops, or does not learn that its write took effect, an event or a metric can be missing. A fault
				// must never add one.
				lossy := f.effect == model.Stop || f.effect == model.Lose || f.effect == model.Postpone
				more := slices.DeleteFunc(slices.Clone(w.events), occursIn(calm.events))
				if f.effect == model.Postpone { // EventPaused occurs again if a delayed write creates a pod during a pause
					more = slices.DeleteFunc(more, func(event string) bool { return event == batchv1beta1.EventPaused })
				}
				if len(more) > 0 ||
					!lossy && len(w.events) < len(calm.events) {
					t.Errorf("with the fault the events are %q, want %q", w.events, calm.events)
				}
				for name, most := range most {
					if got := w.metrics()[name]; got > most || !lossy && got < most {
						t.Errorf("with the fault the metric %s is %v, want %v", name, got, most)
					}
				}
				if t.Failed() {
					t.Fatalf("the fault: %s write %d of %d; the stale caches then show the revisions %v",
						f.effect, f.write, calm.writes, behind)
				}
				return w
			}
			for write := 1; write <= calm.writes; write++ {
				if c < model.Thorough {
					try(fault{effect: model.Stop, write: write}, nil)
					continue
				}
				try(fault{effect: model.Refuse, write: write}, nil)
				try(fault{effect: model.Lose, write: write}, nil)
				for steps := range len(s.steps) + 1 {
					if mayBeLate(calm.calls[write-1]) && (c >= model.Full || steps == write%(len(s.steps)+1)) {
						try(fault{effect: model.Postpone, write: write, steps: steps}, nil)
					}
				}
				if c >= model.Full && calm.calls[write-1].Resource == model.Pods {
					try(fault{effect: model.Hide, write: write}, nil)
				}
				stopped := try(fault{effect: model.Stop, write: write}, nil)
				if c < model.Full && (write+i)%staleEvery != 0 {
					continue
				}
				for _, behind := range stopped.lags(c) {
					try(fault{effect: model.Stop, write: write}, behind)
				}
			}
			t.Logf("%d writes, %d runs", calm.writes, runs)
		})
	}
}

// happen runs a scenario with a fault and returns the world at its end.
func (s scenario) happen(t rapid.TB, k model.Kind, f fault, behind lag) *world {
	t.Helper()
	w := newWorld(t, k)
	s.play(w, f, behind)
	return w
}

// isFor reports whether jobs of a kind support the scenario.
func (s scenario) isFor(k model.Kind) bool {
	return k.Runs(s.shape) && (!s.holdsNot || !k.HoldsLeaders) && (!s.peersEnd || !k.ServesLeader())
}

// play runs the scenario in a new world with a fault.
func (s scenario) play(w *world, f fault, behind lag) {
	if s.holds {
		w.options.HoldLeaders = true
		w.start(nil)
	}
	w.fault, w.lag, w.process.fault = f, behind, f
	w.do(s.before...)
	w.do(created(s.shape))
	w.do(s.steps...)
	w.carryOutLate(true)
	w.pass(time.Minute) // so that the controller makes its last batched status writes
}

// mayBeLate reports whether the job must end in the same way if the API server delays the write. Usually it must,
// because the controller deletes an object as soon as it sees that the job does not need the object. The exception is
// a TensorBoard, a NetworkPolicy or a Secret that a delayed write creates when the job no longer needs it. Such an
// object stays until the job is deleted.
func mayBeLate(call model.Call) bool {
	return call.Verb != "create" || call.Resource&(model.TensorBoards|model.NetworkPolicies|model.Secrets) == 0
}

// tolerance is the most by which a fault may shift a time in the remaining objects. A scenario can allow more in its
// field late.
const tolerance = 5 * time.Second

// sameTime returns options that compare times with a tolerance.
func sameTime(tolerance time.Duration) gocmp.Options {
	return gocmp.Options{
		gocmp.Comparer(func(a, b metav1.Time) bool { return a.Sub(b.Time).Abs() <= tolerance }),
		gocmp.Comparer(func(a, b *metav1.Time) bool {
			if a == nil || b == nil {
				return a == b
			}
			return a.Sub(b.Time).Abs() <= tolerance
		}),
	}
}

// lags returns the ways in which the cache of the restarted controller can be stale. The cache can show all resources
// as they were at an earlier revision. With full coverage, it can also show only one resource in this way.
func (w *world) lags(c model.Coverage) []lag {
	var lags []lag
	sets := []model.Resources{
		model.Cached, model.Jobs, model.Pods, model.TensorBoards, model.PodGroups, model.NetworkPolicies, model.Workloads,
	}
	if c < model.Full {
		sets = sets[:1]
	}
	for _, of := range sets {
		for revision := range w.stoppedAt {
			if w.Cluster.ChangeTo(revision+1).Resource()&of != 0 {
				lags = append(lags, lag{of: revision})
			}
		}
	}
	return lags
}

// occursIn returns a function that reports whether a string is in the list. Each call uses up one occurrence.
func occursIn(list []string) func(string) bool {
	left := map[string]int{}
	for _, s := range list {
		left[s]++
	}
	return func(s string) bool {
		left[s]--
		return left[s] >= 0
	}
}

func occurrences(list []string, s string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(other string) bool { return other != s }))
}

// result is the end of a scenario, either the expected or the actual one.
type result struct {
	// Phase and Reason of the job. Empty means that the job is gone.
	Phase, Reason string
	// Backoff is the backoffCount. Restarts is the sum of the restartCount of all replicas.
	Backoff, Restarts int32
	// Pods are the remaining pods with their phase.
	Pods []string
	// Failure is the newest failure: index, reason, exit code, whether it counted, and the rank that a signal killed, if
	// any. Empty means that the scenario does not check it.
	Failure string
	// TensorBoard is the remaining TensorBoard and its status. Empty means none.
	TensorBoard string
	// PodGroups are the remaining PodGroups with the number of pods that each needs.
	PodGroups []string
	// Workloads are the remaining Workloads with the number of their pods and the conditions that are True.
	Workloads []string
}

// podsInMesh returns the pods that must be left at the end of the scenario in a mesh. If the cleanUpPolicy keeps all
// pods, they are Running, because sidecars keep running after the main container has ended. Otherwise, no pod is
// left.
func (s scenario) podsInMesh() []string {
	if s.shape.RunPolicy.CleanUpPolicy != batchv1beta1.CleanUpPolicyNone {
		return nil
	}
	var running []string
	for _, pod := range s.want.Pods {
		index, _, _ := strings.Cut(pod, " ")
		running = append(running, index+" Running")
	}
	return running
}

func (w *world) result() result {
	var r result
	if job := w.job(); job != nil {
		status := job.JobStatus()
		r.Phase, r.Reason, r.Backoff = string(status.Phase), status.Reason, status.BackoffCount
		for _, task := range status.Tasks {
			r.Restarts += task.RestartCount
		}
		if len(status.Failures) > 0 {
			f := status.Failures[0]
			r.Failure = fmt.Sprintf("%s %s %d %t", f.Replica[len(f.Replica)-1:], f.Reason, ptr.Deref(f.ExitCode, 0), f.Counted)
			if f.RankSignal != "" {
				r.Failure += fmt.Sprintf(" rank %d %s", ptr.Deref(f.Rank, -1), f.RankSignal)
			}
		}
		if tensorBoard := model.TensorBoardStatus(job); tensorBoard != nil {
			r.TensorBoard = tensorBoard.Action + " " + tensorBoard.Reason
		}
	}
	for _, tensorBoard := range model.ListOf[*tensorboardv1beta1.TensorBoard](w.Cluster.Live()) {
		r.TensorBoard = fmt.Sprintf("%s (%s)", tensorBoard.Spec.Image, r.TensorBoard)
	}
	r.PodGroups, r.Workloads = w.remains().PodGroups, w.remains().Workloads
	for _, pod := range w.pods() {
		r.Pods = append(r.Pods, fmt.Sprintf("%s %s", pod.Labels[batchv1beta1.LabelReplicaIndex], pod.Status.Phase))
	}
	return r
}
