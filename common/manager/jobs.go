package manager

import (
	"context"
	"errors"
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
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/progress/receiver"
)

// JobProgram returns the program of a job controller. The options are the defaults of its flags. The program itself
// sets the options that have no flags.
func JobProgram[J framework.Job](c framework.Controller[J], options controller.Options) Program {
	return Program{
		Name:  c.Name,
		Short: "Runs the training jobs of a cluster",
		AddToScheme: func(scheme *runtime.Scheme) error {
			return errors.Join(c.AddToScheme(scheme), kueuev1beta2.AddToScheme(scheme))
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.IntVar(&options.Workers, "workers", options.Workers, "number of jobs that are reconciled concurrently")
			flags.DurationVar(&options.StatusInterval, "status-interval", options.StatusInterval,
				"how long replica changes and the first status of a job are batched, the end of a replica for at most 1s. "+
					"Changes of phase, conditions and counts are written immediately, with the batch")
			flags.DurationVar(&options.PeerGrace, "peer-grace", options.PeerGrace,
				"how long peers of a succeeded leader can take to end by themselves before the clean-up deletes them")
			flags.DurationVar(&options.FailureWindow, "failure-window", options.FailureWindow,
				"how long to wait for reports of peers before the root cause in a collective is determined, 5 times as long if "+
					"all failed replicas only lost a peer; 0 uses the first failure that is seen")
			flags.DurationVar(&options.NodeLostDelay, "node-lost-delay", options.NodeLostDelay,
				"how long the pod of a lost node can stay Terminating past its grace period before it is deleted by force; "+
					"0 is forever. Its containers might still run if the node is disconnected but alive")
			flags.DurationVar(&options.AvoidNodesFor, "avoid-nodes-for", options.AvoidNodesFor,
				"how long new pods of a job avoid a node on which replicas have failed twice because the node was lost or a "+
					"device was unhealthy; 0 disables it")
			flags.DurationVar(&options.AvoidNodesPatience, "avoid-nodes-patience", options.AvoidNodesPatience,
				"how long a pod that avoids nodes can be unschedulable before the job stops avoiding the node that it has "+
					"avoided for the longest time")
			flags.BoolVar(&options.HoldLeaders, "hold-leaders", options.HoldLeaders,
				"keep the pods of leaders by a finalizer until the job's status records their end, so that no end is lost "+
					"while no controller runs; docs/contribute/reliability.md lists the guarantees with and without it")
			AddResourceFlag(flags, &options.HelperResources, "helper-resources",
				"CPU and memory, as requests and limits, of the sidecar that receives reports of progress, and of init "+
					"containers of this image in the pods of a gang whose templates request none")
			options.NetworkPolicies.AddFlags(flags, "job", "the replicas of the job")
		},
		Cache: func(scheme *runtime.Scheme, shell Options) (cache.Options, error) {
			job := c.Framework.NewJob()
			gvk, err := apiutil.GVKForObject(job, scheme)
			options.ProgressReader = network.ControllerPods(shell.PodNamespace, c.Name)
			cached := jobCache(gvk.GroupKind(), options.NetworkPolicies, options.ProgressReader)
			cached.ByObject[job] = cache.ByObject{Transform: controller.CacheTransform(c.Framework)}
			return cached, err
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, shell Options) error {
			if err := errors.Join(options.NetworkPolicies.Validate(), checkHelper(options.HelperResources)); err != nil {
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
			poller := progress.NewPoller(progress.NewClient().Read, view.ReadingInterval)
			if err := mgr.Add(poller); err != nil {
				return err
			}
			reconciler, err := controller.New(controller.Cluster{
				Client:    mgr.GetClient(),
				APIReader: reader,
				Outputs:   reader,
				Progress:  poller,
				Events:    mgr.GetEventRecorder("tensorstack-jobs"),
				Metrics:   metrics.Registry,
			}, c.Framework, options)
			if err != nil {
				return err
			}
			poller.Changed = reconciler.ProgressChanged
			return reconciler.SetupWithManager(ctx, mgr)
		},
		Commands: []*cobra.Command{waitDNSCommand(zap.New(), c.Install), receiver.Command()},
	}
}

// checkHelper returns an error unless the resources of helper containers are CPU and memory, both greater than 0. If
// one of them is missing, a helper changes the QoS class of a Guaranteed pod. Other resources might not exist on each
// node.
func checkHelper(resources corev1.ResourceList) error {
	if len(resources) != 2 || resources.Cpu().IsZero() || resources.Memory().IsZero() {
		return errors.New("--helper-resources must have cpu and memory, both greater than 0, and nothing else")
	}
	return nil
}

// jobCache returns the cache options of a job controller. Of pods, Services and NetworkPolicies, the cache contains
// only objects with the label of the kind. Of all objects except jobs, it contains only the fields that the job
// controller reads.
func jobCache(
	kind schema.GroupKind, policies network.Policies, reader *networkingv1.NetworkPolicyPeer,
) cache.Options {
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
				StripOwnedMeta(&object.ObjectMeta, kind)
				object.Spec, object.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
			case *networkingv1.NetworkPolicy:
				StripOwnedMeta(&object.ObjectMeta, kind)
				network.Strip(object, controller.NetworkPolicySpecs(kind.Kind, object.Name, policies, reader)...)
			case *corev1.ResourceQuota:
				stripQuota(object)
			}
		}),
	}
}

