package manager

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
)

// Controller is what tells one job controller from another.
type Controller[J framework.Job] struct {
	// Name of the controller, which its leader Lease is named after too.
	Name string
	// AddToScheme registers the API types of its jobs.
	AddToScheme func(*runtime.Scheme) error
	// Framework runs its jobs.
	Framework framework.Framework[J]
}

// Program puts the job controller into the shell. The options are the defaults of its flags; Run completes them.
func (c Controller[J]) Program(options controller.Options) Program {
	return Program{
		Name:        c.Name,
		Short:       "Runs the training jobs of a cluster",
		AddToScheme: c.AddToScheme,
		Flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&options.Workers, "workers", options.Workers, "jobs that are reconciled at the same time")
			flags.DurationVar(&options.StatusInterval, "status-interval", options.StatusInterval, "time in which what a job's status says of its replicas, or that it has begun, is collected before it is written, the end of a replica for a second at most; changes of phase, conditions and counts are written at once, with all else")
			flags.DurationVar(&options.PeerGrace, "peer-grace", options.PeerGrace, "time that the unfinished peers of a leader that succeeded get to end by themselves before the clean-up deletes them")
			flags.DurationVar(&options.FailureWindow, "failure-window", options.FailureWindow, "time after a failure in a collective in which the reports of its peers are waited for, before it is decided which failure was the cause; 0 takes the first that is seen")
			flags.DurationVar(&options.NodeLostDelay, "node-lost-delay", options.NodeLostDelay, "time that the pod of a lost node may stay Terminating past its grace period before it is deleted by force; 0 is for ever. Its containers may still run, if the node is cut off but alive")
		},
		Cache: func(scheme *runtime.Scheme) (map[client.Object]cache.ByObject, error) {
			gvk, err := apiutil.GVKForObject(c.Framework.NewJob(), scheme)
			return jobCache(gvk.Kind), err
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, shell Options) error {
			options.ClusterDomain, options.Image, options.Namespace = shell.ClusterDomain, shell.Image, shell.Namespace
			reconciler, err := controller.New(controller.Cluster{
				Client:    mgr.GetClient(),
				APIReader: mgr.GetAPIReader(),
				Events:    mgr.GetEventRecorder("tensorstack-jobs"),
				Metrics:   metrics.Registry,
			}, c.Framework, options)
			if err != nil {
				return err
			}
			return reconciler.SetupWithManager(ctx, mgr)
		},
		Commands: []*cobra.Command{waitDNSCommand(zap.New())},
	}
}

// jobCache keeps the cache to what belongs to jobs of the kind, and of that to what the job controller reads.
func jobCache(kind string) map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{batchv1beta1.LabelJobKind: kind})
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:     {Label: ours, Transform: stripPod},
		&corev1.Service{}: {Label: ours, Transform: stripService},
	}
}

// stripPod keeps of a pod what the job controller reads.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	pod.Annotations = nil
	spec := corev1.PodSpec{NodeName: pod.Spec.NodeName}
	for _, c := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name})
	}
	pod.Spec = spec
	return pod, nil
}

// stripService keeps of a Service whose it is.
func stripService(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	service.ManagedFields = nil
	service.Annotations = nil
	service.Spec = corev1.ServiceSpec{}
	service.Status = corev1.ServiceStatus{}
	return service, nil
}
