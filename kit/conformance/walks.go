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

// testWalks runs jobs with random sequences of events. In the scenarios, the world settles between two steps. In a
// walk, events of pods, of the controller and of its cache interleave in any order. The job must recover, and no
// failure must count twice. With quick coverage, users do not change the jobs.
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
				t.Run(name+"the user does not change the job", func(t *testing.T) { walk{}.check(t, k, shape) })
			}
			if c == model.Quick {
				continue
			}
			if scope != "" {
				t.Run(name+"the user pauses the job", func(t *testing.T) { walk{pauses: true}.check(t, k, shape) })
				t.Run(name+"the user pauses a job in a queue", func(t *testing.T) {
					walk{pauses: true}.check(t, k, inQueue(shape))
				})
			}
			shape.Elastic = elastic(1, 3, scope).Elastic
			if k.Runs(shape) {
				t.Run(name+"the user scales the job", func(t *testing.T) { walk{scales: true}.check(t, k, shape) })
				t.Run(name+"the user scales and pauses the job", func(t *testing.T) {
					walk{scales: true, pauses: true}.check(t, k, shape)
				})
				t.Run(name+"the user scales a job in a queue", func(t *testing.T) {
					walk{scales: true}.check(t, k, inQueue(shape))
				})
			}
		}
	}
}

// walk is a world with random events.
type walk struct {
	*world
	// pauses is set if the user pauses and resumes the job. scales is set if the user scales the job.
	pauses, scales bool
	// failed is the number of pod failures that count. withdrawn is the number of times that the admission of the job
	// was withdrawn.
	failed, withdrawn int
	// inPlace is the number of restarts in place.
	inPlace int
	// hasBadNodes is set if nodes and devices fail.
	hasBadNodes bool
	// spoiled has the UIDs of pods whose failures no longer count. The walk makes no more failures happen to these pods.
	spoiled map[types.UID]bool
}

func (w walk) check(t *testing.T, k model.Kind, s Shape) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := w
		w.world, w.spoiled = newWorld(t, k), map[types.UID]bool{}
		s := s
		s.Kueue = s.Kueue || s.Scheduler == nil && rapid.IntRange(0, 3).Draw(t, "1 in 4 jobs is for Kueue") == 0
		if rapid.IntRange(0, 3).Draw(t, "1 in 4 jobs reports its progress") == 0 {
			s = reportingAtRandom(t, k, s)
		}
		if rapid.IntRange(0, 3).Draw(t, "1 in 4 jobs counts restarts in place") == 0 && k.Runs(counting(s)) {
			s = counting(s)
		}
		w.hasBadNodes = rapid.IntRange(0, 3).Draw(t, "1 in 4 jobs has bad nodes") == 0
		created(s)(w.world)
		t.Repeat(w.actions())
		w.checkEnd(t, s.RunPolicy.RestartScope)
	})
}

func (w *walk) actions() map[string]func(*rapid.T) {
	work := func(*rapid.T) {
		if w.process.stopped {
			w.start(nil)
		}
		if w.Dirty || w.requeuedBy(w.Clock.Now()) {
			w.reconcile()
		}
	}
	actions := map[string]func(*rapid.T){
		"the controller reconciles":           work,
		"the controller reconciles once more": work, // reconciles are twice as likely as any other action
		"all pending pods start":              func(*rapid.T) { run(w.world) },
		"a pod starts": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodPending); pod != nil {
				w.happenTo(pod, model.Runs)
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
				w.happenTo(pod, model.EndsSidecars(rapid.SampledFrom([]int32{0, 1, kubelet.ExitTerminated}).Draw(t, "exit code")))
			}
		},
		"a user deletes a pod": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.happenTo(pod, model.IsDeleted)
			}
		},
		"a user deletes a pod by force": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.happenTo(pod, model.Vanishes)
			}
		},
		"a pod is preempted": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.happenTo(pod, model.IsPreempted)
			}
		},
		"a kubelet stops or removes a pod that is being deleted": func(*rapid.T) { w.confirmDeletion() },
		"time passes": func(t *rapid.T) {
			w.Clock.SetTime(w.Clock.Now().Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second))
		},
		"a cache freezes":    func(t *rapid.T) { w.Cache.Freeze(w.someResource(t)) },
		"a cache catches up": func(t *rapid.T) { w.CatchUp(w.someResource(t)) },
		"the controller restarts with stale caches": func(t *rapid.T) {
			behind := lag{}
			for _, of := range w.resources() {
				if rapid.Bool().Draw(t, "the cache is stale: "+of.String()) {
					lost := rapid.IntRange(0, 12).Draw(t, "number of missing writes: "+of.String())
					behind[of] = max(0, w.Cluster.Revision()-lost)
				}
			}
			w.start(behind)
		},
		"the controller will stop after its next write": func(*rapid.T) { w.process.crashing = true },
		"one of the next writes will fail": func(t *rapid.T) {
			w.process.fault = fault{
				effect: rapid.SampledFrom([]model.Effect{model.Refuse, model.Lose, model.Postpone}).Draw(t, "effect"),
				write:  w.writes + rapid.IntRange(1, 3).Draw(t, "write"),
			}
		},
	}
	maps.Copy(actions, w.clusterActions())
	if w.shape.Scheduler != nil {
		actions["the scheduler-controller reconciles the PodGroup"] = func(*rapid.T) { w.Cluster.ConsiderNew(w.closed) }
		actions["a user deletes the PodGroup"] = func(*rapid.T) {
			if group := w.Cluster.Live().PodGroup(); group != nil {
				w.remove(group)
			}
		}
	}
	if w.shape.Kueue {
		maps.Copy(actions, w.kueueActions())
	}
	if w.hasBadNodes {
		maps.Copy(actions, w.nodeActions())
	}
	if w.shape.Progress != nil {
		maps.Copy(actions, w.trainingActions())
	}
	if w.shape.InPlace {
		actions["the processes restart in place"] = w.countRestart
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
	if w.shape.Kueue {
		of = append(of, model.Workloads)
	}
	return of
}

