package admission_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
)

func TestPeersAreAGangIfTheJobHasAQueue(t *testing.T) {
	t.Parallel()
	withoutQueue := job(role("worker", 1))
	withoutQueue.Spec.Scheduler = &batchv1beta1.SchedulePolicy{}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want bool
	}{
		"a job in a queue is a gang":                     {job(role("worker", 1)).InQueue(), true},
		"a job without a scheduler is no gang":           {job(role("worker", 1)), false},
		"a job with a scheduler but no queue is no gang": {withoutQueue, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []bool
			tc.job.Wire = func(peers framework.Peers, _ framework.Member, _ *corev1.PodTemplateSpec) error {
				got = append(got, peers.IsGang)
				return nil
			}
			tc.job.Sees()
			diff(t, "all or nothing", []bool{tc.want}, got)
		})
	}
}

// In kube-scheduler, the scheduling group of an elastic job has only as many pods as its gang needs. The other pods
// are extra. The group must not wait for them.
func TestExtraPodsDoNotJoinTheGroup(t *testing.T) {
	t.Parallel()
	member := func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("job")} }
	worker := func(index int, options ...podOption) *corev1.Pod {
		return pod(fmt.Sprintf("job-worker-%d", index), append([]podOption{onNode("a"), running}, options...)...)
	}
	for name, tc := range map[string]struct {
		job  *jobBuilder
		pods []*corev1.Pod
		// wantMembers are the created pods that join the group.
		wantMembers []string
		// wantExtra are the other created pods.
		wantExtra []string
	}{
		"all pods of a job that is not elastic are members": {
			job: job(role("worker", 2)).InQueue(), wantMembers: []string{"job-worker-0", "job-worker-1"},
		},
		"the first pods of a new elastic job are members": {
			job:         job(role("worker", 0)).Elastic(2, 4).InQueue(),
			wantMembers: []string{"job-worker-0", "job-worker-1"}, wantExtra: []string{"job-worker-2", "job-worker-3"},
		},
		"the replacement of a member is a member": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(2)}, wantMembers: []string{"job-worker-1"},
		},
		"the replacement of an extra pod is extra": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(1, member)}, wantExtra: []string{"job-worker-2"},
		},
		"a member that is being deleted is replaced by a member": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(0, member), worker(1, member, deleting)}, wantMembers: []string{"job-worker-2"},
		},
		"the leader is always a member": {
			job:  job(role("worker", 0)).Elastic(2, 3).InQueue(),
			pods: []*corev1.Pod{worker(1, member), worker(2, member)}, wantMembers: []string{"job-worker-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := group(2, admitted)
			if tc.job.Spec.Elastic != nil {
				elasticGroup(g)
			}
			var members, extra []string
			for _, p := range podsToCreate(plan.Decide(tc.job.Job, grouped(g, tc.pods...), now)) {
				if p.Spec.SchedulingGroup != nil {
					members = append(members, p.Name)
				} else {
					extra = append(extra, p.Name)
				}
			}
			diff(t, "members", tc.wantMembers, members)
			diff(t, "extra pods", tc.wantExtra, extra)
		})
	}
}

// An invalid template is reported even if the group is not admitted.
func TestInvalidTemplateOfAJobInAQueue(t *testing.T) {
	t.Parallel()
	d := plan.Decide(job(role("worker", 2)).InQueue().Refusing("no container").Job, grouped(group(2)), now)
	diff(t, "reason", batchv1beta1.ReasonInvalidTemplate, d.Status.Reason)
	diff(t, "creations", []string(nil), summarize(d).Creates)
}
