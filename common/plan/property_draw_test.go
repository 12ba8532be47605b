package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/view"
)

// anyJob draws a job that was never reconciled.
func anyJob(t *rapid.T) *jobBuilder {
	policies := rapid.SampledFrom([]batchv1beta1.RestartPolicy{
		batchv1beta1.RestartPolicyAlways, batchv1beta1.RestartPolicyOnFailure,
		batchv1beta1.RestartPolicyNever, batchv1beta1.RestartPolicyExitCode,
	})
	var roles []framework.Role
	for _, roleType := range []string{"master", "worker", "ps"}[:rapid.IntRange(1, 3).Draw(t, "roles")] {
		r := role(roleType, rapid.Int32Range(0, 3).Draw(t, roleType+" replicas"))
		roles = append(roles, restarting(r, policies.Draw(t, roleType+" restartPolicy")))
	}
	j := job(roles...)
	j.Spec.RunPolicy = batchv1beta1.RunPolicy{
		RestartScope: rapid.SampledFrom([]batchv1beta1.RestartScope{
			"", scopeJob, scopeReplica, scopeRendezvous,
		}).Draw(t, "restartScope"),
		BackoffLimit:          rapid.Ptr(rapid.Int32Range(0, 3), true).Draw(t, "backoffLimit"),
		ActiveDeadlineSeconds: rapid.Ptr(rapid.Int64Range(1, 5000), true).Draw(t, "activeDeadlineSeconds"),
		CleanUpPolicy: rapid.SampledFrom([]batchv1beta1.CleanUpPolicy{
			"", batchv1beta1.CleanUpPolicyAll, batchv1beta1.CleanUpPolicyUnfinished, batchv1beta1.CleanUpPolicyNone,
		}).Draw(t, "cleanUpPolicy"),
	}
	if rapid.Bool().Draw(t, "elastic") {
		j.Spec.Elastic = &batchv1beta1.ElasticConfig{
			Enabled: true, MinReplicas: rapid.Ptr(rapid.Int32Range(1, 3), false).Draw(t, "minReplicas"),
			MaxReplicas: new(int32(12)),
		}
		if rapid.Bool().Draw(t, "rendezvous") {
			j.Spec.DefaultRestartScope = scopeRendezvous
		}
	}
	if rapid.Bool().Draw(t, "in a queue") {
		j.InQueue()
	}
	if rapid.Bool().Draw(t, "reports progress") {
		anyDeadlines(t, j)
	}
	j.Spec.RestartsInPlace = rapid.Bool().Draw(t, "counts restarts in place")
	j.PeerGrace = rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "peerGrace")
	return j
}

// anyDeadlines makes the training of a job report its progress, and draws its deadlines and the policy.
func anyDeadlines(t *rapid.T, j *jobBuilder) {
	deadline := rapid.SampledFrom([]int64{0, 60, 3000})
	j.Reporting(deadline.Draw(t, "progressDeadlineSeconds"), deadline.Draw(t, "startupDeadlineSeconds"),
		rapid.SampledFrom([]batchv1beta1.ProgressPolicy{"", notify, restart}).Draw(t, "progressPolicy"))
	j.Spec.FirstProcess = rapid.SampledFrom([]framework.FirstProcess{
		"", framework.FirstProcessByName, framework.FirstProcessAnywhere,
	}).Draw(t, "first process")
}

// anyEdit draws an edit of a job by its user, who can pause or resume it, and can scale it if it is elastic.
func anyEdit(t *rapid.T, j *jobBuilder) {
	j.Paused(rapid.IntRange(0, 3).Draw(t, "paused") == 0)
	if j.Spec.Elastic == nil {
		return
	}
	j.Spec.Roles = slices.Clone(j.Spec.Roles)
	for i := range j.Spec.Roles {
		j.Spec.Roles[i].Replicas = rapid.Int32Range(0, 4).Draw(t, j.Spec.Roles[i].Type+" scaled to")
	}
}

func members(j *jobBuilder) []framework.Member {
	return framework.NewPeers(j.Namespace, j.Name, j.UID, j.ClusterDomain, 0, j.Spec.Roles).Members
}

// attempt has two numbers: the attempt of the job, and the attempt of one replica.
type attempt struct{ job, replica int32 }

// attempts returns the current attempt of each replica. No pod has a later attempt, because the status is written
// before the pods are created.
func attempts(status batchv1beta1.JobStatus) map[string]attempt {
	current := map[string]attempt{}
	for _, task := range status.Tasks {
		for _, r := range task.Replicas {
			current[r.Name] = attempt{job: view.CountsOf(status).JobAttempt(), replica: r.Attempt}
		}
	}
	return current
}

