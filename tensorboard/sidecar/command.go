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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"tensorstack.dev/jobs/common/listen"
)

// Limits for those who look at TensorBoard. Behind a gateway, all of them have its address.
const (
	// maxViewers is how many connections there may be. A browser has six, and each may ask something of TensorBoard.
	maxViewers = 128
	// maxViewerHeader is the size of the header of a request, in bytes. TensorBoard takes 64 KiB in its first line.
	maxViewerHeader = 128 << 10
	// viewTimeout is how long a request and its answer may take. Meanwhile TensorBoard is not idle.
	viewTimeout = time.Hour
)

// maxProbes is how many connections those may have who ask whether TensorBoard is well: the kubelet and the controller.
const maxProbes = 32

// grace is how long requests that are under way may take after SIGTERM.
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
	flags.StringVar(&o.config, "config", o.config, "file that says what to show, as JSON")
	flags.StringVar(&o.logs, "logs", o.logs, "folder that TensorBoard shows; the sidecar alone writes there")
	flags.StringVar(&o.address, "bind-address", o.address, "address to serve TensorBoard at")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress,
		"address of "+HealthPath+", "+ReadyPath+" and "+StatusPath)
	flags.StringVar(&o.tensorBoard, "tensorboard-address", o.tensorBoard, "address of TensorBoard")
	flags.DurationVar(&o.interval, "fetch-interval", o.interval,
		"time between two looks at S3 and HTTP sources, at least 10s: TensorBoard must notice in between that a file is gone")
	flags.Var(&o.limit, "fetch-limit",
		"space that the logs from S3 and HTTP sources may take together, in bytes, such as 10Gi")
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

// Command returns the command line of the sidecar. It runs until the context that it is executed with ends.
func Command() *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:           "sidecar",
		Short:         "Run in the pod of a TensorBoard: bring the logs together, serve TensorBoard, and know for how long it has been idle",
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

// sidecar is a sidecar that has laid out the runs and listens.
type sidecar struct {
	fetcher        *fetcher
	proxy, health  *http.Server
	proxyListener  net.Listener
	healthListener net.Listener
}

// start does all that can fail at the start.
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
	logger.Printf("serving TensorBoard at %s, and health at %s", s.proxyListener.Addr(), s.healthListener.Addr())
	return s, nil
}

// run serves and fetches until the context ends. Requests under way may then end, and downloads are broken off: they go
// on where they were when a sidecar starts again.
func (s *sidecar) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(s.proxy, s.proxyListener) })
	group.Go(func() error { return serve(s.health, s.healthListener) })
	group.Go(func() error { s.fetcher.run(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		for _, server := range []*http.Server{s.proxy, s.health} {
			if server.Shutdown(ending) != nil {
				_ = server.Close()
			}
		}
		return nil
	})
	return group.Wait()
}

func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
