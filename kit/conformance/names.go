package conformance

import "tensorstack.dev/jobs/kit/model"

// Short names for parts of the model that scenarios use often.

const (
	onFailure = model.OnFailure
	never     = model.Never
	always    = model.Always
	exitCode  = model.ExitCode

	scopeJob     = model.ScopeJob
	scopeReplica = model.ScopeReplica
)

var (
	two                = model.Two
	elastic            = model.Elastic
	twoWithTensorBoard = model.TwoWithTensorBoard
	inKueue            = model.InKueue
	inQueue            = model.InQueue
	pausing            = model.Pausing
	reporting          = model.Reporting
	counting           = model.CountingRestarts

	limit      = model.Limit
	cleanUp    = model.CleanUp
	deadline   = model.Deadline
	timeToLive = model.TimeToLive
)

// policies returns an edit that changes the run policy of a shape.
func policies(options ...model.Policy) func(*Shape) {
	return func(s *Shape) {
		for _, option := range options {
			option(&s.RunPolicy)
		}
	}
}
