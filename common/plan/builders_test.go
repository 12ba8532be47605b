package plan_test

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan"
)

// These are short names for the builders and checks of jobtest.
var (
	diff           = jobtest.Diff
	pod            = jobtest.Pod
	ago            = jobtest.Ago
	again          = jobtest.Again
	againAlone     = jobtest.AgainAlone
	of             = jobtest.Of
	onNode         = jobtest.OnNode
	running        = jobtest.Running
	exited         = jobtest.Exited
	exitedAgo      = jobtest.ExitedAgo
	printed        = jobtest.Printed
	sidecarRunning = jobtest.SidecarRunning
	deleting       = jobtest.Deleting
	disrupted      = jobtest.Disrupted
	onLostNode     = jobtest.OnLostNode
	rejected       = jobtest.Rejected
	unreachable    = jobtest.Unreachable
	unschedulable  = jobtest.Unschedulable
	createdAgo     = jobtest.CreatedAgo
	withBadDevice  = jobtest.WithUnhealthyDevice
	avoiding       = jobtest.Avoiding
	group          = jobtest.Group
	withCondition  = jobtest.WithCondition
	admitted       = jobtest.Admitted
	edited         = jobtest.Edited
	foreignGroup   = jobtest.ForeignGroup
	deletingGroup  = jobtest.DeletingGroup
	now            = jobtest.Now
	job            = jobtest.NewJob
	role           = jobtest.Role
	restarting     = jobtest.Restarting
	seeing         = jobtest.Seeing
	grouped        = jobtest.Grouped
	reading        = jobtest.Reading
	step           = jobtest.Step
	noReport       = jobtest.NoReport
	summarize      = jobtest.Summarize
	created        = jobtest.Created
	names          = jobtest.Names
	podsToCreate   = jobtest.PodsToCreate
	sameCreations  = jobtest.SameCreations
	withoutFacts   = jobtest.WithoutFacts
)

const mainContainer = jobtest.MainContainer

// untilOverdue is how long after now a job reports that a deleting pod keeps it from restarting.
const untilOverdue = 90 * time.Second

type (
	podOption  = jobtest.PodOption
	jobBuilder = jobtest.Builder
	summary    = jobtest.Summary
	readings   = jobtest.Readings
)

// condition has the fields of a condition that the tests compare.
type condition struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func conditionOf(d plan.Decision, conditionType string) condition {
	c := ptr.Deref(meta.FindStatusCondition(d.Status.Conditions, conditionType), metav1.Condition{})
	return condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
}
