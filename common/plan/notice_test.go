package plan_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/report"
)

// Parts of the spec that have no effect are reported in one event, and in the message of Initialized.
func TestNotice(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 1))
	j.Spec.Notice = "spec.elastic has no effect"
	const message = "the job is accepted and its replicas are created as they are needed; spec.elastic has no effect"
	first := j.Sees()
	diff(t, "event", []report.Event{
		{Type: "Warning", Reason: "NoEffect", Action: "Plan", Message: j.Spec.Notice},
	}, first.Events)
	diff(t, "Initialized", condition{metav1.ConditionTrue, "Accepted", message},
		conditionOf(first, batchv1beta1.ConditionInitialized))
	second := j.Saw(0).Sees()
	diff(t, "events of a second reconcile", []report.Event(nil), second.Events)
	diff(t, "Initialized after a second reconcile", condition{metav1.ConditionTrue, "Accepted", message},
		conditionOf(second, batchv1beta1.ConditionInitialized))
}

func TestNoticeOfAJobWhosePodsExistBeforeItsFirstStatusIsEmittedWithARefusal(t *testing.T) {
	t.Parallel()
	j := job(role("worker", 2)).Refusing("no command")
	j.Spec.Notice = "spec.elastic has no effect"
	d := j.Sees(pod("job-worker-0"))
	diff(t, "events", []report.Event{
		{Type: "Warning", Reason: "NoEffect", Action: "Plan", Message: j.Spec.Notice},
		{Type: "Warning", Reason: "InvalidTemplate", Action: "Plan", Message: "no command"},
	}, d.Events)
}

func TestThePriorityClassOfATemplateHasNoEffectInAQueue(t *testing.T) {
	t.Parallel()
	high := func() framework.Role {
		r := role("worker", 1)
		r.Template.Spec.PriorityClassName = "high"
		return r
	}
	const notice = "priorityClassName of a template has no effect in a queue: " +
		"spec.scheduler.t9kScheduler.priority orders the jobs of the queue"
	for name, tc := range map[string]struct {
		job  *jobBuilder
		want []report.Event
	}{
		"a template in a queue has a PriorityClass": {
			job:  job(high()).InQueue(),
			want: []report.Event{{Type: "Warning", Reason: "NoEffect", Action: "Plan", Message: notice}},
		},
		"a template outside a queue has a PriorityClass": {job: job(high())},
		"a template in a queue has no PriorityClass":     {job: job(role("worker", 1)).InQueue()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "events", tc.want, tc.job.Sees().Events)
		})
	}
}
