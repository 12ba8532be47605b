package dependents_test

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
)

// Short names of the builders and checks of jobtest.
var (
	diff          = jobtest.Diff
	group         = jobtest.Group
	withCondition = jobtest.WithCondition
	admitted      = jobtest.Admitted
	edited        = jobtest.Edited
	foreignGroup  = jobtest.ForeignGroup
	deletingGroup = jobtest.DeletingGroup
	board         = jobtest.Board
	foreignBoard  = jobtest.ForeignBoard
	suspended     = jobtest.Suspended
	deletingBoard = jobtest.DeletingBoard
	failed        = jobtest.FailedBoard
	withReady     = jobtest.WithReady
	warning       = jobtest.Warning
	now           = jobtest.Now
	workload      = jobtest.Workload
	has           = jobtest.Having
	admittedFor   = jobtest.AdmittedFor
	evicted       = jobtest.Evicted
)

type (
	delayedChange = tensorboard.DelayedChange
)

// apiServer is a fake API server that returns the same error, the field answer, for every change of a dependent. Nil
// means success.
type apiServer struct {
	client.Client

	answer error
	// owner is the UID of the owner of the existing dependent.
	owner types.UID
	// calls are the changes of the dependent and the writes of the status of the job.
	calls []string
}

func (d *apiServer) Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = errors.Join(schedulerv1beta1.AddToScheme(scheme), tensorboardv1beta1.AddToScheme(scheme))
	return scheme
}

func (d *apiServer) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetOwnerReferences([]metav1.OwnerReference{{UID: d.owner, Controller: new(true)}})
	return nil
}

func (d *apiServer) changed(what string, noWait bool) error {
	d.calls = append(d.calls, what)
	if !noWait {
		d.calls = append(d.calls, "a change waits for the cache")
	}
	return d.answer
}

// ownerJob is a job that has only metadata and a TensorBoard.
type ownerJob struct {
	metav1.PartialObjectMetadata

	spec        *tensorboardv1beta1.TensorBoardSpec
	tensorBoard *batchv1beta1.DependentStatus
}

var _ framework.TensorBoardJob = &ownerJob{}

// newOwnerJob returns the owner of the objects that jobtest builds.
func newOwnerJob() *ownerJob {
	j := &ownerJob{}
	j.Namespace, j.Name, j.UID = "ns", "job", "job-uid"
	return j
}

func (j *ownerJob) DeepCopyObject() runtime.Object { c := *j; return &c }

func (j *ownerJob) JobStatus() *batchv1beta1.JobStatus { return &batchv1beta1.JobStatus{} }

func (j *ownerJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec { return j.spec }
func (j *ownerJob) TensorBoardStatus() *batchv1beta1.DependentStatus     { return j.tensorBoard }

func (j *ownerJob) SetTensorBoardStatus(status *batchv1beta1.DependentStatus) { j.tensorBoard = status }

// changeOf returns a change with the objects that the action needs.
func changeOf(action string, seen, wanted view.Object) view.Change {
	switch action {
	case "":
		return view.Change{}
	case batchv1beta1.ActionCreate:
		return view.Change{Action: action, Wanted: wanted}
	case batchv1beta1.ActionDelete:
		return view.Change{Action: action, Seen: seen}
	default:
		return view.Change{Action: action, Seen: seen, Wanted: wanted}
	}
}
