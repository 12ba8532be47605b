package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// stored is the maximum size in bytes of a job with its status. It is less than the 1.5 MiB that etcd accepts,
// because later additions to the status need room.
const stored = 1536<<10 - 32<<10

// largePods returns pods with the longest names and with the given number of containers.
func largePods(b *jobBuilder, containers int, state func(replica int) corev1.ContainerState) view.Observation {
	seen := view.Observation{Pods: map[string]*corev1.Pod{}, HasService: true}
	for replica := range int(b.Spec.Roles[0].Replicas) {
		name := fmt.Sprintf("%s-worker-%d", b.Name, replica)
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: b.Namespace, Labels: map[string]string{batchv1beta1.LabelAttempt: "0"},
				UID: types.UID(fmt.Sprintf("01234567-89ab-cdef-0123-%012d", replica)),
			},
			Spec:   corev1.PodSpec{NodeName: strings.Repeat("n", 253), Containers: []corev1.Container{{Name: mainContainer}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		for c := range containers {
			status := corev1.ContainerStatus{Name: fmt.Sprintf("%s-%02d", strings.Repeat("c", 60), c), State: state(replica)}
			if c == 0 {
				status.Name = mainContainer
			}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
		}
		seen.Pods[name] = p
	}
	return seen
}

func runs(int) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

// fails returns the state of a failed container. Its output is as long as the kubelet keeps, and consists of
// characters that JSON escapes.
func fails(int) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 255, Reason: strings.Repeat("r", 1000), Message: "x" + strings.Repeat("<", 4094) + "x",
		FinishedAt: metav1.NewTime(now),
	}}
}

func largeJob(replicas int32) *jobBuilder {
	b := job(role("worker", replicas))
	b.Name = strings.Repeat("j", 63-len("-worker-1999"))
	return b
}

// size returns the length, in bytes, of a status as JSON.
func size(t *testing.T, status batchv1beta1.JobStatus) int {
	t.Helper()
	content, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return len(content)
}

func TestEveryStatusFitsIntoItsJob(t *testing.T) {
	t.Parallel()
	const (
		containers = "the containers of replicas, since"
		nodes      = "the containers and nodes of replicas, since"
		messages   = "the containers and nodes of replicas and the ends of messages"
		exitCodes  = "the containers, nodes and exit codes of replicas"
	)
	for name, tc := range map[string]struct {
		replicas    int32
		containers  int
		state       func(int) corev1.ContainerState
		rest        int // the size of the job without its status; 0 means a small job
		wantOmitted string
	}{
		"1,000 replicas with 2 containers leave out nothing":                       {1000, 2, runs, 0, ""},
		"1,900 replicas with 2 containers leave out containers":                    {1900, 2, runs, 0, containers},
		"2,000 replicas with 10 containers leave out containers":                   {2000, 10, runs, 0, containers},
		"2,000 failed replicas with 32 containers leave out nodes":                 {2000, 32, fails, 0, nodes},
		"2,000 replicas with a spec of 600 KiB leave out containers":               {2000, 10, runs, 600 << 10, containers},
		"2,000 replicas with a spec of 900 KiB leave out nodes":                    {2000, 10, runs, 900 << 10, nodes},
		"2,000 failed replicas with a spec of 1 MiB leave out exit codes":          {2000, 10, fails, 1 << 20, exitCodes},
		"4 replicas with a spec of 1.4 MiB leave out nothing":                      {4, 10, runs, 1400 << 10, ""},
		"4 failed replicas with a spec of 1.43 MiB leave out the ends of messages": {4, 10, fails, 1460 << 10, messages},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rest := largeJob(tc.replicas).Scope(batchv1beta1.RestartScopeReplica), 512<<10
			b.Spec.Roles[0].RestartPolicy = batchv1beta1.RestartPolicyNever
			if tc.rest > 0 {
				b.RestSize, rest = func() int { return tc.rest }, tc.rest
			}
			seen := largePods(b, tc.containers, runs)
			b.Status = plan.Decide(b.Job, seen, now).Status
			seen = largePods(b, tc.containers, tc.state)
			d := plan.Decide(b.Job, seen, now)
			if got := size(t, d.Status) + rest; got > stored {
				t.Errorf("the job takes %d bytes, want at most %d", got, stored)
			}
			if d.Status.Omitted == "" && tc.wantOmitted != "" || !strings.HasPrefix(d.Status.Omitted, tc.wantOmitted) {
				t.Errorf("omitted is %q, want it to begin with %q", d.Status.Omitted, tc.wantOmitted)
			}
			if got := len(d.Status.Tasks[0].Replicas); got != int(tc.replicas) {
				t.Errorf("the status has %d replicas, want %d", got, tc.replicas)
			}

			b.Status = d.Status
			diff(t, "status at rest", d.Status, plan.Decide(b.Job, seen, now).Status)
		})
	}
}

