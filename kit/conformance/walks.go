package conformance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/kit/model"
)

// testWalks lets jobs live at random. The scenarios let the controller rest between their steps; here everything that
// may happen to pods, to the controller and to its cache interleaves, and however it does, every failure counts once
// and the job goes on. With quick coverage jobs are left alone by their users.
func testWalks(t *testing.T, k model.Kind, c model.Coverage) {
	t.Helper()
	for _, scope := range []batchv1beta1.RestartScope{scopeReplica, scopeJob, ""} {
		for _, policy := range []batchv1beta1.RestartPolicy{onFailure, always} {
			shape := Shape{Replicas: 3, RestartPolicy: policy, RunPolicy: batchv1beta1.RunPolicy{
				RestartScope: scope, BackoffLimit: new(int32(1000)),
			}}
			name := fmt.Sprintf("scope %s/%s/", scope, policy)
			if scope == "" {
				name = fmt.Sprintf("rendezvous/%s/", policy)
			} else {
				t.Run(name+"left alone by its user", func(t *testing.T) { walk{}.check(t, k, shape) })
			}
			if c == model.Quick {
				continue
			}
			if scope != "" {
				t.Run(name+"paused and resumed", func(t *testing.T) { walk{pauses: true}.check(t, k, shape) })
				t.Run(name+"in a queue, paused and resumed", func(t *testing.T) { walk{pauses: true}.check(t, k, inQueue(shape)) })
			}
			shape.Elastic = elastic(1, 3, scope).Elastic
			if k.Runs(shape) {
				t.Run(name+"scaled", func(t *testing.T) { walk{scales: true}.check(t, k, shape) })
				t.Run(name+"scaled, paused and resumed", func(t *testing.T) { walk{scales: true, pauses: true}.check(t, k, shape) })
				t.Run(name+"in a queue and scaled", func(t *testing.T) { walk{scales: true}.check(t, k, inQueue(shape)) })
			}
		}
	}
}

// walk is a world at random.
type walk struct {
	*world
	// pauses and scales say what the user does.
	pauses, scales bool
	// failed is how many pods failed in a way that counts.
	failed int
	// spoiled are the UIDs of pods that nothing more happens to: it would not count.
	spoiled map[types.UID]bool
}

func (w walk) check(t *testing.T, k model.Kind, s Shape) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := w
		w.world, w.spoiled = newWorld(t, k), map[types.UID]bool{}
		created(s)(w.world)
		t.Repeat(w.actions())
		w.arrive(t, s.RunPolicy.RestartScope)
	})
}

func (w *walk) actions() map[string]func(*rapid.T) {
	work := func(*rapid.T) {
		if w.process.stopped {
			w.start(nil)
		}
		if w.dirty || w.wakesBy(w.clock.Now()) {
			w.reconcile()
		}
	}
	actions := map[string]func(*rapid.T){
		"the controller works":       work,
		"the controller works again": work, // twice as often as anything goes wrong
		"pods run":                   func(*rapid.T) { run(w.world) },
		"a pod runs": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodPending); pod != nil {
				w.befall(pod, model.Runs)
			}
		},
		"a pod ends": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.exit(pod, rapid.SampledFrom([]int32{0, 1, 1}).Draw(t, "exit code"))
			}
		},
		"the sidecars of a pod end": func(t *rapid.T) {
			pod := w.oneOf(t, func(pod *corev1.Pod) bool {
				return len(pod.Spec.Containers) > 1 && pod.Status.Phase == corev1.PodRunning
			})
			if pod != nil {
				w.befall(pod, model.EndsSidecars(rapid.SampledFrom([]int32{0, 1, kubelet.ExitTerminated}).Draw(t, "exit code")))
			}
		},
		"somebody deletes a pod": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.befall(pod, model.IsDeleted)
			}
		},
		"somebody deletes a pod by force": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.befall(pod, model.Vanishes)
			}
		},
		"a pod is preempted": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.befall(pod, model.IsPreempted)
			}
		},
		"a kubelet lets go of a pod": func(*rapid.T) { w.confirmDeletion() },
		"time passes": func(t *rapid.T) {
			w.clock.SetTime(w.clock.Now().Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second))
		},
		"a cache freezes": func(t *rapid.T) { w.process.cache.Freeze(w.someResource(t)) },
		"a cache goes on": func(t *rapid.T) { w.process.catchUp(w.someResource(t)) },
		"the controller starts again, with caches that lag": func(t *rapid.T) {
			behind := lag{}
			for _, of := range w.resources() {
				if rapid.Bool().Draw(t, of.String()+" lag") {
					behind[of] = max(0, w.cluster.Revision()-rapid.IntRange(0, 12).Draw(t, of.String()+" lag by"))
				}
			}
			w.start(behind)
		},
		"the controller will stop after a write": func(*rapid.T) { w.process.crashing = true },
		"a write will fail": func(t *rapid.T) {
			w.process.fault = fault{
				effect: rapid.SampledFrom([]model.Effect{model.Refuse, model.Lose, model.Postpone}).Draw(t, "effect"),
				write:  w.writes + rapid.IntRange(1, 3).Draw(t, "write"),
			}
		},
	}
	maps.Copy(actions, w.clusterActions())
	if w.shape.Scheduler != nil {
		actions["the scheduler-controller works"] = func(*rapid.T) { w.cluster.ConsiderNew(w.closed) }
		actions["somebody deletes the PodGroup"] = func(*rapid.T) {
			if group := w.cluster.Live().PodGroup(); group != nil {
				w.remove(group)
			}
		}
	}
	if w.pauses {
		actions["the user pauses the job"] = func(*rapid.T) { paused(w.world) }
		actions["the user resumes the job"] = func(*rapid.T) { resumed(w.world) }
		actions["the user changes a paused job"] = func(t *rapid.T) {
			if replicas := rapid.Int32Range(1, 4).Draw(t, "replicas"); w.status().Phase == batchv1beta1.JobPhasePaused &&
				w.shape.RunMode.Pausing() {
				edited(func(s *Shape) { s.Replicas = replicas })(w.world)
			}
		}
	}
	if w.scales {
		actions["the user scales the job"] = func(t *rapid.T) { scaled(rapid.Int32Range(1, 4).Draw(t, "expected"))(w.world) }
	}
	return actions
}