// anyPods draws the observation of one reconcile of a job: pods of any attempt and in any state, and perhaps a pod
// that belongs to no replica. The pods of each reconcile get new UIDs. Otherwise, a pod that has ended could end
// again in another way, which never happens.
func anyPods(t *rapid.T, j *jobBuilder, reconcile int, at time.Time) view.Observation {
	var pods []*corev1.Pod
	current := attempts(j.Status)
	candidates := []string{"job-gone-0"}
	for _, m := range members(j) {
		candidates = append(candidates, m.Name)
	}
	for name := range current { // an elastic job can have pods of replicas that it no longer needs
		if !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	slices.Sort(candidates)
	for _, name := range candidates {
		options := []podOption{of(attemptLabel(
			rapid.Int32Range(0, current[name].job).Draw(t, name+" attempt"),
			rapid.Int32Range(0, current[name].replica).Draw(t, name+" attempt alone"),
		))}
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
		p.UID = types.UID(fmt.Sprintf("%s-uid-of-reconcile-%d", name, reconcile))
		pods = append(pods, p)
	}
	seen := seeing(pods...)
	seen.HasService = rapid.Bool().Draw(t, "service")
	seen.NeedsNetworkPolicy = rapid.Bool().Draw(t, "network policy")
	if j.Spec.Scheduler != nil {
		seen.Admission = anyGroup(t)
	}
	addReadings(t, &seen, at)
	return seen
}

// addReadings draws readings of the progress and of the restarts in place of the pods, and a reading of a pod that is
// gone. It also draws when the next write for these alone is due. A job ignores what its spec does not enable.
func addReadings(t *rapid.T, seen *view.Observation, at time.Time) {
	uids := []types.UID{"former-uid"}
	for _, p := range seen.Pods {
		uids = append(uids, p.UID)
	}
	slices.Sort(uids)
	seen.Readings = map[types.UID]view.Reading{}
	for _, uid := range uids {
		draw := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(t, string(uid)+" "+what) }
		read := view.Reading{Time: at.Add(time.Duration(-draw("read seconds ago", 0, 60)) * time.Second)}
		switch draw("reading", 0, 2) {
		case 0:
			continue
		case 1:
			reported := step(int64(draw("step", 0, 1000)), 0)
			read.Status = reported.Status
			read.Silence = time.Duration(draw("silent seconds", 0, 4000)) * time.Second
			if draw("starts again", 0, 1) == 1 {
				read.Started = read.Time.Add(-time.Duration(draw("started seconds ago", 0, 4000)) * time.Second)
			}
			read.Announced = time.Duration(draw("announced seconds", 0, 1)*100) * time.Second
			read.Status.LastReportTime = new(metav1.NewTime(read.Time.Add(-read.Silence)))
		}
		read.Restarts = int32(draw("restarts in place", 0, 5))
		read.LastRestarts = make([]batchv1beta1.RestartInPlace, min(read.Restarts, 3))
		seen.Readings[uid] = read
	}
	seen.ProgressDue = at.Add(time.Duration(rapid.IntRange(-30, 30).Draw(t, "progress due in")) * time.Second)
}

// anyGroup draws the PodGroup of a job, in any state, or none.
func anyGroup(t *rapid.T) admission.PodGroup {
	options := []jobtest.GroupOption{admitted}
	switch rapid.SampledFrom([]string{
		"none", "unknown", "problem", "new", "not admitted", "changed", "being deleted", "foreign", "admitted",
	}).Draw(t, "group") {
	case "none":
		return admission.PodGroup{}
	case "unknown":
		return admission.PodGroup{Unknown: true}
	case "problem":
		return admission.PodGroup{Problem: jobtest.ErrNotInstalled}
	case "new":
		options = nil
	case "not admitted":
		options = []jobtest.GroupOption{withCondition("Admitted", "False", "QueueClosed", "Queue lab is closed")}
	case "changed":
		options = append(options, edited)
	case "being deleted":
		options = append(options, deletingGroup)
	case "foreign":
		options = append(options, foreignGroup)
	}
	return admission.PodGroup{Object: group(rapid.Int32Range(1, 4).Draw(t, "minMember"), options...)}
}

// anyEnd draws whether one of the pods ends, and how.
func anyEnd(t *rapid.T, seen *view.Observation) {
	all := slices.Sorted(maps.Keys(seen.Pods))
	if len(all) == 0 {
		return
	}
	p := seen.Pods[rapid.SampledFrom(all).Draw(t, "pod that ends")]
	switch rapid.SampledFrom([]string{"none", "failure", "success", "deletion"}).Draw(t, "end") {
	case "failure":
		exited(1)(p)
	case "success":
		exited(0)(p)
	case "deletion":
		deleting(p)
	}
}

// allRunning returns the observation of a job whose replicas all run in their current attempts.
func allRunning(j *jobBuilder) view.Observation {
	var pods []*corev1.Pod
	current := attempts(j.Status)
	for _, m := range members(j) {
		if _, ok := current[m.Name]; !ok {
			current[m.Name] = attempt{}
		}
	}
	for name, a := range current {
		pods = append(pods, pod(name, of(attemptLabel(a.job, a.replica)), running))
	}
	return seeing(pods...)
}
