package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// anyJob draws a job that nobody has looked at yet.
func anyJob(t *rapid.T) *jobBuilder {
	policies := rapid.SampledFrom([]batchv1beta1.RestartPolicy{
		batchv1beta1.RestartPolicyAlways, batchv1beta1.RestartPolicyOnFailure,
		batchv1beta1.RestartPolicyNever, batchv1beta1.RestartPolicyExitCode,
	})
	var roles []batchv1beta1.Role
	for _, roleType := range []string{"master", "worker", "ps"}[:rapid.IntRange(1, 3).Draw(t, "roles")] {
		r := role(roleType, rapid.Int32Range(0, 3).Draw(t, roleType+" replicas"))
		roles = append(roles, restarting(r, policies.Draw(t, roleType+" restartPolicy")))
	}
	j := job(roles...)
	j.Spec.RunPolicy = batchv1beta1.RunPolicy{
		RestartScope:          rapid.SampledFrom([]batchv1beta1.RestartScope{"", scopeJob, scopeReplica}).Draw(t, "restartScope"),
		BackoffLimit:          rapid.Ptr(rapid.Int32Range(0, 3), true).Draw(t, "backoffLimit"),
		ActiveDeadlineSeconds: rapid.Ptr(rapid.Int64Range(1, 5000), true).Draw(t, "activeDeadlineSeconds"),
		CleanUpPolicy: rapid.SampledFrom([]batchv1beta1.CleanUpPolicy{
			"", batchv1beta1.CleanUpPolicyAll, batchv1beta1.CleanUpPolicyUnfinished, batchv1beta1.CleanUpPolicyNone,
		}).Draw(t, "cleanUpPolicy"),
	}
	j.PeerGrace = rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "peerGrace")
	return j
}

func members(j *jobBuilder) []framework.Member {
	return framework.NewGang(j.Namespace, j.Name, j.UID, j.ClusterDomain, 0, j.Spec.Roles).Members
}

// attempts returns the current attempt of each replica. No pod is of a later one: the status is written before.
func attempts(status batchv1beta1.JobStatus) map[string]int {
	current := map[string]int{}
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			current[r.Name] = int(status.Attempt + r.Attempt)
		}
	}
	return current
}

// anyPods draws what the cluster may hold of a job: some of its pods, of some attempt, in any state, and a stray one.
// The pods of one look are not those of another: a pod that ended stays as it ended.
func anyPods(t *rapid.T, j *jobBuilder, look int) observation {
	var pods []*corev1.Pod
	current := attempts(j.Status)
	candidates := []string{"job-gone-0"}
	for _, m := range members(j) {
		candidates = append(candidates, m.Name)
	}
	for _, name := range candidates {
		options := []podOption{attempt(rapid.IntRange(0, current[name]).Draw(t, name+" attempt"))}
		switch rapid.SampledFrom([]string{"none", "pending", "running", "exited", "rejected", "unknown"}).Draw(t, name) {
		case "none":
			continue
		case "running":
			options = append(options, running)
		case "exited":
			code := rapid.SampledFrom([]int32{0, 1, 137}).Draw(t, name+" exit code")
			before := rapid.IntRange(0, 120).Draw(t, name+" seconds ago")
			options = append(options, exitedAgo(code, time.Duration(before)*time.Second))
		case "rejected":
			options = append(options, rejected)
		case "unknown":
			options = append(options, unreachable)
		}
		for _, option := range []podOption{disrupted, sidecarRunning, deleting} {
			if rapid.IntRange(0, 4).Draw(t, name+" option") == 0 {
				options = append(options, option)
			}
		}
		p := pod(name, options...)
		p.UID = types.UID(fmt.Sprintf("%s-uid-of-look-%d", name, look))
		pods = append(pods, p)
	}
	seen := seeing(pods...)
	seen.HasService = rapid.Bool().Draw(t, "service")
	return seen
}

// Whatever a job has been through and whatever the cluster holds of it, a decision keeps the engine's laws.
func TestPlanKeepsItsLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob(t)
		for n := rapid.IntRange(0, 4).Draw(t, "looks before"); n > 0; n-- {
			j.Status = plan(j.snapshot, anyPods(t, j, n), now.Add(-time.Duration(n)*time.Hour)).Status
		}
		seen := anyPods(t, j, 0)
		d := plan(j.snapshot, seen, now)

		if again := plan(j.snapshot, seen, now); cmp.Diff(d, again) != "" {
			t.Fatalf("the same arguments give another decision:\n%s", cmp.Diff(d, again))
		}
		checkWrites(t, j, seen, d)
		checkCounts(t, j, d)

		accounted := j.Status
		j.Status = d.Status
		again := plan(j.snapshot, seen, now)
		type counts struct {
			Backoff, Attempt int32
			Restarts         map[string]int32
			Failures         []batchv1beta1.ReplicaFailure
		}
		of := func(d decision) counts {
			return counts{d.Status.BackoffCount, d.Status.Attempt, restartsOf(d), d.Status.Failures}
		}
		if d := cmp.Diff(of(d), of(again)); d != "" {
			t.Fatalf("a second look accounts for something again, after %+v:\n%s", accounted, d)
		}
	})
}

