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
	// late is the most by which a fault may shift a time in the remaining objects. The constant tolerance is the
	// minimum.
	late time.Duration
	// peersEnd is set if the peers end by themselves after the leader has succeeded.
	peersEnd bool
	// holds is set if the controller holds the pods of leaders in the scenario. holdsNot is set if the scenario must not
	// run with such a controller.
	holds, holdsNot bool
	// want is the expected end.
	want result
}

// scenarios are all scenarios. The world settles between any two steps of a scenario.
var scenarios = slices.Concat(
	restartScenarios, endScenarios, pauseScenarios, elasticScenarios, dependentScenarios, kueueScenarios,
	networkPolicyScenarios, polled(progressScenarios), polled(inPlaceScenarios), admissionScenarios, ownerScenarios,
	awayScenarios, holdScenarios, deviceScenarios, nodeScenarios, quotaScenarios,
)

// polled sets the field late of the scenarios, and returns them. In these scenarios the controller reads pods at
// intervals, and a fault can delay a reading by one interval.
func polled(scenarios []scenario) []scenario {
	for i := range scenarios {
		scenarios[i].late = view.ProgressInterval + tolerance
	}
	return scenarios
}
