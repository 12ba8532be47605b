package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"tensorstack.dev/jobs/common/listen"
)

const (
	// metricsServer is the name of the metrics server.
	metricsServer = "metrics"
	// maxConnections is the maximum number of connections of each server. The kubelet and Prometheus use one or two.
	maxConnections = 32
	// maxProfileBody is the maximum size of the body of a request for profiles, in bytes. The body contains the
	// addresses whose symbols the client requests.
	maxProfileBody = 1 << 20
)

// servers returns the servers of metrics, of health probes and of profiles, except servers without an address. The
// servers already listen. If secure is nil, the metrics are not secure.
//
// The servers of controller-runtime are not used. They have no limit of connections, and they need 20 MiB for a
// header of 1 MiB. If a client has sent half a request, they delay the release of the Lease by 30 s after SIGTERM.
func servers(ctx context.Context, options Options, secure *security) ([]*ctrlmanager.Server, error) {
	profiles := listen.NewServer(profiles())
	// A ReadTimeout would end the context of a request, but a profile can take longer. The handlers of profiles extend
	// the WriteTimeout themselves.
	profiles.ReadHeaderTimeout, profiles.ReadTimeout = profiles.ReadTimeout, 0
	metricsAddress := cmp.Or(options.MetricsBindAddress, metricsserver.DefaultBindAddress)
	scraped := scrapes(metrics.Registry)
	if secure != nil {
		scraped = secure.filter.Protect(scraped)
	}
	var all []*ctrlmanager.Server
	for _, s := range []struct {
		name, flag, address string
		server              *http.Server
	}{
		{metricsServer, "metrics-bind-address", metricsAddress, listen.NewServer(scraped)},
		{"health probe", "health-probe-bind-address", options.HealthProbeBindAddress, listen.NewServer(probes())},
		{"pprof", "pprof-bind-address", options.PprofBindAddress, profiles},
	} {
		if s.address == "" || s.address == "0" {
			continue
		}
		listener, err := listen.TCP(ctx, s.address, maxConnections)
		if err != nil {
			return nil, fmt.Errorf("listening (--%s): %w", s.flag, err)
		}
		if s.name == metricsServer && secure != nil {
			listener, s.server.ErrorLog = tls.NewListener(listener, secure.tls), secure.errorLog()
		}
		all = append(all, &ctrlmanager.Server{
			Name: s.name, Server: s.server, Listener: listener, ShutdownTimeout: ptr.To(listen.ShutdownTimeout),
		})
	}
	return all, nil
}

// scrapes serves /metrics.
func scrapes(registry prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	mux.Handle(metricsPath, inTurn(promhttp.HandlerFor(registry, options)))
	return mux
}

// inTurn handles requests one at a time, so that clients that send requests all the time use at most one CPU. The
// response is buffered, so that a client that reads it slowly does not delay other requests.
func inTurn(handler http.Handler) http.Handler {
	turn := make(chan struct{}, 1)
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			handler.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}), listen.Timeout, "too many concurrent requests")
}

// probes serves /healthz and /readyz, and each of their checks at a subpath, as controller-runtime does.
func probes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		checks := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}})
		mux.Handle(path, checks)
		mux.Handle(path+"/", checks)
	}
	return mux
}

// profiles serves /debug/pprof, as controller-runtime does.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.MaxBytesHandler(mux, maxProfileBody)
}
