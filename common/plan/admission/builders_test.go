package admission_test

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/admission"
)

// Short names of the builders and checks of jobtest.
var (
	diff            = jobtest.Diff
	job             = jobtest.NewJob
	role            = jobtest.Role
	pod             = jobtest.Pod
	onNode          = jobtest.OnNode
	running         = jobtest.Running
	exited          = jobtest.Exited
	deleting        = jobtest.Deleting
	unschedulable   = jobtest.Unschedulable
	created         = jobtest.Created
	summarize       = jobtest.Summarize
	podsToCreate    = jobtest.PodsToCreate
	seeing          = jobtest.Seeing
	grouped         = jobtest.Grouped
	group           = jobtest.Group
	withCondition   = jobtest.WithCondition
	admitted        = jobtest.Admitted
	edited          = jobtest.Edited
	foreignGroup    = jobtest.ForeignGroup
	deletingGroup   = jobtest.DeletingGroup
	elasticGroup    = jobtest.ElasticGroup
	gated           = jobtest.Gated
	now             = jobtest.Now
	errNotInstalled = jobtest.ErrNotInstalled
	workload        = jobtest.Workload
	has             = jobtest.Having
	admittedFor     = jobtest.AdmittedFor
	evicted         = jobtest.Evicted
)

type (
	podOption  = jobtest.PodOption
	jobBuilder = jobtest.Builder
	podGroup   = admission.PodGroup
)

const scopeReplica = batchv1beta1.RestartScopeReplica
