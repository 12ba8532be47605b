package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// admissionActions returns how admission may change the pod that a reconcile creates next. That is one of the things that
// go wrong: a job to whose pods admission always does that tries again and again, and never comes to rest. The scenarios
// have such a cluster.
func (x options) admissionActions(s *state, next model.Call) []action {
	if next.Verb != "create" || next.Resource != model.Pods || !x.left(s, s.spent.changes, x.budget.changes) {
		return nil
	}
	var actions []action
	for _, label := range []string{batchv1beta1.LabelAttempt, batchv1beta1.LabelJobKind, batchv1beta1.LabelJobName} {
		actions = append(actions, action{name: string(model.TakeOff) + " its call: " + label, do: func(m *machine) {
			m.state.spent.changes++
			m.fault, m.takesOff = model.TakeOff, label
			m.proceed()
		}})
	}
	return actions
}