// stripQuota strips a ResourceQuota to its status. If the status is unusually large, it removes the status as well.
// Without the status, each change of the ResourceQuota requeues all jobs that wait for room in it.
func stripQuota(quota *corev1.ResourceQuota) {
	const maxResources, maxDigits = 64, 32
	isLarge := func(list corev1.ResourceList) bool {
		for _, quantity := range list {
			if len(quantity.String()) > maxDigits {
				return true
			}
		}
		return len(list) > maxResources
	}
	StripForeignMeta(&quota.ObjectMeta)
	quota.Spec = corev1.ResourceQuotaSpec{}
	if isLarge(quota.Status.Hard) || isLarge(quota.Status.Used) {
		quota.Status = corev1.ResourceQuotaStatus{}
	}
}

// stripPod strips a pod to the fields that the job controller reads. Of a pod that no job of the kind controls, it
// keeps only the deletion timestamp and the fields that identify the pod. If the controller holds the pod, stripPod
// always keeps the finalizer and the label with the name of the job. The controller must release such a pod, whatever
// the owner of the pod is.
func stripPod(pod *corev1.Pod, kind schema.GroupKind) {
	isHeld, job := view.IsHeld(pod), bounded.Pick(pod.Labels, []string{batchv1beta1.LabelJobName}, maxAnnotation)
	if HasController(pod, kind) {
		StripMeta(&pod.ObjectMeta, []string{batchv1beta1.LabelAttempt, batchv1beta1.LabelAdmittedBy},
			[]string{
				batchv1beta1.AnnotationProgressPort, batchv1beta1.AnnotationProgressToken, batchv1beta1.AnnotationSupervisorPort,
				batchv1beta1.AnnotationAvoidsNode, framework.AnnotationMain,
			})
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
		address := pod.Status.PodIP
		StripPodStatus(&pod.Status, pod.Annotations[framework.AnnotationMain], framework.ProgressContainer)
		if pod.Annotations[batchv1beta1.AnnotationProgressToken] != "" ||
			pod.Annotations[batchv1beta1.AnnotationSupervisorPort] != "" { // the controller reads the pod
			pod.Status.PodIP = address
		}
	} else {
		StripForeignMeta(&pod.ObjectMeta)
		pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{}
	}
	if isHeld {
		pod.Finalizers, pod.Labels = []string{batchv1beta1.FinalizerLeader}, labels.Merge(pod.Labels, job)
	}
}
