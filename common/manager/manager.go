// Package manager is the shell of every controller: flags, logs, metrics, health probes, leader election and a cache
// that holds no more than the controller's own objects.
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
)

// Program is a controller of any kind, in the shell.
type Program struct {
	// Name of the controller, which its leader Lease is named after too.
	Name string
	// Short says in a line what the controller does.
	Short string
	// AddToScheme registers the API types of its objects.
	AddToScheme func(*runtime.Scheme) error
	// Flags adds the flags that it has besides those of Options; nil for none.
	Flags func(*pflag.FlagSet)
	// Cache returns which objects the cache keeps, and what of them. Strip makes the transforms.
	Cache func(*runtime.Scheme) (cache.Options, error)
	// Setup registers its reconcilers. The options are complete.
	Setup func(ctx context.Context, mgr ctrl.Manager, options Options) error
	// Commands are what its image can do besides.
	Commands []*cobra.Command
}

// Options are the settings that all controllers have, each with a flag of its own.
type Options struct {
	MetricsBindAddress string
	// MetricsSecure serves the metrics over TLS, and only to those whose bearer token the API server knows and whose user
	// has the right to get /metrics.
	MetricsSecure bool
	// MetricsCertDir is a folder with the certificate of secure metrics, tls.crt and tls.key. Empty means one that is
	// self-signed.
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
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local. Run finds it out if it is empty.
	ClusterDomain string
	// PodNamespace is the namespace that the controller itself runs in: $POD_NAMESPACE, unless it is set.
	PodNamespace string
	// Image of the controller, which pods of its objects run too. Run finds it out if it is empty.
	Image string
}

// DefaultOptions returns the settings that fit a busy cluster. Those of the leader election are Kubernetes' own, but
// for the period: a candidate waits for up to 2.2 of them from one look at the Lease to the next, and after a crash
// every job waits for up to two looks: one is late to see the last renewal, from which the candidate counts, and one to
// see that the Lease is free.
func DefaultOptions() Options {
	return Options{
		MetricsBindAddress: ":8080", HealthProbeBindAddress: ":8081", PprofBindAddress: "0",
		LeaderElect: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: 600 * time.Millisecond,
		QPS:         500, Burst: 1000,
	}
}

