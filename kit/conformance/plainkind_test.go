package conformance

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/kit/model"
)

// TestPlainKind runs the suite on a kind that adds nothing to the job controller and uses all its features. This covers
// the behavior that all kinds share. See Run.
func TestPlainKind(t *testing.T) {
	t.Parallel()
	runSuite(t, plainController(), newPlainJob, model.Thorough)
}

// TestPlainKindInMesh runs parts of the suite on a cluster whose admission changes pods.
func TestPlainKindInMesh(t *testing.T) {
	t.Parallel()
	runInMesh(t, plainController(), newPlainJob)
}

// TestPlainKindHoldingLeaders runs parts of the suite with a controller that holds the pods of leaders.
func TestPlainKindHoldingLeaders(t *testing.T) {
	t.Parallel()
	runHoldingLeaders(t, plainController(), newPlainJob)
}

func plainController() framework.Controller[*plainJob] {
	group := schema.GroupVersion{Group: "test.tensorstack.dev", Version: "v1"}
	return framework.Controller[*plainJob]{
		Name: "plain-controller",
		AddToScheme: func(scheme *runtime.Scheme) error {
			scheme.AddKnownTypeWithName(group.WithKind("PlainJob"), &plainJob{})
			metav1.AddToGroupVersion(scheme, group)
			return errors.Join(schedulerv1beta1.AddToScheme(scheme), tensorboardv1beta1.AddToScheme(scheme))
		},
		Framework: plain{},
	}
}

// plainJob is a job kind with every feature of the job controller. It scales, uses a rendezvous if it scales, and owns
// a TensorBoard.
type plainJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Shape       `json:"spec"`
	Status plainStatus `json:"status"`
}

type plainStatus struct {
	batchv1beta1.JobStatus `json:",inline"`

	TensorBoard *batchv1beta1.DependentStatus `json:"tensorboard,omitempty"`
}

var _ framework.TensorBoardJob = &plainJob{}

func newPlainJob(s Shape) *plainJob { return &plainJob{Spec: s} }

// DeepCopyObject implements runtime.Object.
func (j *plainJob) DeepCopyObject() runtime.Object {
	c := &plainJob{TypeMeta: j.TypeMeta, Spec: j.Spec}
	j.DeepCopyInto(&c.ObjectMeta)
	j.Spec.Template.DeepCopyInto(&c.Spec.Template)
	j.Spec.RunPolicy.DeepCopyInto(&c.Spec.RunPolicy)
	c.Spec.RunMode, c.Spec.Elastic = j.Spec.RunMode.DeepCopy(), j.Spec.Elastic.DeepCopy()
	c.Spec.TensorBoard, c.Spec.Scheduler = j.Spec.TensorBoard.DeepCopy(), j.Spec.Scheduler.DeepCopy()
	c.Spec.Progress = j.Spec.Progress.DeepCopy()
	j.Status.DeepCopyInto(&c.Status.JobStatus)
	c.Status.TensorBoard = j.Status.TensorBoard.DeepCopy()
	return c
}

func (plain) JobSpec(j *plainJob) framework.JobSpec {
	spec := framework.JobSpec{
		Roles: []framework.Role{{
			Type: "worker", Replicas: j.Spec.Replicas, ScalingWeight: 1, RestartPolicy: j.Spec.RestartPolicy,
			Template: &j.Spec.Template,
		}},
		RunPolicy:           j.Spec.RunPolicy,
		DefaultRestartScope: batchv1beta1.RestartScopeJob,
		RunMode:             j.Spec.RunMode,
		Scheduler:           j.Spec.Scheduler,
		ReportsProgress:     j.Spec.Progress.Reports(),
		RestartsInPlace:     j.Spec.InPlace,
	}
	if elastic := j.Spec.Elastic; elastic != nil && elastic.Enabled {
		spec.Elastic, spec.DefaultRestartScope = elastic, batchv1beta1.RestartScopeRendezvous
		spec.Roles = policy.Scale("", spec.Roles, elastic.Expected())
	}
	return spec
}

// JobStatus implements framework.Job.
func (j *plainJob) JobStatus() *batchv1beta1.JobStatus { return &j.Status.JobStatus }

// TensorBoardSpec implements framework.TensorBoardJob.
func (j *plainJob) TensorBoardSpec() *tensorboardv1beta1.TensorBoardSpec { return j.Spec.TensorBoard }

// TensorBoardStatus implements framework.TensorBoardJob.
func (j *plainJob) TensorBoardStatus() *batchv1beta1.DependentStatus { return j.Status.TensorBoard }

// SetTensorBoardStatus implements framework.TensorBoardJob.
func (j *plainJob) SetTensorBoardStatus(status *batchv1beta1.DependentStatus) {
	j.Status.TensorBoard = status
}

// plain is the framework of plainJob. It wires nothing.
type plain struct{}

// NewJob implements framework.Framework.
func (plain) NewJob() *plainJob { return &plainJob{} }

// MainContainers implements framework.Framework.
func (plain) MainContainers() []string { return []string{"main"} }

// Wire implements framework.Framework.
func (plain) Wire(*plainJob, framework.Peers, framework.Member, *corev1.PodTemplateSpec) error {
	return nil
}
