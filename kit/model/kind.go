package model

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
)

// Kind describes a job kind and its controller. In contrast to framework.Controller, it has no type parameter.
type Kind struct {
	// Name of the kind.
	Name string
	// Scheme contains the kind and the kinds of all objects that a job owns.
	Scheme *runtime.Scheme
	// MainContainer is the name of the main container of a replica.
	MainContainer string
	// SpecOf returns the spec of a job of the kind.
	SpecOf func(framework.Job) framework.JobSpec
	// NewReconciler returns the controller of the kind.
	NewReconciler func(controller.Cluster, controller.Options) (reconcile.Reconciler, error)

	// Admission changes pods as they are created in the cluster. Nil changes nothing.
	Admission Admission
	// HoldsLeaders reports whether the controller holds the pods of leaders with a finalizer.
	HoldsLeaders bool

	newJob func(Shape) framework.Job
}

// KindOf returns the kind of a controller. The function newJob returns a job of the given shape, without a name. KindOf
// returns an error if the types of the controller cannot be registered in one scheme.
func KindOf[J framework.Job](ofKind framework.Controller[J], newJob func(Shape) J) (Kind, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme),
		kueuev1beta2.AddToScheme(scheme), ofKind.AddToScheme(scheme))
	if err != nil {
		return Kind{}, err
	}
	gvk, err := apiutil.GVKForObject(ofKind.Framework.NewJob(), scheme)
	if err != nil {
		return Kind{}, err
	}
	return Kind{
		Name:          gvk.Kind,
		Scheme:        scheme,
		MainContainer: ofKind.Framework.MainContainers()[0],
		SpecOf: func(job framework.Job) framework.JobSpec {
			return ofKind.Framework.JobSpec(job.(J)) //nolint:forcetypeassert // all jobs of a cluster are of one kind
		},
		NewReconciler: func(cluster controller.Cluster, options controller.Options) (reconcile.Reconciler, error) {
			return controller.New(cluster, ofKind.Framework, options)
		},
		newJob: func(s Shape) framework.Job { return newJob(s) },
	}, nil
}

// Runs reports whether the kind supports a shape. A shape with a TensorBoard needs a kind that has TensorBoards. A
// shape that reports progress needs a kind whose trainings can report their progress, and a shape that counts restarts
// in place a kind whose launcher makes them. An elastic shape needs a kind
// that scales. If the elastic shape has no restart scope, the kind must also have a rendezvous.
func (k Kind) Runs(s Shape) bool {
	job := k.newJob(s)
	if _, ok := job.(framework.TensorBoardJob); s.TensorBoard != nil && !ok {
		return false
	}
	spec := k.SpecOf(job)
	if s.Progress != nil && !spec.ReportsProgress || s.InPlace && !spec.RestartsInPlace {
		return false
	}
	if s.Elastic == nil {
		return true
	}
	return spec.Elastic != nil && (spec.DefaultRestartScope == ScopeRendezvous || s.RunPolicy.RestartScope != "")
}

// ServesLeader reports whether the peers of the leader only serve the leader. Such peers are deleted when the leader
// has succeeded.
func (k Kind) ServesLeader() bool {
	return k.SpecOf(k.newJob(Shape{Replicas: 1})).Roles[0].Serves
}

// Job returns a job of a shape as a user writes it.
func (k Kind) Job(s Shape) framework.Job {
	if s.Template.Spec.Containers == nil {
		s.Template.Spec.Containers = []corev1.Container{{Name: k.MainContainer, Image: "training"}}
	}
	job := k.newJob(s)
	job.SetNamespace(JobKey.Namespace)
	job.SetName(JobKey.Name)
	if s.Kueue {
		job.SetLabels(map[string]string{kueuev1beta2.LabelQueueName: "lab"})
	}
	return job
}

// edited returns a copy of a job after its user has changed its shape.
func (k Kind) edited(job framework.Job, s Shape) framework.Job {
	edited := k.Job(s)
	edited.SetUID(job.GetUID())
	edited.SetCreationTimestamp(job.GetCreationTimestamp())
	edited.SetGeneration(job.GetGeneration() + 1)
	*edited.JobStatus() = *job.JobStatus().DeepCopy()
	setTensorBoardStatus(edited, TensorBoardStatus(job))
	return edited
}

// CountReplicas returns the number of replicas in a spec.
func CountReplicas(spec framework.JobSpec) int {
	sum := 0
	for _, role := range spec.Roles {
		sum += int(role.Replicas)
	}
	return sum
}

// Edit changes the shape of the job, as its user does.
func (c *Cluster) Edit(kind Kind, s Shape) { c.Put(kind.edited(c.Live().Job(), s)) }
