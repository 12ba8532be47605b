package manager

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/listen/listentest"
)

// listening returns the servers of a controller, each listening at a separate port.
func listening(t *testing.T) []*ctrlmanager.Server {
	t.Helper()
	options, address := DefaultOptions(), "127.0.0.1:0"
	options.MetricsBindAddress, options.HealthProbeBindAddress, options.PprofBindAddress = address, address, address
	all, err := servers(t.Context(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// startServers starts the servers of a controller, which run until the test ends, and returns them by name.
func startServers(t *testing.T) map[string]*ctrlmanager.Server {
	t.Helper()
	started := map[string]*ctrlmanager.Server{}
	for _, s := range listening(t) {
		started[s.Name] = s
		go func() { _ = s.Server.Serve(s.Listener) }()
		t.Cleanup(func() { _ = s.Server.Close() })
	}
	return started
}

// ask sends a request and returns the status code of the response.
func ask(t *testing.T, s *ctrlmanager.Server, request string) int {
	t.Helper()
	return listentest.Ask(t, listentest.Dial(t, "127.0.77.1", s.Listener.Addr().String()), request)
}

func TestEachServerHasItsPaths(t *testing.T) {
	t.Parallel()
	want := map[string]map[string]int{
		"metrics":      {"/metrics": 200, "/": 404},
		"health probe": {"/healthz": 200, "/healthz/ping": 200, "/readyz": 200, "/readyz/ping": 200, "/readyz/x": 404},
		"pprof":        {"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/debug/pprof/cmdline": 200, "/": 404},
	}
	got := map[string]map[string]int{}
	for name, s := range startServers(t) {
		got[name] = map[string]int{}
		for path := range want[name] {
			got[name][path] = ask(t, s, listentest.Get(path))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected status codes (-want +got):\n%s", diff)
	}
}

// Any pod in the cluster can reach the servers. A client that opens many connections without sending requests must not
// exhaust the memory of a controller or lock out the kubelet and Prometheus.
func TestEachServerIsAvailableWhileClientsHoldConnections(t *testing.T) {
	t.Parallel()
	paths := map[string]string{"metrics": "/metrics", "health probe": "/healthz", "pprof": "/debug/pprof/"}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServers(t)[name]
			s.Server.ReadTimeout, s.Server.ReadHeaderTimeout = time.Hour, time.Hour // no connection times out
			listentest.Crowd(t, s.Listener.Addr().String(), maxConnections)
			if got := ask(t, s, listentest.Get(path)); got != http.StatusOK {
				t.Errorf("got status %d for %s, want %d", got, path, http.StatusOK)
			}
		})
	}
}

func TestNoServerAcceptsALargeHeader(t *testing.T) {
	t.Parallel()
	for name, s := range startServers(t) {
		if got := ask(t, s, listentest.Large(listen.MaxHeader)); got != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: got status %d, want %d", name, got, http.StatusRequestHeaderFieldsTooLarge)
		}
	}
}

// The manager releases the Lease only after its servers have ended. So a server that ends late delays the next
// leader.
func TestNoServerDelaysItsShutdownForAClientThatHasSentHalfARequest(t *testing.T) {
	t.Parallel()
	const half = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"
	for _, s := range listening(t) {
		s.Server.ReadTimeout, s.Server.ReadHeaderTimeout = time.Hour, time.Hour
		*s.ShutdownTimeout = time.Millisecond
		active := make(chan struct{})
		s.Server.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateActive {
				close(active)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Start(ctx) }()
		_, _ = io.WriteString(listentest.Dial(t, "127.0.77.1", s.Listener.Addr().String()), half)
		<-active
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: the error is %v, want nil", s.Name, err)
		}
	}
}

func TestDisabledServersDoNotListen(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	options.MetricsBindAddress, options.HealthProbeBindAddress, options.PprofBindAddress = "0", "0", ""
	all, err := servers(t.Context(), options, nil)
	if len(all) > 0 || err != nil {
		t.Errorf("there are %d servers with the error %v, want none", len(all), err)
	}
}

func TestTheErrorAboutAnAddressInUseNamesTheFlag(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	options.MetricsBindAddress = startServers(t)["metrics"].Listener.Addr().String()
	_, err := servers(t.Context(), options, nil)
	if err == nil || !strings.Contains(err.Error(), "--metrics-bind-address") {
		t.Errorf("the error is %v, want one that names the flag", err)
	}
}

// stuck is a client that does not read its response until the channel end is closed.
type stuck struct {
	http.ResponseWriter
	end <-chan struct{}
}

func (s stuck) Write([]byte) (int, error) {
	<-s.end
	return 0, io.ErrClosedPipe
}

func TestScrapesTakeTurns(t *testing.T) {
	t.Parallel()
	const peers = 8
	synctest.Test(t, func(t *testing.T) {
		scrape := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		var begun, answered atomic.Int32
		goOn := make(chan struct{})
		handler := inTurn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begun.Add(1)
			<-goOn
			_, _ = io.WriteString(w, "metrics")
		}))
		gone, leave := context.WithCancel(t.Context())
		for range peers {
			go handler.ServeHTTP(httptest.NewRecorder(), scrape.WithContext(gone))
			synctest.Wait()
		}
		if got := begun.Load(); got != 1 {
			t.Fatalf("%d scrapes run concurrently, want 1", got)
		}
		leave()
		goOn <- struct{}{}
		synctest.Wait()
		if got := begun.Load(); got != 1 {
			t.Errorf("%d scrapes ran for clients that have disconnected, want 0", got-1)
		}
		go handler.ServeHTTP(stuck{httptest.NewRecorder(), t.Context().Done()}, scrape)
		goOn <- struct{}{}
		for range peers {
			go func() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, scrape)
				if recorder.Body.String() == "metrics" {
					answered.Add(1)
				}
			}()
			goOn <- struct{}{}
		}
		synctest.Wait()
		if got := answered.Load(); got != peers {
			t.Errorf("%d of %d clients got a response after a client that does not read its response", got, peers)
		}
	})
}
