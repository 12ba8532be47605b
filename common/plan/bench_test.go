package plan_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/view"
)

// idleJob returns a job whose replicas all run, and the observation of its objects. The job needs no change.
func idleJob(replicas int32) (*jobBuilder, view.Observation) {
	j := job(role("master", 1), role("worker", replicas-1))
	owner := metav1.OwnerReference{APIVersion: "test/v1", Kind: "TestJob", Name: j.Name, UID: j.UID, Controller: new(true)}
	var pods []*corev1.Pod
	for i, member := range members(j) {
		p := pod(member.Name, onNode(fmt.Sprintf("node-%d", i)), running)
		p.OwnerReferences = []metav1.OwnerReference{owner}
		pods = append(pods, p)
	}
	return j.Saw(time.Minute, pods...), seeing(pods...)
}

func BenchmarkPlan(b *testing.B) {
	for _, replicas := range []int32{10, 100, 1000} {
		idle, pods := idleJob(replicas)
		for _, bc := range []struct {
			name string
			job  *jobBuilder
			seen view.Observation
		}{
			{"nothing to do", idle, pods},
			{"create all pods", job(role("master", 1), role("worker", replicas-1)), seeing()},
		} {
			b.Run(fmt.Sprintf("%s/replicas=%d", bc.name, replicas), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					plan.Decide(bc.job.Job, bc.seen, now)
				}
			})
		}
	}
}

// The cost of a decision about an idle job is linear in the number of replicas.
func TestAllocationsOfDecideAreLinear(t *testing.T) {
	decide := func(replicas int32) func() {
		j, seen := idleJob(replicas)
		return func() { plan.Decide(j.Job, seen, now) }
	}
	if linear, measured := jobtest.AllocatesLinearly(decide); !linear {
		t.Error(measured)
	}
}

// The check of TestAllocationsOfDecideAreLinear detects a decision that builds a list of all replicas for each
// replica.
func TestQuadraticAllocationsAreDetected(t *testing.T) {
	listForEach := func(replicas int32) func() {
		j, seen := idleJob(replicas)
		return func() {
			plan.Decide(j.Job, seen, now)
			for range members(j) {
				members(j)
			}
		}
	}
	if linear, measured := jobtest.AllocatesLinearly(listForEach); linear {
		t.Error(measured)
	}
}

// The benchmarks measure an idle job, so the job must need no change.
func TestIdleJobNeedsNoChange(t *testing.T) {
	t.Parallel()
	j, seen := idleJob(4)
	diff(t, "decision", decided(j.Status), actedOn(plan.Decide(j.Job, seen, now)))
	diff(t, "phase", batchv1beta1.JobPhaseRunning, j.Status.Phase)
}
