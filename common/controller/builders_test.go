package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tensorstack.dev/jobs/common/internal/jobtest"
)

// testKind is the kind of the jobs of tests.
var testKind = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}

// The builders of objects, by the names that the tests here use.
var (
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

func diff(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	jobtest.Diff(t, what, want, got, options...)
}
