package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// admissionActions returns how admission may change the pod that a reconcile creates next. That is one of the things
// that go wrong: a job to whose pods admission always does that tries again and again, and never comes to rest. The
// scenarios have such a cluster.
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

// checkPace checks that no pod is created at once after admission took a label off the last one. If it did so for ever,
// the controller would create and delete pods all the time.
func (m *machine) checkPace(call model.Call) {
	if call.Verb == "create" && call.Resource == model.Pods && m.state.changed.Equal(m.state.now) {
		m.Errorf("%s follows at once on that of a pod that admission changed", call)
	}
}