func (w *walk) someResource(t *rapid.T) model.Resources {
	return rapid.SampledFrom(w.resources()).Draw(t, "resource")
}

// some draws a pod whose failure would count. The pod is in one of the phases and is not being deleted, and its main
// container has not ended. The result is nil if there is no such pod.
func (w *walk) some(t *rapid.T, phases ...corev1.PodPhase) *corev1.Pod {
	return w.oneOf(t, func(pod *corev1.Pod) bool {
		return slices.Contains(phases, pod.Status.Phase) && pod.DeletionTimestamp == nil && !kubelet.HasEnded(pod) &&
			!w.spoiled[pod.UID]
	})
}

// oneOf draws one of the pods that fit. It returns nil if no pod fits.
func (w *walk) oneOf(t *rapid.T, fits func(*corev1.Pod) bool) *corev1.Pod {
	fit := slices.DeleteFunc(w.pods(), func(pod *corev1.Pod) bool { return !fits(pod) })
	if len(fit) == 0 {
		return nil
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, "pod")]
}

// exit ends the main container of a pod with an exit code. A leader always fails, because its success would end the
// job.
func (w *walk) exit(pod *corev1.Pod, code int32) {
	if pod.Name == w.podName(0) {
		code = 1
	}
	if code != 0 {
		w.fails(pod)
	}
	w.happenTo(pod, model.Exits(code, ""))
}

// fails adds a failure of a pod to w.failed. Two kinds of failures do not count and are not added: failures of a pod
// whose attempt is over, and failures of a pod with an unhealthy device.
func (w *walk) fails(pod *corev1.Pod) {
	if !kubelet.HasUnhealthyDevice(pod) && model.AttemptLabel(pod) == model.AttemptOf(w.status(), pod.Name) {
		w.failed++
	}
}

// checkEnd ends all faults, settles the world, and checks the job. The job must run, and no more failures must have
// counted than happened. If replicas restart alone and the user neither pauses nor scales the job, every failure must
// have counted. Otherwise, three kinds of failures need not count: those that the controller sees together with
// another one in a collective, those during a pause, and those of a replica that scaling down removes. Finally,
// checkEnd makes the leader succeed, so that the job must succeed.
func (w *walk) checkEnd(t *rapid.T, scope batchv1beta1.RestartScope) {
	w.process.staleReconciles = 0
	w.namesAreFree()
	w.closed = false
	w.trainingsAreReadable()
	w.Cluster.Activate()
	w.carryOutLate(true)
	if w.pauses {
		resumed(w.world)
	}
	w.settle()
	for range 20 {
		before := w.writes
		w.do(run, passes(7*time.Minute)) // longer than any restart delay
		if w.writes == before && w.status().Phase == batchv1beta1.JobPhaseRunning {
			break // the job is at rest
		}
	}
	status := w.status()
	if status.Phase != batchv1beta1.JobPhaseRunning {
		t.Fatalf("the phase of the job is %s although no more faults happen, want Running: %s", status.Phase, w.describe())
	}
	counted := int(status.BackoffCount)
	failed := w.failed + w.Stalls
	if every := scope == scopeReplica && !w.pauses && !w.scales; every && counted != failed || counted > failed {
		t.Fatalf("backoffCount is %d, but %d pods failed and %d stalls were recorded", counted, w.failed, w.Stalls)
	}
	for _, wrong := range model.CheckProgress(w.Kind, w.Cluster.Live(), w.Cluster.Trainings(), w.Clock.Now()) {
		t.Fatalf("%s: %s", wrong, w.describe())
	}
	for _, wrong := range model.CheckRestartsInPlace(w.Kind, w.Cluster.Live(), w.Cluster.Trainings(), w.inPlace) {
		t.Fatalf("%s: %s", wrong, w.describe())
	}
	for _, wrong := range model.CheckNodes(w.Kind, w.Cluster.Live()) {
		t.Fatalf("%s: %s", wrong, w.describe())
	}
	if elastic := w.shape.Elastic; elastic != nil {
		want := elastic.Expected()
		if w.shape.Kueue {
			want = min(want, w.Cluster.Live().AdmittedReplicas())
		}
		if len(w.pods()) != int(want) {
			t.Fatalf("the job has %d pods, want %d: %s", len(w.pods()), want, w.describe())
		}
	}
	if int(status.Evictions) > w.withdrawn {
		t.Fatalf("the status has %d evictions, but the admission was withdrawn %d times", status.Evictions, w.withdrawn)
	}
	w.checkAdmission(t)
	w.do(exits(0, 0), passes(time.Minute))
	if status := w.status(); status.Phase != batchv1beta1.JobPhaseSucceeded || int(status.BackoffCount) != counted {
		t.Fatalf("the leader has succeeded, but the job is %s with backoffCount %d, want %d: %s",
			status.Phase, status.BackoffCount, counted, w.describe())
	}
	w.checkAdmission(t)
}

