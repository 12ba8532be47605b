package tensorboard_test

import (
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/tensorboard"
)

// Short names of the builders and checks of jobtest.
var (
	diff          = jobtest.Diff
	job           = jobtest.NewJob
	role          = jobtest.Role
	board         = jobtest.Board
	foreignBoard  = jobtest.ForeignBoard
	suspended     = jobtest.Suspended
	deletingBoard = jobtest.DeletingBoard
	failed        = jobtest.FailedBoard
	withReady     = jobtest.WithReady
	reported      = jobtest.Reported
	unchanged     = jobtest.Unchanged
	warning       = jobtest.Warning
	now           = jobtest.Now
)

type (
	delayedChange = tensorboard.DelayedChange
)