func (w *walk) resources() []model.Resources {
	of := []model.Resources{model.Jobs, model.Pods, model.Services}
	if w.shape.Scheduler != nil {
		of = append(of, model.PodGroups)
	}
	return of
}

func (w *walk) someResource(t *rapid.T) model.Resources {
	return rapid.SampledFrom(w.resources()).Draw(t, "resource")
}

// some draws one of the pods of the phases that nobody is deleting, whose main container has not ended and whose
// failures count, or nil.
func (w *walk) some(t *rapid.T, phases ...corev1.PodPhase) *corev1.Pod {
	return w.oneOf(t, func(pod *corev1.Pod) bool {
		return slices.Contains(phases, pod.Status.Phase) && pod.DeletionTimestamp == nil && !kubelet.HasEnded(pod) &&
			!w.spoiled[pod.UID]
	})
}

// oneOf draws one of the pods that fit, or nil.
func (w *walk) oneOf(t *rapid.T, fits func(*corev1.Pod) bool) *corev1.Pod {
	fit := slices.DeleteFunc(w.pods(), func(pod *corev1.Pod) bool { return !fits(pod) })
	if len(fit) == 0 {
		return nil
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, "pod")]
}

// exit ends a pod. The leader does not succeed, which would end the job.
func (w *walk) exit(pod *corev1.Pod, code int32) {
	if pod.Name == w.podName(0) {
		code = 1
	}
	if code != 0 {
		w.failed++
	}
	w.befall(pod, model.Exits(code, ""))
}

// arrive lets nothing go wrong any more: every replica runs or has succeeded, and what failed has counted. Where the
// replicas are one collective, failures that are seen together count once; what fails as the job is paused, or is given
// up, need not.
func (w *walk) arrive(t *rapid.T, scope batchv1beta1.RestartScope) {
	w.process.looks = 0
	w.namesAreFree()
	w.carryOutLate(true)
	if w.pauses {
		resumed(w.world)
	}
	w.settle()
	for range 20 { // longer than any restart is delayed
		w.do(run, passes(7*time.Minute))
	}
	status := w.status()
	if status.Phase != batchv1beta1.JobPhaseRunning {
		t.Fatalf("the job hangs: %s", w.describe())
	}
	counted := int(status.BackoffCount)
	if every := scope == scopeReplica && !w.pauses && !w.scales; every && counted != w.failed || counted > w.failed {
		t.Fatalf("%d failures were counted, but %d pods failed", counted, w.failed)
	}
	if elastic := w.shape.Elastic; elastic != nil && len(w.pods()) != int(elastic.Expected()) {
		t.Fatalf("%d replicas are expected: %s", elastic.Expected(), w.describe())
	}
}

// testBrokenWatch lets a pod vanish while the watch of pods is broken. Afterwards the watch shows neither that the pod
// was created nor that it is gone.
func testBrokenWatch(t *testing.T, k model.Kind) {
	t.Helper()
	t.Parallel()
	w := newWorld(t, k)
	w.process.cache.Freeze(model.Pods)
	created(Shape{Replicas: 1, RestartPolicy: onFailure})(w)
	w.reconcile()
	befalls(0, model.Vanishes)(w)
	w.process.catchUp(model.Pods)
	w.settle()
	w.do(run, stands(batchv1beta1.JobPhaseRunning))
}
