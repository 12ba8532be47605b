package conformance

import (
	"slices"
	"time"
)

// scenario is the life of a job.
type scenario struct {
	name  string
	shape Shape
	// before the job is created, these happen.
	before []step
	// steps happen one after the other once the job is created.
	steps []step
	// inTurn is set if only full coverage lets the controller start again with caches of the past.
	inTurn bool
	// late is how much later things may happen if something goes wrong, if that is more than the usual.
	late time.Duration
	// peersEnd is set if the peers of a leader that succeeded end by themselves.
	peersEnd bool
	// holds is set if the controller holds the pods of leaders, holdsNot if it must not.
	holds, holdsNot bool
	// want is how it ends.
	want result
}

// scenarios are the lives that a job may have. Each is a sequence of steps between which the controller rests.
var scenarios = slices.Concat(
	restartScenarios, endScenarios, pauseScenarios, elasticScenarios, dependentScenarios, networkPolicyScenarios,
	inTurn(admissionScenarios), inTurn(ownerScenarios), inTurn(awayScenarios),
	holdScenarios,
)

// inTurn leaves to full coverage what takes longest.
func inTurn(scenarios []scenario) []scenario {
	for i := range scenarios {
		scenarios[i].inTurn = true
	}
	return scenarios
}
