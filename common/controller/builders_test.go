package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tensorstack.dev/jobs/common/internal/jobtest"
)

// testKind is the kind of the jobs in tests.
var testKind = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "TestJob"}

// Short names of the builders and checks of jobtest.
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

// wantOwnedMeta returns the expected metadata of an object that the job of jobtest.NewJob owns. The object has the
// name of the job.
func wantOwnedMeta() metav1.ObjectMeta {
	owner := &metav1.ObjectMeta{Name: "job", UID: "job-uid"}
	return metav1.ObjectMeta{
		Name: "job", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, testKind)},
		Labels: map[string]string{
			"batch.tensorstack.dev/job-kind": "TestJob",
			"batch.tensorstack.dev/job-name": "job",
			"app.kubernetes.io/name":         "training-job",
			"app.kubernetes.io/instance":     "job",
			"app.kubernetes.io/managed-by":   "tensorstack-jobs",
		},
	}
}
