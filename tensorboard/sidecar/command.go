package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"tensorstack.dev/jobs/common/listen"
)

// Limits for the users of TensorBoard. They must be enough for all users together, because all users behind a gateway
// have the same IP address.
const (
	// maxViewers is the maximum number of connections. A browser opens up to six, and each can have a pending request.
	maxViewers = 128
	// maxViewerHeader is the maximum size, in bytes, of the header of a request. TensorBoard accepts request lines of up
	// to 64 KiB.
	maxViewerHeader = 128 << 10
	// viewTimeout is the time limit for a request and its response. TensorBoard is not idle while a request is in
	// progress.
	viewTimeout = time.Hour
)

// maxProbes is the maximum number of connections for probes by the kubelet and the controller.
const maxProbes = 32

// grace is the time limit for pending requests after SIGTERM.
const grace = 10 * time.Second

// options are the flags of the sidecar.
type options struct {
	config        string
	logs          string
	address       string
	healthAddress string
	tensorBoard   string
	interval      time.Duration
	limit         resource.QuantityValue
}

func defaults() options {
	return options{
		config: ConfigFile, logs: LogsFolder,
		address: ":" + strconv.Itoa(Port), healthAddress: ":" + strconv.Itoa(HealthPort),
		tensorBoard: net.JoinHostPort("127.0.0.1", strconv.Itoa(TensorBoardPort)),
		interval:    30 * time.Second, limit: resource.QuantityValue{Quantity: resource.MustParse("10Gi")},
	}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.config, "config", o.config,
		"JSON file with the sources of the logs and the path prefix of TensorBoard")
	flags.StringVar(&o.logs, "logs", o.logs, "folder of logs that TensorBoard shows; only the sidecar writes to it")
	flags.StringVar(&o.address, "bind-address", o.address, "address at which the sidecar serves TensorBoard")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress,
		"address of "+HealthPath+", "+ReadyPath+" and "+StatusPath)
	flags.StringVar(&o.tensorBoard, "tensorboard-address", o.tensorBoard, "address of TensorBoard")
	flags.DurationVar(&o.interval, "fetch-interval", o.interval,
		"time between two fetches from S3 and HTTP sources, at least 10s, so that TensorBoard notices in between when a "+
			"file is removed")
	flags.Var(&o.limit, "fetch-limit",
		"maximum total size of the logs from S3 and HTTP sources, in bytes, for example 10Gi")
}

func (o *options) validate() error {
	switch {
	case o.interval < 10*time.Second:
		return fmt.Errorf("--fetch-interval must be at least 10s, got %s", o.interval)
	case o.limit.Value() < 0:
		return fmt.Errorf("--fetch-limit must not be negative, got %s", o.limit.String())
	}
	return nil
}

// Command returns the command that runs the sidecar. The command ends when its context ends.
func Command() *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:           "sidecar",
		Short:         "Runs in the pod of a TensorBoard: collects logs, forwards requests and reports the idle time",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			s, err := start(cmd.Context(), o, clock.RealClock{},
				log.New(cmd.ErrOrStderr(), "sidecar: ", log.LstdFlags|log.Lmsgprefix))
			if err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// sidecar is a sidecar that has created the folders of the runs and listens on its ports.
type sidecar struct {
	fetcher        *fetcher
	proxy, health  *http.Server
	proxyListener  net.Listener
	healthListener net.Listener
}

// start reads the configuration, creates the folders of the runs and listens. It does not serve requests yet.
func start(ctx context.Context, o options, c clock.Clock, logger *log.Logger) (*sidecar, error) {
	config, err := ReadConfig(o.config)
	if err != nil {
		return nil, err
	}
	logs, err := layOut(o.logs, config.Sources)
	if err != nil {
		return nil, err
	}
	t := newTroubles(config.Sources)
	f, err := newFetcher(logs, config.Sources, o.limit.Value(), newTransport(stalled))
	if err != nil {
		return nil, err
	}
	f.clock, f.interval, f.troubles, f.log = c, o.interval, t, logger
	a := newActivity(c)
	s := &sidecar{
		fetcher: f,
		proxy:   listen.NewServer(newProxy(o.tensorBoard, config.PathPrefix, a, logger)),
		health:  listen.NewServer(newHealth(o.tensorBoard, config.PathPrefix, a, t)),
	}
	s.proxy.MaxHeaderBytes, s.proxy.ReadHeaderTimeout = maxViewerHeader, listen.Timeout
	s.proxy.ReadTimeout, s.proxy.WriteTimeout = viewTimeout, viewTimeout
	s.proxy.ErrorLog, s.health.ErrorLog = logger, logger
	if s.proxyListener, err = listen.TCP(ctx, o.address, maxViewers); err != nil {
		return nil, err
	}
	if s.healthListener, err = listen.TCP(ctx, o.healthAddress, maxProbes); err != nil {
		return nil, errors.Join(err, s.proxyListener.Close())
	}
	logger.Printf("serving TensorBoard at %s and health checks at %s", s.proxyListener.Addr(), s.healthListener.Addr())
	return s, nil
}

// run serves requests and fetches logs until the context ends. Then it waits for pending requests and aborts
// downloads. After a restart, the sidecar resumes the downloads of event files.
func (s *sidecar) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(logr.NewContext(ctx, logr.Discard()))
	for _, server := range []manager.Server{
		{Server: s.proxy, Listener: s.proxyListener}, {Server: s.health, Listener: s.healthListener},
	} {
		server.ShutdownTimeout = new(grace)
		group.Go(func() error { return server.Start(ctx) })
	}
	group.Go(func() error { s.fetcher.run(ctx); return nil })
	err := group.Wait()
	return errors.Join(err, s.proxy.Close(), s.health.Close()) // ends what is still pending after the grace period
}
