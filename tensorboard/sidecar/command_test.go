package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/listen/listentest"
)

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write appends data.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// running is a sidecar that runs as in a pod, but with a fake clock.
type running struct {
	*sidecar
	clock *clocktesting.FakeClock
	log   buffer
	stop  func() // ends the sidecar like SIGTERM
	ended chan error
}

func runSidecar(t *testing.T, logs, tensorBoard string, config Config, change ...func(*sidecar)) *running {
	t.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	o := defaults()
	o.logs, o.config = logs, filepath.Join(t.TempDir(), "config.json")
	o.address, o.healthAddress, o.tensorBoard = "127.0.0.1:0", "127.0.0.1:0", strings.TrimPrefix(tensorBoard, "http://")
	if err := os.WriteFile(o.config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &running{clock: clocktesting.NewFakeClock(noon), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	if r.sidecar, err = start(ctx, o, r.clock, log.New(&r.log, "", 0)); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r.sidecar)
	}
	go func() { r.ended <- r.run(ctx) }()
	t.Cleanup(stop)
	return r
}

// round waits until n sources wait for their next fetch, so each of them has been fetched.
func (r *running) round(t *testing.T, n int) {
	t.Helper()
	eventually(t, "all sources are fetched", func() bool { return r.clock.Waiters() == n })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: it never happened that %s", what)
		}
	}
}

func TestTheSidecarFetchesServesAndReportsUntilItIsStopped(t *testing.T) {
	tensorBoard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "TensorBoard at "+r.URL.Path)
	}))
	t.Cleanup(tensorBoard.Close)
	origin := &fileServer{data: "12345"}
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	logs := t.TempDir()
	config := Config{PathPrefix: "/tb/ns/x", Sources: []Source{
		{Run: "linked", Link: "/claims/c"},
		{Run: "fetched", HTTP: &HTTPSource{URL: server.URL + "/a.tfevents?signature=hunter2"}},
		{Run: "bucket", S3: &S3Source{Bucket: "b", Prefix: "runs/", Secret: filepath.Join(t.TempDir(), "keys")}},
	}}
	r := runSidecar(t, logs, tensorBoard.URL, config)
	r.round(t, 2)
	want := map[string]string{"linked": "-> /claims/c", "fetched/a.tfevents": "12345", "bucket": "/"}
	if diff := cmp.Diff(want, tree(t, logs)); diff != "" {
		t.Errorf("unexpected logs (-want +got):\n%s", diff)
	}
	if got := get(t, "http://"+r.healthListener.Addr().String()+ReadyPath, nil); got.code != http.StatusOK {
		t.Errorf("got status %d of the readiness check, want 200", got.code)
	}

	origin.mu.Lock()
	origin.data = "1234567"
	origin.mu.Unlock()
	for range 3 {
		r.clock.Step(30 * time.Second)
		r.round(t, 2)
	}
	want["fetched/a.tfevents"] = "1234567"
	if diff := cmp.Diff(want, tree(t, logs)); diff != "" {
		t.Errorf("unexpected logs after the file has grown (-want +got):\n%s", diff)
	}
	status, err := Fetch(t.Context(), http.DefaultClient, r.healthListener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	missing := "the Secret keys is missing, or has neither .s3cfg " +
		"nor AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL"
	wantStatus := Status{IdleSeconds: 90, Sources: []SourceStatus{{Run: "bucket", Source: "s3://b/runs/", Error: missing}}}
	if diff := cmp.Diff(wantStatus, status); diff != "" {
		t.Errorf("unexpected status (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff(answer{200, "", "TensorBoard at /tb/ns/x/data/runs"},
		get(t, "http://"+r.proxyListener.Addr().String()+"/tb/ns/x/data/runs",
			nil), cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("unexpected answer (-want +got):\n%s", diff)
	}

	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("the sidecar ended with the error %v", err)
	}
	if got := r.log.String(); strings.Contains(got, "hunter2") || strings.Count(got, missing) != 1 {
		t.Errorf("got log:\n%s\nwant the error once, and no secret", got)
	}
}

func TestANewSidecarResumesAnAbortedDownload(t *testing.T) {
	half := make(chan struct{})
	origin := &fileServer{answers: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "12345")
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-r.Context().Done()
	}}
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	logs := t.TempDir()
	config := Config{Sources: []Source{{Run: "fetched", HTTP: &HTTPSource{URL: server.URL + "/a.tfevents"}}}}

	r := runSidecar(t, logs, "127.0.0.1:1", config)
	<-half
	written := func() bool {
		data, _ := os.ReadFile(filepath.Join(logs, "fetched/a.tfevents"))
		return string(data) == "12345"
	}
	eventually(t, "the received data is written", written)
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("the sidecar ended with the error %v", err)
	}
	if got := r.fetcher.troubles.list(); got != nil {
		t.Errorf("the end of the sidecar is reported as an error of the source: %v", got)
	}

	origin.mu.Lock()
	origin.answers, origin.data, origin.requests = nil, "1234567890", nil
	origin.mu.Unlock()
	r = runSidecar(t, logs, "127.0.0.1:1", config)
	r.round(t, 1)
	if diff := cmp.Diff(map[string]string{"fetched/a.tfevents": "1234567890"}, tree(t, logs)); diff != "" {
		t.Errorf("unexpected logs (-want +got):\n%s", diff)
	}
}