// checkAdmission checks the Workload of a job at rest.
func (w *walk) checkAdmission(t *rapid.T) {
	for _, wrong := range model.CheckWorkload(w.Cluster.Live(), w.job(), w.shape.RunMode.Pausing()) {
		t.Fatalf("%s: %s", wrong, w.describe())
	}
}

// testBrokenWatch checks that a pod is recreated if it was created and deleted while the watch of pods was broken.
// Afterwards the watch reports neither the creation nor the deletion.
func testBrokenWatch(t *testing.T, k model.Kind) {
	t.Helper()
	t.Parallel()
	w := newWorld(t, k)
	w.Cache.Freeze(model.Pods)
	created(Shape{Replicas: 1, RestartPolicy: onFailure})(w)
	w.reconcile()
	happensTo(0, model.Vanishes)(w)
	w.CatchUp(model.Pods)
	w.settle()
	w.do(run, stands(batchv1beta1.JobPhaseRunning))
}

// clusterActions returns the actions of other components of a cluster. They happen in addition to the faults of the
// controller and its caches.
func (w *walk) clusterActions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"the controller is away for an hour while pods end and are removed": func(t *rapid.T) {
			for range rapid.IntRange(0, 2).Draw(t, "number of pods that end") {
				if pod := w.some(t, corev1.PodRunning); pod != nil {
					w.exit(pod, 1)
				}
			}
			for w.confirmDeletion() {
				continue
			}
			w.Clock.SetTime(w.Clock.Now().Add(time.Hour))
			w.start(nil)
		},
		"the API server makes its delayed write": func(*rapid.T) {
			if w.Late != nil {
				w.CarryOutLate()
				w.spoil(w.Unseen)
			}
		},
		"another owner takes the name of a pod": func(t *rapid.T) {
			name := w.podName(rapid.IntRange(0, 2).Draw(t, "index"))
			key := types.NamespacedName{Namespace: model.JobKey.Namespace, Name: name}
			if w.Cluster.Live()[model.Key("Pod", key)] == nil {
				w.create(model.Foreign(model.Pods, name))
			}
		},
		"the other owner frees the names of pods": func(*rapid.T) { w.namesAreFree() },
		"the kubelet restarts a container in its pod": func(t *rapid.T) {
			if pod := w.some(t, corev1.PodRunning); pod != nil {
				w.fails(pod)
				w.spoil(pod.UID)
				w.happenTo(pod, model.RestartsInPlace(1))
			}
		},
	}
	if !w.scales { // a job that was scaled down has surplus pods, which the controller finds only by their labels
		actions["a user removes a label from a pod"] = func(t *rapid.T) {
			label := rapid.SampledFrom([]string{batchv1beta1.LabelJobKind, batchv1beta1.LabelAttempt}).Draw(t, "label")
			if pod := w.some(t, corev1.PodPending, corev1.PodRunning); pod != nil {
				w.spoil(pod.UID)
				w.happenTo(pod, model.LosesLabel(label))
			}
		}
	}
	return actions
}

// spoil prevents further failures of a pod, because they would not count. An empty UID means no pod.
func (w *walk) spoil(pod types.UID) {
	if pod != "" {
		w.spoiled[pod] = true
	}
}
