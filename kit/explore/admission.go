package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// admissionActions returns the ways in which admission can remove a label from the pod that a reconcile creates next.
// This is a fault with a budget. If admission removed the label from every pod, the job would retry forever and never
// come to rest. The scenarios of package conformance cover that case.
func (x options) admissionActions(s *state, next model.Call) []action {
	if next.Verb != "create" || next.Resource != model.Pods || !x.left(s, s.spent.changes, x.budget.changes) {
		return nil
	}
	var actions []action
	for _, label := range []string{batchv1beta1.LabelAttempt, batchv1beta1.LabelJobKind, batchv1beta1.LabelJobName} {
		name := string(model.TakeOff) + " the call " + next.String() + ": " + label
		actions = append(actions, action{name: name, do: func(m *machine) {
			m.state.spent.changes++
			m.fault, m.takesOff = model.TakeOff, label
			m.proceed()
		}})
	}
	return actions
}

// checkPace checks that the controller waits before it creates a pod after admission removed a label from the previous
// pod. Otherwise the controller could create and delete pods in a tight loop.
func (m *machine) checkPace(call model.Call) {
	if call.Verb == "create" && call.Resource == model.Pods && m.state.changed.Equal(m.state.now) {
		m.Errorf("the controller calls %s without a backoff after admission changed the previous pod", call)
	}
}