// checkWrites checks what a decision deletes and creates.
func checkWrites(t *rapid.T, j *jobBuilder, seen observation, d decision) {
	touched := map[string]string{}
	for _, p := range slices.Concat(d.Deletes, d.CleanUps) {
		if touched[p.Name] != "" {
			t.Fatalf("pod %s is deleted twice", p.Name)
		}
		touched[p.Name] = "deleted"
		if p.DeletionTimestamp != nil {
			t.Fatalf("pod %s is being deleted already", p.Name)
		}
		if seen.Pods[p.Name] != p {
			t.Fatalf("pod %s is deleted, but not the one that was seen", p.Name)
		}
	}
	for _, p := range d.Creates {
		if touched[p.Name] != "" {
			t.Fatalf("pod %s is created and %s", p.Name, touched[p.Name])
		}
		touched[p.Name] = "created"
		if seen.Pods[p.Name] != nil {
			t.Fatalf("pod %s is created while there is one", p.Name)
		}
	}
	if finished(d.Status) && (len(d.Creates) > 0 || d.CreateService) {
		t.Fatal("something is created for a finished job")
	}
	if finished(j.Status) {
		if diff := cmp.Diff(withoutReplicas(j.Status), withoutReplicas(d.Status)); diff != "" {
			t.Fatalf("the status of a finished job changes:\n%s", diff)
		}
	}
}

// checkCounts checks the numbers of a status.
func checkCounts(t *rapid.T, j *jobBuilder, d decision) {
	if limit := j.Spec.RunPolicy.BackoffLimit; limit != nil && d.Status.BackoffCount > *limit {
		t.Fatalf("backoffCount %d is beyond the limit %d", d.Status.BackoffCount, *limit)
	}
	if len(d.Status.Failures) > maxFailures {
		t.Fatalf("%d failures are kept", len(d.Status.Failures))
	}
	replicas := len(members(j))
	a := d.Status.Aggregate
	if a == nil {
		t.Fatal("no aggregate")
	}
	if sum := a.Creating + a.Pending + a.Running + a.Succeeded + a.Failed + a.Unknown + a.Deleted; int(sum) != replicas {
		t.Fatalf("the aggregate of %d replicas sums up to %d: %+v", replicas, sum, *a)
	}
	var listed []string
	for _, task := range d.Status.Tasks {
		for _, r := range task.Replicas {
			listed = append(listed, r.Name)
		}
	}
	if len(listed) != replicas {
		t.Fatalf("the tasks of %d replicas list %q", replicas, listed)
	}
}

// world is a cluster in which a job runs and everything goes wrong: pods end in all ways, the controller crashes between
// any two writes, and its cache lags behind.
type world struct {
	job  *jobBuilder
	now  time.Time
	pods map[string]*corev1.Pod
	// cached is what the controller's cache holds.
	cached map[string]*corev1.Pod
	uids   int
	// failed are the pods that ended with a failure which counts.
	failed map[types.UID]bool
	// end is the status with which the job finished.
	end *batchv1beta1.JobStatus
}

// snapshotOf copies pods as a cache holds them: later changes do not show.
func snapshotOf(pods map[string]*corev1.Pod) map[string]*corev1.Pod {
	held := make(map[string]*corev1.Pod, len(pods))
	for name, p := range pods {
		held[name] = p.DeepCopy()
	}
	return held
}

// reconcile lets the controller look at its cache and make at most so many writes before it crashes.
func (w *world) reconcile(t *rapid.T, writes int) {
	d := plan(w.job.snapshot, observation{Pods: w.cached, HasService: true}, w.now)
	checkWrites(t, w.job, observation{Pods: w.cached}, d)
	checkCounts(t, w.job, d)
	if writes--; writes < 0 {
		return
	}
	w.job.Status = d.Status
	for _, p := range slices.Concat(d.Deletes, d.CleanUps) {
		if writes--; writes < 0 {
			return
		}
		if live := w.pods[p.Name]; live != nil && live.UID == p.UID {
			w.delete(live)
		}
	}
	for _, p := range d.Creates {
		if writes--; writes < 0 {
			return
		}
		if w.pods[p.Name] == nil {
			w.create(t, p)
		}
	}
}

func (w *world) delete(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		deleting(p)
	}
}

func (w *world) create(t *rapid.T, p *corev1.Pod) {
	if w.end != nil {
		t.Fatalf("pod %s is created for a finished job", p.Name)
	}
	if w.job.Spec.RunPolicy.RestartScope != scopeReplica {
		for _, other := range w.pods {
			if podAttempt(other) < w.job.Status.Attempt {
				t.Fatalf("pod %s is created while %s of attempt %d is still there", p.Name, other.Name, podAttempt(other))
			}
		}
	}
	w.uids++
	p.UID = types.UID(fmt.Sprintf("uid-%d", w.uids))
	p.Status.Phase = corev1.PodPending
	w.pods[p.Name] = p
}

