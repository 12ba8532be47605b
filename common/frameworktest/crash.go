package frameworktest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
)

// testCrashes lets every scenario happen once without a fault, and then again with each fault at each of the controller's
// writes: it ends the same way every time, with the same counts.
func testCrashes(t *testing.T, k kind) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			calm := s.happen(t, k, Fault{}, nil)
			if diff := gocmp.Diff(s.want, calm.result()); diff != "" {
				t.Fatalf("unexpected end (-want +got):\n%s", diff)
			}
			most := calm.metrics()
			runs := 0
			try := func(f Fault, lag map[string]int) *world {
				runs++
				w := s.happen(t, k, f, lag)
				if diff := gocmp.Diff(calm.remains(), w.remains(), sameTime); diff != "" {
					t.Errorf("another end (-without a fault +with it):\n%s", diff)
				}
				if more := slices.DeleteFunc(slices.Clone(w.events), occursIn(calm.events)); len(more) > 0 {
					t.Errorf("events are emitted once more: %q", more)
				}
				for name, value := range w.metrics() {
					if value > most[name] {
						t.Errorf("%s is %v, want at most %v", name, value, most[name])
					}
				}
				if t.Failed() {
					t.Fatalf("when %s write %d of %d, the cache then being behind at %v", f.Effect, f.Write, calm.writes, lag)
				}
				return w
			}
			for write := 1; write <= calm.writes; write++ {
				try(Fault{Effect: Refuse, Write: write}, nil)
				try(Fault{Effect: Lose, Write: write}, nil)
				stopped := try(Fault{Effect: Stop, Write: write}, nil)
				for _, lag := range stopped.lags() {
					try(Fault{Effect: Stop, Write: write}, lag)
				}
			}
			t.Logf("%d writes, %d runs", calm.writes, runs)
		})
	}
}

// happen lets a scenario happen, with a fault, and returns what has become of the world.
func (s scenario) happen(t testing.TB, k kind, f Fault, lag map[string]int) *world {
	t.Helper()
	w := newWorld(t, k)
	w.fault, w.lag, w.process.fault = f, lag, f
	w.do(s.before...)
	w.do(created(s.shape))
	w.do(s.steps...)
	w.pass(time.Minute) // the last of what is written late
	return w
}

// lags returns every way in which the cache could have been behind when the controller started again: every earlier state,
// of the jobs alone, of the pods alone, and of all.
func (w *world) lags() []map[string]int {
	var lags []map[string]int
	for _, kinds := range [][]string{{w.kind.name}, {"Pod"}, {w.kind.name, "Pod", "Service"}} {
		for revision := range w.stoppedAt {
			if w.cluster.changed(revision+1, sets.New(kinds...)) {
				lag := map[string]int{}
				for _, kind := range kinds {
					lag[kind] = revision
				}
				lags = append(lags, lag)
			}
		}
	}
	return lags
}

// changed says that the write which led to a revision was to an object of the kinds.
func (c *Cluster) changed(revision int, kinds sets.Set[string]) bool {
	before, after := c.states[revision-1], c.states[revision]
	for _, state := range []objects{before, after} {
		for key := range maps.Keys(state) {
			if before[key] != after[key] {
				return kinds.Has(c.kindOf(state[key]))
			}
		}
	}
	return false
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

// result is what a scenario expects at its end.
type result struct {
	// Phase and Reason of the job; empty if it is gone.
	Phase, Reason string
	// Backoff is backoffCount, Restarts the restartCount of all replicas together.
	Backoff, Restarts int32
	// Pods that are left, with their phase.
	Pods []string
}

func (w *world) result() result {
	var r result
	if job := w.job(); job != nil {
		status := job.JobStatus()
		r.Phase, r.Reason, r.Backoff = string(status.Phase), status.Reason, status.BackoffCount
		for _, task := range status.Tasks {
			r.Restarts += task.RestartCount
		}
	}
	for _, pod := range w.pods() {
		r.Pods = append(r.Pods, fmt.Sprintf("%s %s", pod.Labels["batch.tensorstack.dev/replica-index"], pod.Status.Phase))
	}
	return r
}
