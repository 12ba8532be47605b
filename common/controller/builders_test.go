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
	says           = jobtest.Says
	admitted       = jobtest.Admitted
	edited         = jobtest.Edited
	ofOthers       = jobtest.OfOthers
	going          = jobtest.Going
	board          = jobtest.Board
	notOurs        = jobtest.NotOurs
	suspended      = jobtest.Suspended
	terminating    = jobtest.Terminating
	failed         = jobtest.Failed
	isReady        = jobtest.IsReady
	warning        = jobtest.Warning
	now            = jobtest.Now
)

const mainContainer = jobtest.MainContainer

type podOption = jobtest.PodOption

func diff(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	jobtest.Diff(t, what, want, got, options...)
}
