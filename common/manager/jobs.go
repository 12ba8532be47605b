package manager

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan"
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
			flags.DurationVar(
				&options.StatusInterval,
				"status-interval",
				options.StatusInterval,
				"time in which what a job's status says of its replicas, or that it has begun, is collected before it is written, the end of a replica for a second at most; changes of phase, conditions and counts are written at once, with all else",
			)
			flags.DurationVar(
				&options.PeerGrace,
				"peer-grace",
				options.PeerGrace,
				"time that the unfinished peers of a leader that succeeded get to end by themselves before the clean-up deletes them",
			)
			flags.DurationVar(
				&options.FailureWindow,
				"failure-window",
				options.FailureWindow,
				"time after a failure in a collective in which the reports of its peers are waited for, before it is decided which failure was the cause, and five times that if all that failed only lost a peer; 0 takes the first that is seen",
			)
			flags.DurationVar(
				&options.NodeLostDelay,
				"node-lost-delay",
				options.NodeLostDelay,
				"time that the pod of a lost node may stay Terminating past its grace period before it is deleted by force; 0 is for ever. Its containers may still run, if the node is cut off but alive",
			)
			flags.BoolVar(&options.HoldLeaders, "hold-leaders", options.HoldLeaders,
				"create the pods of leaders with a finalizer, which keeps them until the status of the job accounts for their "+
					"end, so that no end is lost while no controller runs; docs/reliability.md lists what holds with and without it")
			options.NetworkPolicies.AddFlags(flags, "job", "the replicas of the job")
		},
		Cache: func(scheme *runtime.Scheme) (cache.Options, error) {
			job := c.Framework.NewJob()
			gvk, err := apiutil.GVKForObject(job, scheme)
			cached := jobCache(gvk.GroupKind(), options.NetworkPolicies)
			cached.ByObject[job] = cache.ByObject{Transform: controller.CacheTransform(c.Framework)}
			return cached, err
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, shell Options) error {
			if err := options.NetworkPolicies.Validate(); err != nil {
				return fmt.Errorf("reading the flags: %w", err)
			}
			options.ClusterDomain, options.Image, options.Namespace = shell.ClusterDomain, shell.Image, shell.Namespace
			gvk, err := apiutil.GVKForObject(c.Framework.NewJob(), mgr.GetScheme())
			if err != nil {
				return err
			}
			reader, err := newPodReader(mgr, func(pod *corev1.Pod) {
				stripPod(pod, gvk.GroupKind())
			})
			if err != nil {
				return err
			}
			reconciler, err := controller.New(controller.Cluster{
				Client:    mgr.GetClient(),
				APIReader: reader,
				Outputs:   reader,
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
func jobCache(kind schema.GroupKind, policies network.Policies) cache.Options {
	labelled := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{batchv1beta1.LabelJobKind: kind.Kind})}
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: labelled, &corev1.Service{}: labelled, &networkingv1.NetworkPolicy{}: labelled,
		},
		DefaultTransform: Strip(func(object client.Object) {
			switch object := object.(type) {
			case *corev1.Pod:
				stripPod(object, kind)
			case *corev1.Service:
				stripService(object, kind)
			case *networkingv1.NetworkPolicy:
				stripNetworkPolicy(object, kind, policies)
			}
		}),
	}
}

// stripPod keeps of a pod what the job controller reads; of one that no job of the kind controls, next to nothing. Of a
// pod that is held it keeps the finalizer and the name of the job, whoever owns it: the controller releases it.
func stripPod(pod *corev1.Pod, kind schema.GroupKind) {
	isHeld, job := plan.IsHeld(pod), pick(pod.Labels, []string{batchv1beta1.LabelJobName})
	if HasController(pod, kind) {
		StripMeta(&pod.ObjectMeta, []string{batchv1beta1.LabelAttempt}, nil)
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
		StripPodStatus(&pod.Status)
	} else {
		StripForeignMeta(&pod.ObjectMeta)
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
	}
	if isHeld {
		pod.Finalizers, pod.Labels = []string{batchv1beta1.FinalizerLeader}, labels.Merge(pod.Labels, job)
	}
}

// stripService keeps of a Service which job of the kind controls it.
func stripService(service *corev1.Service, kind schema.GroupKind) {
	StripOwnedMeta(&service.ObjectMeta, kind)
	service.Spec, service.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
}

// stripNetworkPolicy keeps of a NetworkPolicy which job of the kind controls it, and the spec if it is the one to be.
func stripNetworkPolicy(policy *networkingv1.NetworkPolicy, kind schema.GroupKind, policies network.Policies) {
	StripOwnedMeta(&policy.ObjectMeta, kind)
	network.Strip(policy, controller.NetworkPolicySpec(kind.Kind, policy.Name, policies))
}