// some draws one of the pods that are fit, or nil.
func (w *world) some(t *rapid.T, fit func(*corev1.Pod) bool) *corev1.Pod {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if fit(w.pods[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return w.pods[rapid.SampledFrom(names).Draw(t, "pod")]
}

func unended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodPending || p.Status.Phase == corev1.PodRunning
}

// fail ends a pod with an exit code. Its output tells it from any other.
func (w *world) fail(p *corev1.Pod, code int32) {
	exited(code)(p)
	printed(string(p.UID))(p)
	if code != 0 && p.DeletionTimestamp == nil && !slices.ContainsFunc(p.Status.Conditions, isDisruption) {
		w.failed[p.UID] = true
	}
}

func isDisruption(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }

func TestJobSurvivesAWorldInWhichEverythingGoesWrong(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{job: anyJob(t), now: now, pods: map[string]*corev1.Pod{}, failed: map[types.UID]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"reconcile": func(t *rapid.T) {
				w.cached = snapshotOf(w.pods)
				w.reconcile(t, 1000)
			},
			"reconcile and crash": func(t *rapid.T) {
				w.cached = snapshotOf(w.pods)
				w.reconcile(t, rapid.IntRange(0, 4).Draw(t, "writes"))
			},
			"reconcile with a cache that lags": func(t *rapid.T) { w.reconcile(t, 1000) },
			"time passes":                      func(*rapid.T) { w.now = w.now.Add(time.Minute) },
			"a pod runs": func(t *rapid.T) {
				if p := w.some(t, unended); p != nil {
					running(p)
				}
			},
			"a pod succeeds": func(t *rapid.T) {
				if p := w.some(t, unended); p != nil {
					w.fail(p, 0)
				}
			},
			"a pod fails": func(t *rapid.T) {
				if p := w.some(t, unended); p != nil {
					w.fail(p, rapid.SampledFrom([]int32{1, 137}).Draw(t, "exit code"))
				}
			},
			"a pod is disrupted": func(t *rapid.T) {
				if p := w.some(t, unended); p != nil {
					disrupted(p)
					w.fail(p, 143)
				}
			},
			"a pod is deleted by others": func(t *rapid.T) {
				if p := w.some(t, func(*corev1.Pod) bool { return true }); p != nil {
					w.delete(p)
				}
			},
			"a deleted pod is gone": func(t *rapid.T) {
				if p := w.some(t, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }); p != nil {
					delete(w.pods, p.Name)
				}
			},
			"a pod vanishes": func(t *rapid.T) {
				if p := w.some(t, unended); p != nil {
					delete(w.pods, p.Name)
				}
			},
			"": w.check,
		})
		w.finish(t)
	})
}

// check is what holds at any time.
func (w *world) check(t *rapid.T) {
	status := w.job.Status
	if int(status.BackoffCount) > len(w.failed) {
		t.Fatalf("%d restarts are counted, but %d pods failed", status.BackoffCount, len(w.failed))
	}
	outputs := map[string]bool{}
	for _, f := range status.Failures {
		if f.Message != "" && outputs[f.Message] {
			t.Fatalf("the failure of pod %s is recorded twice", f.Message)
		}
		outputs[f.Message] = true
	}
	if w.end != nil {
		if diff := cmp.Diff(withoutReplicas(*w.end), withoutReplicas(status)); diff != "" {
			t.Fatalf("the end of the job was not final:\n%s", diff)
		}
	} else if finished(status) {
		w.end = status.DeepCopy()
	}
}

// finish lets everything go right from now on: the job must come to its end, and then nothing is left to write.
func (w *world) finish(t *rapid.T) {
	if len(members(w.job)) == 0 {
		return
	}
	for range 20 {
		w.now = w.now.Add(10 * time.Minute)
		for name, p := range w.pods {
			if p.DeletionTimestamp != nil {
				delete(w.pods, name)
			} else if unended(p) {
				w.fail(p, 0)
			}
		}
		w.cached = snapshotOf(w.pods)
		w.reconcile(t, 1000)
		w.check(t)
	}
	if w.end == nil {
		t.Fatalf("the job never ends: %+v", w.job.Status)
	}
	d := plan(w.job.snapshot, observation{Pods: w.cached, HasService: true}, w.now)
	if diff := cmp.Diff(w.job.Status, d.Status); diff != "" || len(d.CleanUps) > 0 || !d.WakeAt.IsZero() {
		t.Fatalf("a finished job finds no rest: deletes %q, wakes at %s, status:\n%s", names(d.CleanUps), d.WakeAt, diff)
	}
}
