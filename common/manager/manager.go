// Package manager runs the controllers of this project. It provides their flags, logs, metrics, health probes and
// leader election, and a cache that contains only the objects and fields that the controller reads.
package manager

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"tensorstack.dev/jobs/common/version"
)

// Program describes a controller that Main can run.
type Program struct {
	// Name is the name of the controller and of its leader election Lease.
	Name string
	// Short is a short description of the controller for the help text.
	Short string
	// AddToScheme registers the API types of the objects that the controller uses.
	AddToScheme func(*runtime.Scheme) error
	// Flags adds the flags of the program that are not flags of Options. Nil means none.
	Flags func(*pflag.FlagSet)
	// Cache returns the options of the cache, which determine the cached objects and the cached fields. The function
	// Strip creates the transforms. The fields ClusterDomain and Image of options can still be empty, because Run
	// detects them later.
	Cache func(scheme *runtime.Scheme, options Options) (cache.Options, error)
	// Setup registers the reconcilers of the program. When Run calls Setup, the options ClusterDomain and Image are set.
	Setup func(ctx context.Context, mgr ctrl.Manager, options Options) error
	// Commands are the additional commands in the image of the controller.
	Commands []*cobra.Command
}

// Options are the settings that all controllers share. Each has a flag, except PodNamespace.
type Options struct {
	MetricsBindAddress string
	// MetricsSecure enables TLS for the metrics. Clients must send a bearer token that the API server accepts, and the
	// user of the token must have the permission to get /metrics.
	MetricsSecure bool
	// MetricsCertDir is the directory with the certificate of secure metrics, tls.crt and tls.key. Empty means a
	// self-signed certificate.
	MetricsCertDir          string
	HealthProbeBindAddress  string
	PprofBindAddress        string
	LeaderElect             bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	RenewDeadline           time.Duration
	RetryPeriod             time.Duration
	Namespace               string
	QPS                     float32
	Burst                   int
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local. If it is empty, Run detects it.
	ClusterDomain string
	// PodNamespace is the namespace of the controller's own pod. If it is empty, Run sets it to $POD_NAMESPACE.
	PodNamespace string
	// Image is the image of the controller. Pods that the controller creates also run this image. If it is empty, Run
	// detects it.
	Image string
}

// DefaultOptions returns settings for a busy cluster. The leader election has the defaults of Kubernetes, except for
// a shorter retry period. A candidate checks the Lease at intervals of up to 2.2 retry periods. After a crash of the
// leader, the election can take the duration of the Lease and two such intervals. During the first interval, the
// candidate has not yet seen the last renewal, from which it measures the duration. The second interval is the time
// after the duration until the candidate checks the Lease again.
func DefaultOptions() Options {
	return Options{
		MetricsBindAddress: ":8080", HealthProbeBindAddress: ":8081", PprofBindAddress: "0",
		LeaderElect: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: 600 * time.Millisecond,
		QPS:         500, Burst: 1000,
	}
}

// Main runs the program until it receives SIGINT or SIGTERM. If the program fails, Main exits with status 1.
func Main(p Program) {
	if err := Command(p).ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// Command returns the command line of a program.
func Command(p Program) *cobra.Command {
	options := DefaultOptions()
	logging := zap.Options{}
	cmd := &cobra.Command{
		Use:           p.Name,
		Short:         p.Short,
		Version:       version.Own().String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := withoutQuotes(zap.New(zap.UseFlagOptions(&logging)))
			ctrl.SetLogger(logger)
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("loading the client configuration: %w", err)
			}
			return Run(cmd.Context(), p, config, options, logger)
		},
	}
	flags := cmd.Flags()
	// Define this flag here, so that its usage is the same for all programs. The usage of cobra's own flag contains the
	// name of the program.
	flags.Bool("version", false, "print the version, the revision and the Go version of the build")
	flags.StringVar(&options.MetricsBindAddress, "metrics-bind-address", options.MetricsBindAddress,
		"address of the Prometheus metrics; 0 disables them")
	flags.BoolVar(&options.MetricsSecure, "metrics-secure", options.MetricsSecure,
		"serve the metrics over TLS, only to clients with a bearer token of a user or ServiceAccount that is authorized to "+
			"get the nonResourceURL /metrics. The controller needs the permissions of its component securemetrics")
	flags.StringVar(&options.MetricsCertDir, "metrics-cert-dir", options.MetricsCertDir,
		"directory with tls.crt and tls.key for --metrics-secure, which are reloaded when they change "+
			"(default: a self-signed certificate, which clients cannot verify)")
	flags.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", options.HealthProbeBindAddress,
		"address of /healthz and /readyz; 0 disables them")
	flags.StringVar(&options.PprofBindAddress, "pprof-bind-address", options.PprofBindAddress,
		"address of /debug/pprof, such as 127.0.0.1:6060; 0 disables it. It serves profiles to anyone who can reach it")
	flags.BoolVar(&options.LeaderElect, "leader-elect", options.LeaderElect,
		"elect a leader, so that only one of several instances of the controller is active")
	flags.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", options.LeaderElectionNamespace,
		"namespace of the leader election Lease (default: the controller's own)")
	flags.DurationVar(&options.LeaseDuration, "leader-elect-lease-duration", options.LeaseDuration,
		"time after which other instances can acquire a Lease that its leader no longer renews")
	flags.DurationVar(&options.RenewDeadline, "leader-elect-renew-deadline", options.RenewDeadline,
		"time after which a leader that cannot renew its Lease exits; must be less than the lease duration")
	flags.DurationVar(&options.RetryPeriod, "leader-elect-retry-period", options.RetryPeriod,
		"interval at which the leader renews its Lease. Other instances check it at intervals of up to 2.2 times that")
	flags.StringVar(&options.Namespace, "namespace", options.Namespace, "the only namespace to work in (default: all)")
	flags.Float32Var(&options.QPS, "kube-api-qps", options.QPS, "average number of requests to the API server per second")
	flags.IntVar(&options.Burst, "kube-api-burst", options.Burst, "maximum burst of requests to the API server")
	flags.StringVar(&options.ClusterDomain, "cluster-domain", options.ClusterDomain,
		"DNS domain of the cluster (default: from /etc/resolv.conf, otherwise "+defaultClusterDomain+")")
	flags.StringVar(&options.Image, "image", options.Image,
		"image of this controller, which pods of its objects also run "+
			"(default: the image of the pod that $POD_NAMESPACE and $POD_NAME identify)")
	if p.Flags != nil {
		p.Flags(flags)
	}
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	logging.BindFlags(goFlags)
	usages := map[string]string{
		"zap-devel":   "development mode: human-readable logs with debug messages and with stack traces of warnings",
		"zap-encoder": "log format: json or console (default: json; with --zap-devel, console)",
		"zap-log-level": "lowest level to log: debug, info, error or panic, or a verbosity greater than 0 " +
			"(default: info; with --zap-devel, debug)",
		"zap-stacktrace-level": "lowest level to log with stack traces: info, error or panic " +
			"(default: error; with --zap-devel, also warnings)",
		"zap-time-encoding": "time format: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano (default: rfc3339)",
	}
	for name, usage := range usages { // these usages have the style of the other flags and name the actual defaults
		goFlags.Lookup(name).Usage = usage
	}
	flags.AddGoFlagSet(goFlags)
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		kubeconfig.Usage = "kubeconfig file for access to the cluster " +
			"(default: $KUBECONFIG, otherwise the ServiceAccount of the pod, otherwise ~/.kube/config)"
		flags.AddGoFlag(kubeconfig)
	}
	cmd.AddCommand(p.Commands...)
	return cmd
}

