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
	now            = jobtest.Now
)

const mainContainer = jobtest.MainContainer

type podOption = jobtest.PodOption
