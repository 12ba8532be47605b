package conformance

import (
	"slices"
	"time"

	"tensorstack.dev/jobs/common/plan/view"
)

// scenario is a sequence of events in the lifetime of a job, and its expected end.
type scenario struct {
	name  string
	shape Shape
	// before are steps that happen before the job is created.
	before []step
	// steps happen one after the other after the job is created.
	steps []step
	// late is the delay that a fault can cause. Zero means the default tolerance.
	late time.Duration
	// peersEnd is set if the peers end by themselves after the leader has succeeded.
	peersEnd bool
	// holds is set if the controller holds the pods of leaders. holdsNot is set if it must not hold them.
	holds, holdsNot bool
	// want is the expected end.
	want result
}

// scenarios are all scenarios. The controller settles between any two steps of a scenario.
var scenarios = slices.Concat(
	restartScenarios, endScenarios, pauseScenarios, elasticScenarios, dependentScenarios, kueueScenarios,
	networkPolicyScenarios, polled(progressScenarios), admissionScenarios, ownerScenarios, awayScenarios,
	holdScenarios, nodeScenarios, quotaScenarios,
)

// polled marks scenarios in which the controller reads the progress of a training, and might see it one interval later.
func polled(scenarios []scenario) []scenario {
	for i := range scenarios {
		scenarios[i].late = view.ProgressInterval + tolerance
	}
	return scenarios
}
