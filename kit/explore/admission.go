package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// admissionExplorations returns the small jobs in clusters whose admission adds containers to pods or removes a label
// from them.
func admissionExplorations() []exploration {
	return []exploration{
		{
			name: "a job of one replica survives admission that adds containers", added: true, inMesh: true,
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted", "loses its sidecars"}, edits: []edit{pauses},
			budget: allFaults, briefly: 2,
		},
		{
			name: "a job that restarts as a whole survives admission that adds containers", inMesh: true,
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "loses its sidecars"}, edits: []edit{pauses},
			budget: allFaults, inTurn: true,
		},
		{
			name: "a job that keeps all pods survives admission that adds containers", inMesh: true,
			shape:    model.Two(model.Never, model.ScopeReplica, model.CleanUp(batchv1beta1.CleanUpPolicyNone)),
			failures: []string{"fails", "loses its sidecars"}, edits: []edit{deletes},
			budget: allFaults,
		},
		{
			name:     "a job of one replica survives admission that sometimes removes a label",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails"}, edits: []edit{pauses, deletes},
			budget: spent{failures: 1, edits: 1, crashes: 1, staleReads: 1, conflicts: 1, changes: 2}, briefly: 3,
		},
	}
}

// admissionActions returns the ways in which admission can remove a label from the pod that a reconcile creates next.
// This fault has a budget: if admission removed the label from every pod, the job would retry forever and never come
// to rest. The scenarios of package conformance cover that case.
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

// checkPace checks that after admission has removed a label from a pod, the controller waits before it creates the
// next pod. Otherwise the controller could create and delete pods in a tight loop.
func (m *machine) checkPace(call model.Call) {
	if call.Verb == "create" && call.Resource == model.Pods && m.state.changed.Equal(m.state.now) {
		m.Errorf("the controller calls %s without a backoff after admission changed the previous pod", call)
	}
}
