// Package manager is the shell of every controller: flags, logs, metrics, health probes, leader election and a cache that
// holds no more than the controller's own objects.
package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/engine"
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

// Options are the settings of a controller, each with a flag of its own.
type Options struct {
	MetricsBindAddress      string
	HealthProbeBindAddress  string
	LeaderElect             bool
	LeaderElectionNamespace string
	Namespace               string
	QPS                     float32
	Burst                   int
	Engine                  engine.Options
}

// DefaultOptions returns the settings that fit a busy cluster.
func DefaultOptions() Options {
	return Options{
		MetricsBindAddress:     ":8080",
		HealthProbeBindAddress: ":8081",
		LeaderElect:            true,
		QPS:                    500,
		Burst:                  1000,
		Engine: engine.Options{
			StatusInterval: 5 * time.Second,
			PeerGrace:      30 * time.Second,
			FailureWindow:  2 * time.Second,
			NodeLostDelay:  time.Minute,
			Workers:        16,
			Clock:          clock.RealClock{},
		},
	}
}

// Main runs the controller until it is told to stop. It ends the process: with status 1 if the controller failed.
func Main[J framework.Job](c Controller[J]) {
	if err := Command(c).ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// Command returns the command line of a controller.
func Command[J framework.Job](c Controller[J]) *cobra.Command {
	options := DefaultOptions()
	logging := zap.Options{}
	cmd := &cobra.Command{
		Use:           c.Name,
		Short:         "Runs the training jobs of a cluster",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := zap.New(zap.UseFlagOptions(&logging))
			ctrl.SetLogger(logger)
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			return Run(cmd.Context(), c, config, options, logger)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.MetricsBindAddress, "metrics-bind-address", options.MetricsBindAddress, "address of the Prometheus metrics; 0 turns them off")
	flags.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", options.HealthProbeBindAddress, "address of /healthz and /readyz; 0 turns them off")
	flags.BoolVar(&options.LeaderElect, "leader-elect", options.LeaderElect, "take part in a leader election, so that of several copies one works")
	flags.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", options.LeaderElectionNamespace, "namespace of the leader Lease (default: the controller's own)")
	flags.StringVar(&options.Namespace, "namespace", options.Namespace, "the one namespace whose jobs to run (default: all)")
	flags.Float32Var(&options.QPS, "kube-api-qps", options.QPS, "requests a second to the API server, on average")
	flags.IntVar(&options.Burst, "kube-api-burst", options.Burst, "requests to the API server at once")
	flags.IntVar(&options.Engine.Workers, "workers", options.Engine.Workers, "jobs that are reconciled at the same time")
	flags.DurationVar(&options.Engine.StatusInterval, "status-interval", options.Engine.StatusInterval, "shortest time between two status writes of a job that only follow its replicas; changes of phase, conditions and counts are written at once")
	flags.DurationVar(&options.Engine.PeerGrace, "peer-grace", options.Engine.PeerGrace, "time that the unfinished peers of a leader that succeeded get to end by themselves before the clean-up deletes them")
	flags.DurationVar(&options.Engine.FailureWindow, "failure-window", options.Engine.FailureWindow, "time after a failure in a collective in which the reports of its peers are waited for, before it is decided which failure was the cause; 0 takes the first that is seen")
	flags.DurationVar(&options.Engine.NodeLostDelay, "node-lost-delay", options.Engine.NodeLostDelay, "time that the pod of a lost node may stay Terminating past its grace period before it is deleted by force; 0 is for ever. Its containers may still run, if the node is cut off but alive")
	flags.StringVar(&options.Engine.ClusterDomain, "cluster-domain", options.Engine.ClusterDomain, "DNS domain of the cluster (default: from /etc/resolv.conf, else "+defaultClusterDomain+")")
	flags.StringVar(&options.Engine.Image, "image", options.Engine.Image, "image of this controller, which replicas run to wait for their peers (default: that of the pod named by $POD_NAMESPACE and $POD_NAME)")
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	logging.BindFlags(goFlags)
	flags.AddGoFlagSet(goFlags)
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		flags.AddGoFlag(kubeconfig)
	}
	cmd.AddCommand(waitDNSCommand(zap.New()))
	return cmd
}

// Run runs the controller against a cluster until the context ends. It returns an error if the controller cannot start or
// loses its leadership.
func Run[J framework.Job](ctx context.Context, c Controller[J], config *rest.Config, options Options, logger logr.Logger) error {
	if options.Engine.ClusterDomain == "" {
		options.Engine.ClusterDomain = clusterDomain("/etc/resolv.conf")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), c.AddToScheme(scheme)); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(c.Framework.NewJob(), scheme)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS = options.QPS
	config.Burst = options.Burst
	rest.AddUserAgent(config, c.Name)

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        logger,
		Cache:                         cacheOptions(gvk.Kind, options.Namespace),
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Metrics:                       metricsserver.Options{BindAddress: options.MetricsBindAddress},
		HealthProbeBindAddress:        options.HealthProbeBindAddress,
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              c.Name,
		LeaderElectionNamespace:       options.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if options.Engine.Image == "" {
		options.Engine.Image, err = ownImage(ctx, mgr.GetAPIReader())
		if err != nil {
			return fmt.Errorf("finding the controller's own image, which replicas run to wait for their peers (--image): %w", err)
		}
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	reconciler, err := engine.New(engine.Cluster{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Events:    mgr.GetEventRecorder("tensorstack-jobs"),
		Metrics:   metrics.Registry,
	}, c.Framework, options.Engine)
	if err != nil {
		return err
	}
	if err := reconciler.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	logger.Info("starting", "controller", c.Name, "clusterDomain", options.Engine.ClusterDomain, "image", options.Engine.Image)
	return mgr.Start(ctx)
}

// containerName is the name of the controller's container in its Deployment. Injected sidecars may come before it.
const containerName = "controller"

// ownImage returns the image that this controller runs, as its pod names it. It is looked up rather than written into the
// manifest a second time, where tools that rewrite images would miss it.
func ownImage(ctx context.Context, reader client.Reader) (string, error) {
	key := client.ObjectKey{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME")}
	if key.Namespace == "" || key.Name == "" {
		return "", errors.New("$POD_NAMESPACE and $POD_NAME are not set")
	}
	var pod corev1.Pod
	if err := reader.Get(ctx, key, &pod); err != nil {
		return "", err
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == containerName {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("pod %s has no container named %q", key, containerName)
}

// cacheOptions keep the cache to what belongs to jobs of the kind, and of that to what the engine reads.
func cacheOptions(kind, namespace string) cache.Options {
	ours := labels.SelectorFromSet(labels.Set{batchv1beta1.LabelJobKind: kind})
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:     {Label: ours, Transform: stripPod},
			&corev1.Service{}: {Label: ours, Transform: stripService},
		},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return options
}

// stripPod keeps of a pod what the engine reads.
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