func TestASourceThatHangsDoesNotDelayOthers(t *testing.T) {
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hanging.Close)
	server := httptest.NewServer(&fileServer{data: "12345"})
	t.Cleanup(server.Close)
	logs := t.TempDir()
	r := runSidecar(t, logs, "127.0.0.1:1", Config{Sources: []Source{
		{Run: "hanging", HTTP: &HTTPSource{URL: hanging.URL + "/a.tfevents"}},
		{Run: "fetched", HTTP: &HTTPSource{URL: server.URL + "/a.tfevents"}},
	}})
	r.round(t, 1)
	if diff := cmp.Diff(map[string]string{"hanging": "/", "fetched/a.tfevents": "12345"}, tree(t, logs)); diff != "" {
		t.Errorf("unexpected logs (-want +got):\n%s", diff)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("the sidecar ended with the error %v", err)
	}
}

func TestTheProxyWorksAgainAfterARestartOfTensorBoard(t *testing.T) {
	tensorBoard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		_, _ = io.WriteString(w, "first")
	}))
	r := runSidecar(t, t.TempDir(), tensorBoard.URL, Config{})
	page := "http://" + r.proxyListener.Addr().String() + "/"
	if got := get(t, page, nil); got.body != "first" {
		t.Fatalf("got %+v", got)
	}
	address := tensorBoard.Listener.Addr().String()
	tensorBoard.Close()
	if got := get(t, page, nil); got.code != http.StatusBadGateway {
		t.Errorf("got %+v while TensorBoard does not run", got)
	}
	again := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		_, _ = io.WriteString(w, "second")
	}))
	_ = again.Listener.Close()
	again.Listener = listenAt(t, address)
	again.Start()
	t.Cleanup(again.Close)
	if got := get(t, page, nil); got.body != "second" {
		t.Errorf("got %+v", got)
	}
}

func TestTheSidecarRespondsWhilePeersKeepConnectionsOpen(t *testing.T) {
	tensorBoard := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(tensorBoard.Close)
	proxy := func(r *running) net.Listener { return r.proxyListener }
	health := func(r *running) net.Listener { return r.healthListener }
	for name, tc := range map[string]struct {
		listener    func(*running) net.Listener
		kept, limit int
	}{
		"users of TensorBoard get a response": {proxy, maxViewers, maxViewerHeader},
		"the kubelet gets a response":         {health, maxProbes, listen.MaxHeader},
	} {
		t.Run(name, func(t *testing.T) {
			r := runSidecar(t, t.TempDir(), tensorBoard.URL, Config{}, func(s *sidecar) { // connections do not time out
				s.proxy.ReadHeaderTimeout, s.health.ReadTimeout = time.Hour, time.Hour
			})
			address := tc.listener(r).Addr().String()
			listentest.Crowd(t, address, tc.kept)
			ask := func(request string) int {
				return listentest.Ask(t, listentest.Dial(t, "127.0.77.1", address), request)
			}
			if got := ask(listentest.Get(ReadyPath)); got != http.StatusOK {
				t.Errorf("got status %d, want 200", got)
			}
			if got := ask(listentest.Large(tc.limit)); got != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("got status %d for a large header, want 431", got)
			}
		})
	}
}

func TestRequestsToTheSidecarHaveTimeLimits(t *testing.T) {
	r := runSidecar(t, t.TempDir(), "127.0.0.1:1", Config{})
	for name, server := range map[string]*http.Server{"proxy": r.proxy, "health": r.health} {
		for what, limit := range map[string]time.Duration{
			"for a request": server.ReadTimeout, "for a response": server.WriteTimeout,
			"between two requests": server.IdleTimeout,
		} {
			if limit <= 0 {
				t.Errorf("%s: the time %s has no limit", name, what)
			}
		}
	}
}

// listenAt listens at an address that was in use before.
func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestTheCommandRefusesInvalidArguments(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "config.json")
	put(t, filepath.Dir(empty), map[string]string{"config.json": `{}`})
	tests := map[string]struct {
		args []string
		want string
	}{
		"an argument is refused": {[]string{"x"}, `unknown command "x"`},
		"a missing configuration is an error": {
			[]string{"--config=/no/such/file"}, "reading the configuration: open /no/such/file",
		},
		"a missing folder of logs is an error": {
			[]string{"--config=" + empty, "--logs=/no/such/folder"}, "the folder of logs must exist",
		},
		"an interval that is too short is refused": {
			[]string{"--fetch-interval=1s"}, "--fetch-interval must be at least 10s, got 1s",
		},
		"a negative limit is refused": {
			[]string{"--fetch-limit=-1"}, "--fetch-limit must not be negative, got -1",
		},
		"an invalid limit is refused": {[]string{"--fetch-limit=lots"}, "fetch-limit"},
		"an invalid address is an error": {
			[]string{"--config=" + empty, "--logs=" + t.TempDir(), "--bind-address=nowhere"}, "missing port in address",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := Command()
			cmd.SetArgs(tc.args)
			cmd.SetErr(io.Discard)
			wantError(t, cmd.ExecuteContext(t.Context()), tc.want)
		})
	}
}
