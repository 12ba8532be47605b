// Package conformance checks that a framework, run by the job controller, keeps the contract of its job kind: that restarts are
// counted exactly, that every job ends as it should, and that no crash, lost answer or lagging cache changes either. A
// framework runs it in a dozen lines; see Run.
package conformance

import (
	"flag"
	"runtime/debug"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
)

// Shape is what the suite varies of a job.
type Shape struct {
	// Replicas of the one type that the job has. Index 0 leads.
	Replicas int32
	// RestartPolicy of the replicas.
	RestartPolicy batchv1beta1.RestartPolicy
	// Template of the replicas.
	Template corev1.PodTemplateSpec
	// RunPolicy of the job.
	RunPolicy batchv1beta1.RunPolicy
	// RunMode of the job; nil is the plain one.
	RunMode *batchv1beta1.RunMode
	// Elastic scaling of the job; nil is none. A framework that does not scale leaves it out.
	Elastic *batchv1beta1.ElasticConfig
	// TensorBoard that the job wants; nil is none. A framework whose jobs have none leaves it out.
	TensorBoard *tensorboardv1beta1.TensorBoardSpec
	// Scheduler of the job; nil is the cluster's default.
	Scheduler *batchv1beta1.SchedulePolicy
}

// kind is a job kind without its type parameter.
type kind struct {
	name          string
	scheme        *runtime.Scheme
	newJob        func(Shape) framework.Job
	specOf        func(framework.Job) framework.JobSpec
	newReconciler func(controller.Cluster, controller.Options) (reconcile.Reconciler, error)
	mainContainer string
}

// runs says whether jobs of the kind can be of a shape: whether they have a TensorBoard, and whether they scale, and depend on a
// rendezvous if they are left to.
func (k kind) runs(s Shape) bool {
	job := k.newJob(s)
	if _, ok := job.(framework.TensorBoardJob); s.TensorBoard != nil && !ok {
		return false
	}
	if s.Elastic == nil {
		return true
	}
	spec := k.specOf(job)
	return spec.Elastic != nil && (spec.Rendezvous || s.RunPolicy.RestartScope != "")
}

// job returns a job of a shape as its user writes it.
func (k kind) job(s Shape) framework.Job {
	if s.Template.Spec.Containers == nil {
		s.Template.Spec.Containers = []corev1.Container{{Name: k.mainContainer, Image: "training"}}
	}
	job := k.newJob(s)
	job.SetNamespace(jobKey.Namespace)
	job.SetName(jobKey.Name)
	return job
}

// edited returns a job once its user has given it another shape.
func (k kind) edited(job framework.Job, s Shape) framework.Job {
	edited := k.job(s)
	edited.SetUID(job.GetUID())
	edited.SetCreationTimestamp(job.GetCreationTimestamp())
	edited.SetGeneration(job.GetGeneration() + 1)
	*edited.JobStatus() = *job.JobStatus().DeepCopy()
	setTensorBoardStatus(edited, tensorBoardStatus(job))
	return edited
}

// fullConformance is a flag of the tests of this package, and of those of frameworks.
var fullConformance = flag.Bool("conformance.full", false, "check everything, and not only as much as time allows")

// coverage is how much of the suite runs.
type coverage int

const (
	// quick stops the controller once at each write of each scenario, and explores jobs of one replica in which one thing goes wrong.
	quick coverage = iota
	// added explores the jobs that frameworks explore, some of them with two replicas, in which one thing goes wrong.
	added
	// thorough injects each fault at each write, restarts with caches that are all equally stale, explores every small job, in which up to
	// two things go wrong, and walks at random.
	thorough
	// full also restarts with caches of which only one is stale, and explores lives in which up to three things go wrong.
	full
)

// Run checks a controller. The function makes a job of the given shape, without a name.
//
// What the job controller does is the same for all frameworks and is covered thoroughly by the tests of this package, on a kind that adds nothing.
// Of a framework, Run checks what it adds to that. With -conformance.full it checks everything, with -short what takes a few seconds.
func Run[J framework.Job](t *testing.T, controller manager.Controller[J], newJob func(Shape) J) {
	t.Helper()
	runSuite(t, controller, newJob, added)
}

// runSuite runs the suite with the coverage, unless a flag says otherwise.
func runSuite[J framework.Job](t *testing.T, controller manager.Controller[J], newJob func(Shape) J, c coverage) {
	t.Helper()
	switch {
	case testing.Short():
		c = quick
	case *fullConformance:
		c = full
	}
	collected := debug.SetGCPercent(400) // there is much garbage, and memory enough for it
	t.Cleanup(func() { debug.SetGCPercent(collected) })
	k := kindOf(t, controller, newJob)
	t.Run("jobs survive every crash", func(t *testing.T) { testCrashes(t, k, c) })
	if c >= thorough {
		t.Run("jobs find their way wherever they walk", func(t *testing.T) { testWalks(t, k) })
	}
	t.Run("small jobs live through everything", func(t *testing.T) { testExplorations(t, k, c) })
	t.Run("restarts are as documented", func(t *testing.T) { testRestarts(t, k) })
	t.Run("the log tells of each decision, once", func(t *testing.T) { testLog(t, k) })
	t.Run("replicas are wired alike every time", func(t *testing.T) { testWiring(t, controller.Framework, newJob) })
}

func kindOf[J framework.Job](t *testing.T, ofKind manager.Controller[J], newJob func(Shape) J) kind {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, ofKind.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	gvk, err := apiutil.GVKForObject(ofKind.Framework.NewJob(), scheme)
	if err != nil {
		t.Fatal(err)
	}
	return kind{
		name:   gvk.Kind,
		scheme: scheme,
		newJob: func(s Shape) framework.Job { return newJob(s) },
		specOf: func(job framework.Job) framework.JobSpec {
			return ofKind.Framework.JobSpec(job.(J)) //nolint:forcetypeassert // all jobs of a cluster are of one kind
		},
		newReconciler: func(cluster controller.Cluster, options controller.Options) (reconcile.Reconciler, error) {
			return controller.New(cluster, ofKind.Framework, options)
		},
		mainContainer: ofKind.Framework.MainContainers()[0],
	}
}