// If a part of the status was left out, it is not restored when there is room again.
func TestOmittedPartsStayOmitted(t *testing.T) {
	t.Parallel()
	b := largeJob(20)
	seen := largePods(b, 10, runs)
	b.RestSize = func() int { return 1456 << 10 }
	b.Status = plan.Decide(b.Job, seen, now).Status
	omitted := b.Status.Omitted
	if !strings.HasPrefix(omitted, "the containers of replicas, since") {
		t.Errorf("omitted is %q for a job that is too large", omitted)
	}
	b.RestSize = nil
	peer := b.Name + "-worker-1"
	seen.Pods[peer] = largePods(b, 10, func(int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	}).Pods[peer]
	d := plan.Decide(b.Job, seen, now)
	diff(t, "omitted when there is room again", omitted, d.Status.Omitted)
	entries := d.Status.Tasks[0].Replicas
	diff(t, "containers of a replica that runs", []batchv1beta1.ContainerStatus(nil), entries[0].Containers)
	diff(t, "phase of a replica that succeeded", batchv1beta1.ReplicaPhaseSucceeded, entries[1].Phase)
	diff(t, "containers of a replica that succeeded", []batchv1beta1.ContainerStatus(nil), entries[1].Containers)
}

func TestStatusCanTakeAllOfTheRoom(t *testing.T) {
	t.Parallel()
	j := ran()
	room := 1472 << 10 // the maximum size, in bytes, of a job with its status: see maxObject in package status
	j.RestSize = func() int { return room - size(t, j.Status) }
	diff(t, "omitted", "", j.Sees(pod("job-worker-0", running), pod("job-worker-1", running)).Status.Omitted)
}

// The tasks of a started job without replicas are not updated, so nothing is left out of them.
func TestHeldJobKeepsItsTasksWhole(t *testing.T) {
	t.Parallel()
	j := withoutReplicas(ran())
	j.RestSize = func() int { return 1500 << 10 }
	containers := slices.Clone(j.Status.Tasks[0].Replicas[0].Containers)
	d := j.Sees(pod("job-worker-0", running))
	diff(t, "containers", containers, d.Status.Tasks[0].Replicas[0].Containers)
}

// If the pod of a failed replica is gone, the recorded exit code decides whether the replica is restarted. So this
// exit code is kept, although the containers of the other replicas are left out.
func TestOmittedPartsDoNotChangeTheDecision(t *testing.T) {
	t.Parallel()
	type result struct {
		Omitted bool
		Failed  int32
		Reason  string
	}
	decide := func(rest int) result {
		b := largeJob(20).Scope(batchv1beta1.RestartScopeReplica)
		b.Spec.Roles[0].RestartPolicy = batchv1beta1.RestartPolicyExitCode
		b.RestSize = func() int { return rest }
		seen := largePods(b, 10, runs)
		b.Status = plan.Decide(b.Job, seen, now).Status
		last := b.Name + "-worker-19"
		seen.Pods[last] = largePods(b, 10, func(int) corev1.ContainerState {
			return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}
		}).Pods[last]
		// The admission by the API server added a container before the main one.
		statuses := &seen.Pods[last].Status.ContainerStatuses
		*statuses = slices.Insert(*statuses, 0, corev1.ContainerStatus{Name: "proxy", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"},
		}})
		b.Status = plan.Decide(b.Job, seen, now).Status
		failed := b.Status.Aggregate.Failed
		delete(seen.Pods, last)
		b.Scope(batchv1beta1.RestartScopeJob) // after this edit, a permanent failure ends the job
		omitted := b.Status.Omitted != ""
		return result{omitted, failed, plan.Decide(b.Job, seen, now).Status.Reason}
	}
	diff(t, "decision", result{Failed: 1, Reason: batchv1beta1.ReasonPermanentFailure}, decide(0))
	diff(t, "decision if containers are left out",
		result{Omitted: true, Failed: 1, Reason: batchv1beta1.ReasonPermanentFailure}, decide(1456<<10))
}

// A pause discards the recorded defaults, so they take no room.
func TestDefaultsOfAPausedJobTakeNoRoom(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("job-worker-0", running), pod("job-worker-1", running)}
	j := ran().Paused(true)
	paused := j.Sees(pods...).Status
	j.RestSize = func() int { return 1472<<10 - size(t, paused) }
	diff(t, "omitted", "", j.Sees(pods...).Status.Omitted)
}

// The controller compares the message with the quotas of the namespace, so it needs the whole message.
func TestMessageAboutAQuotaIsNotShortened(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Saw(time.Hour)
	message := "exceeded quota: " + strings.Repeat("x", 1000)
	refused := &report.RefusedError{Reason: batchv1beta1.ReasonResourceQuotaExceeded, Err: errors.New(message)}
	status.Refuse(&j.Status, refused, 1, now)
	j.RestSize = func() int { return 1500 << 10 }
	d := j.Sees()
	diff(t, "whether parts are omitted", true, d.Status.Omitted != "")
	diff(t, "message of Initialized", message, conditionOf(d, batchv1beta1.ConditionInitialized).Message)
	diff(t, "message of Running", message, conditionOf(d, batchv1beta1.ConditionRunning).Message)
}