// Run runs the program against a cluster until the context ends. It returns an error if the program cannot start or
// loses its leadership.
func Run(ctx context.Context, p Program, config *rest.Config, options Options, logger logr.Logger) error {
	if err := limitMemory(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), p.AddToScheme(scheme)); err != nil {
		return err
	}
	options.PodNamespace = cmp.Or(options.PodNamespace, os.Getenv("POD_NAMESPACE"))
	cached, err := p.Cache(scheme, options)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.DisableCompression = true // bandwidth to the API server is cheaper than CPU time on both sides
	rest.AddUserAgent(config, p.Name)
	// Requests of the leader election must not wait for the requests that the controller sends for jobs and other
	// objects.
	electionConfig := rest.CopyConfig(config)
	electionConfig.QPS, electionConfig.Burst = options.QPS, options.Burst
	// Reviews of the tokens of metrics clients have a limit of their own, so that they do not wait for requests for jobs
	// and other objects.
	reviewConfig := rest.CopyConfig(config)
	shareRequests(config, options.QPS, options.Burst)

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Logger: logger,
		Cache:  withNamespace(cached, options.Namespace),
		Client: client.Options{
			Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)},
		},
		// The manager must not start a metrics server: the function servers creates the servers of metrics, health probes
		// and profiles.
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                options.LeaderElect,
		LeaderElectionConfig:          electionConfig,
		LeaderElectionID:              p.Name,
		LeaderElectionNamespace:       options.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &options.LeaseDuration,
		RenewDeadline:                 &options.RenewDeadline,
		RetryPeriod:                   &options.RetryPeriod,
	})
	if err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if options.ClusterDomain == "" {
		options.ClusterDomain = clusterDomain("/etc/resolv.conf")
	}
	if options.Image == "" {
		options.Image, err = ownImage(ctx, mgr.GetAPIReader(), options.PodNamespace)
		if err != nil {
			return fmt.Errorf("detecting the image of this controller (set --image to skip the detection): %w", err)
		}
	}
	secure, err := newSecurity(reviewConfig, options, logger)
	if err != nil {
		return err
	}
	if secure != nil && secure.watcher != nil {
		if err := mgr.Add(secure.watcher); err != nil {
			return err
		}
	}
	servers, err := servers(ctx, options, secure)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := mgr.Add(s); err != nil {
			return err
		}
	}
	if err := p.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	own := version.Own()
	if err := registerBuildInfo(metrics.Registry, own); err != nil {
		return err
	}
	logger.Info("starting", "controller", p.Name, "version", own.Version, "revision", own.Revision, "clusterDomain",
		options.ClusterDomain, "image", options.Image)
	return withBallast(func() error { return mgr.Start(ctx) })
}

// containerName is the name of the controller's container in its Deployment. This container is not always the first
// one of the pod, because sidecars can be injected.
const containerName = "controller"

// ownImage returns the image of this controller from its own pod. The manifest does not repeat the image, for example
// in a flag, because tools that rewrite the images of a manifest do not change the image in a flag.
func ownImage(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: os.Getenv("POD_NAME")}
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

// withNamespace restricts a cache to a namespace. An empty namespace means no restriction.
func withNamespace(options cache.Options, namespace string) cache.Options {
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return options
}