// Main runs the program until it is told to stop. It ends the process: with status 1 if the program failed.
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
		Version:       ownBuild().String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := withoutQuotes(zap.New(zap.UseFlagOptions(&logging)))
			ctrl.SetLogger(logger)
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			return Run(cmd.Context(), p, config, options, logger)
		},
	}
	flags := cmd.Flags()
	// cobra's own has the name of the program in its usage
	flags.Bool("version", false, "print the version, and what it is built from")
	flags.StringVar(&options.MetricsBindAddress, "metrics-bind-address", options.MetricsBindAddress,
		"address of the Prometheus metrics; 0 turns them off")
	flags.BoolVar(&options.MetricsSecure, "metrics-secure", options.MetricsSecure,
		"serve the metrics over TLS, and only to those who send a bearer token of a user or ServiceAccount with the right "+
			"to get the nonResourceURL /metrics. The controller needs the rights of its component securemetrics")
	flags.StringVar(&options.MetricsCertDir, "metrics-cert-dir", options.MetricsCertDir,
		"folder with the certificate of the metrics for --metrics-secure, tls.crt and tls.key, which is read again when "+
			"it changes (default: one that the controller signs itself, and that nobody can verify)")
	flags.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", options.HealthProbeBindAddress,
		"address of /healthz and /readyz; 0 turns them off")
	flags.StringVar(
		&options.PprofBindAddress,
		"pprof-bind-address",
		options.PprofBindAddress,
		"address of /debug/pprof, the profiles of this program, for whoever reaches it, such as 127.0.0.1:6060; 0 turns it off",
	)
	flags.BoolVar(&options.LeaderElect, "leader-elect", options.LeaderElect,
		"take part in a leader election, so that of several copies one works")
	flags.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", options.LeaderElectionNamespace,
		"namespace of the leader Lease (default: the controller's own)")
	flags.DurationVar(&options.LeaseDuration, "leader-elect-lease-duration", options.LeaseDuration,
		"time after which the Lease of a leader that no longer renews it is free")
	flags.DurationVar(&options.RenewDeadline, "leader-elect-renew-deadline", options.RenewDeadline,
		"time after which a leader that cannot renew its Lease ends; less than the duration of the Lease")
	flags.DurationVar(
		&options.RetryPeriod,
		"leader-elect-retry-period",
		options.RetryPeriod,
		"time between two renewals of the leader, and between two looks of others whether the Lease is free, up to 2.2 times as long",
	)
	flags.StringVar(&options.Namespace, "namespace", options.Namespace, "the one namespace to work in (default: all)")
	flags.Float32Var(&options.QPS, "kube-api-qps", options.QPS, "requests a second to the API server, on average")
	flags.IntVar(&options.Burst, "kube-api-burst", options.Burst, "requests to the API server at once")
	flags.StringVar(&options.ClusterDomain, "cluster-domain", options.ClusterDomain,
		"DNS domain of the cluster (default: from /etc/resolv.conf, else "+defaultClusterDomain+")")
	flags.StringVar(
		&options.Image,
		"image",
		options.Image,
		"image of this controller, which pods of its objects run too (default: that of the pod named by $POD_NAMESPACE and $POD_NAME)",
	)
	if p.Flags != nil {
		p.Flags(flags)
	}
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	logging.BindFlags(goFlags)
	usages := map[string]string{
		"zap-devel":            "log for developers: to be read by people, with debug messages, and with stack traces of warnings",
		"zap-encoder":          "how lines of the log are written: json or console (default: json, with --zap-devel console)",
		"zap-log-level":        "what is logged: debug, info, error or panic, or a number greater than 0 for so much more than info (default: info, with --zap-devel debug)",
		"zap-stacktrace-level": "from which level on lines have a stack trace: info, error or panic (default: error, with --zap-devel warnings too)",
		"zap-time-encoding":    "how lines give the time: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano (default: rfc3339)",
	}
	for name, usage := range usages { // in the words of the other flags, and with the defaults that hold
		goFlags.Lookup(name).Usage = usage
	}
	flags.AddGoFlagSet(goFlags)
	if kubeconfig := flag.CommandLine.Lookup("kubeconfig"); kubeconfig != nil {
		kubeconfig.Usage = "file that says how to reach the cluster (default: $KUBECONFIG, else the account of the pod, else ~/.kube/config)"
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
	cached, err := p.Cache(scheme)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.DisableCompression = true // the network to the API server costs less than the time of both
	rest.AddUserAgent(config, p.Name)
	electionConfig := rest.CopyConfig(config) // its requests must not wait for those of namespaces
	electionConfig.QPS, electionConfig.Burst = options.QPS, options.Burst
	reviewConfig := rest.CopyConfig(config) // nor must those about peers of the metrics, which have a limit of their own
	shareRequests(config, options.QPS, options.Burst)

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Logger: logger,
		Cache:  withNamespace(cached, options.Namespace),
		Client: client.Options{
			Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)},
		},
		// servers has it, and those of probes and profiles
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
	options.PodNamespace = cmp.Or(options.PodNamespace, os.Getenv("POD_NAMESPACE"))
	if options.Image == "" {
		options.Image, err = ownImage(ctx, mgr.GetAPIReader(), options.PodNamespace)
		if err != nil {
			return fmt.Errorf("finding the controller's own image, which pods of its objects run too (--image): %w", err)
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
	own := ownBuild()
	if err := registerBuildInfo(metrics.Registry, own); err != nil {
		return err
	}
	logger.Info("starting", "controller", p.Name, "version", own.version, "revision", own.revision, "clusterDomain",
		options.ClusterDomain, "image", options.Image)
	return withBallast(func() error { return mgr.Start(ctx) })
}

// containerName is the name of the controller's container in its Deployment. Injected sidecars may come before it.
const containerName = "controller"

// ownImage returns the image that this controller runs, as its pod names it. It is looked up rather than written into
// the manifest a second time, where tools that rewrite images would miss it.
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

// withNamespace restricts a cache to a namespace, unless that is empty.
func withNamespace(options cache.Options, namespace string) cache.Options {
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return options
}
