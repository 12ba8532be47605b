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

// testCrashes lets every scenario happen once without a fault, and then again with each fault at each of the
// controller's writes: it ends the same way every time, with the same counts. With less than thorough coverage the only
// fault is that the controller stops.
func testCrashes(t *testing.T, k model.Kind, c model.Coverage) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if !k.Runs(s.shape) || s.holdsNot && k.HoldsLeaders || s.peersEnd && k.ServesLeader() {
				t.Skip("jobs of this kind do not do that")
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
				t.Fatalf("unexpected end (-want +got):\n%s", diff)
			}
			ends := occurrences(calm.events, "Completed") + occurrences(calm.events, "Failed")
			if job := calm.job(); job != nil && job.JobStatus().Finished() != (ends == 1) {
				t.Errorf("%d events tell of the end: %q", ends, calm.events)
			}
			if refusals := occurrences(calm.events, batchv1beta1.ReasonAdmissionChangedPod); refusals > 1 {
				t.Errorf("%d events tell that admission changes pods: %q", refusals, calm.events)
			}
			most := calm.metrics()
			runs := 0
			try := func(f fault, behind lag) *world {
				runs++
				w := s.happen(t, k, f, behind)
				if diff := gocmp.Diff(calm.remains(), w.remains(), sameTime(max(s.late, tolerance))); diff != "" {
					t.Errorf("another end (-without a fault +with it):\n%s", diff)
				}
				// A process that ends may take with it an event, or what it counted. Nothing is said or counted once more.
				lossy := f.effect == model.Stop || f.effect == model.Lose || f.effect == model.Postpone
				more := slices.DeleteFunc(slices.Clone(w.events), occursIn(calm.events))
				if f.effect == model.Postpone { // a pod that is created late in a pause ends, and then the job is paused again
					more = slices.DeleteFunc(more, func(event string) bool { return event == batchv1beta1.EventPaused })
				}
				if len(more) > 0 ||
					!lossy && len(w.events) < len(calm.events) {
					t.Errorf("the events are %q, want %q", w.events, calm.events)
				}
				for name, most := range most {
					if got := w.metrics()[name]; got > most || !lossy && got < most {
						t.Errorf("%s is %v, want %v", name, got, most)
					}
				}
				if t.Failed() {
					t.Fatalf("when %s write %d of %d, the cache then being behind at %v", f.effect, f.write, calm.writes, behind)
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
				if s.inTurn && c < model.Full {
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

// happen lets a scenario happen, with a fault, and returns what has become of the world.
func (s scenario) happen(t rapid.TB, k model.Kind, f fault, behind lag) *world {
	t.Helper()
	w := newWorld(t, k)
	if s.holds {
		w.options.HoldLeaders = true
		w.start(nil)
	}
	w.fault, w.lag, w.process.fault = f, behind, f
	w.do(s.before...)
	w.do(created(s.shape))
	w.do(s.steps...)
	w.carryOutLate(true)
	w.pass(time.Minute) // the last of what is written late
	return w
}

// mayBeLate reports whether a job ends in the same way if the API server is late with a write. A TensorBoard, a
// NetworkPolicy or a Secret that is created when the job needs none any more stays until the job is deleted. The others
// are deleted as soon as the controller sees them.
func mayBeLate(call model.Call) bool {
	return call.Verb != "create" || call.Resource&(model.TensorBoards|model.NetworkPolicies|model.Secrets) == 0
}

// tolerance is how much later a thing may happen if something went wrong.
const tolerance = 5 * time.Second

// sameTime compares times with tolerance.
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

// lags returns every way in which the cache could have been behind when the controller started again: every earlier
// state of all, and with full coverage also of the jobs alone, of the pods alone, and so on.
func (w *world) lags(c model.Coverage) []lag {
	var lags []lag
	sets := []model.Resources{
		model.Cached, model.Jobs, model.Pods, model.TensorBoards, model.PodGroups, model.NetworkPolicies,
	}
	if c < model.Full {
		sets = sets[:1]
	}
	for _, of := range sets {
		for revision := range w.stoppedAt {
			if w.cluster.ChangeTo(revision+1).Resource()&of != 0 {
				lags = append(lags, lag{of: revision})
			}
		}
	}
	return lags
}

// occursIn returns a function that takes one occurrence off the list each time it finds one.
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

// result is what a scenario expects at its end.
type result struct {
	// Phase and Reason of the job; empty if it is gone.
	Phase, Reason string
	// Backoff is backoffCount, Restarts the restartCount of all replicas together.
	Backoff, Restarts int32
	// Pods that are left, with their phase.
	Pods []string
	// Failure is the newest: index, reason and exit code, whether it counted, and the rank that a signal ended. Not
	// every scenario says it.
	Failure string
	// TensorBoard that is left, and what the status says of it; empty for none.
	TensorBoard string
	// PodGroups that are left, with how many pods they need.
	PodGroups []string
}

// podsInMesh returns the pods that are left if their sidecars run on when their main container has ended: none, unless
// all are kept.
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
	for _, tensorBoard := range model.ListOf[*tensorboardv1beta1.TensorBoard](w.cluster.Live()) {
		r.TensorBoard = fmt.Sprintf("%s (%s)", tensorBoard.Spec.Image, r.TensorBoard)
	}
	r.PodGroups = w.remains().PodGroups
	for _, pod := range w.pods() {
		r.Pods = append(r.Pods, fmt.Sprintf("%s %s", pod.Labels[batchv1beta1.LabelReplicaIndex], pod.Status.Phase))
	}
	return r
}
