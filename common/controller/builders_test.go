package controller

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tensorstack.dev/jobs/common/internal/jobtest"
)

// testKind is the kind of the jobs of tests.
var testKind = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}

// The builders and checks of jobtest, by the names that the tests here use.
var (
	diff           = jobtest.Diff
	pod            = jobtest.Pod
	onNode         = jobtest.OnNode
	running        = jobtest.Running
	exited         = jobtest.Exited
	sidecarRunning = jobtest.SidecarRunning
	deleting       = jobtest.Deleting
	group          = jobtest.Group
	withCondition  = jobtest.WithCondition
	admitted       = jobtest.Admitted
	edited         = jobtest.Edited
	foreignGroup   = jobtest.ForeignGroup
	deletingGroup  = jobtest.DeletingGroup
	board          = jobtest.Board
	foreignBoard   = jobtest.ForeignBoard
	suspended      = jobtest.Suspended
	deletingBoard  = jobtest.DeletingBoard
	failed         = jobtest.FailedBoard
	withReady      = jobtest.WithReady
	warning        = jobtest.Warning
	now            = jobtest.Now
)

const mainContainer = jobtest.MainContainer

type podOption = jobtest.PodOption
