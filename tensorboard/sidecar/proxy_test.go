package sidecar

import (
	"bufio"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// behind returns a server with the proxy for a TensorBoard, and the activity and clock of the proxy.
func behind(
	t *testing.T, tensorBoard http.HandlerFunc, prefix string,
) (*httptest.Server, *activity, *clocktesting.FakeClock) {
	t.Helper()
	backend := httptest.NewServer(tensorBoard)
	t.Cleanup(backend.Close)
	fake := clocktesting.NewFakeClock(noon)
	a := newActivity(fake)
	proxy := httptest.NewServer(newProxy(strings.TrimPrefix(backend.URL, "http://"), prefix, a,
		log.New(io.Discard, "", 0)))
	t.Cleanup(proxy.Close)
	return proxy, a, fake
}

// answer is the response of a server.
type answer struct {
	code           int
	location, body string
}

func get(t *testing.T, url string, header map[string]string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	request.Host = header["Host"]
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request,
		[]*http.Request,
	) error {
		return http.ErrUseLastResponse
	}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header.Get("Location"), string(body)}
}

func TestRequestsAreForwardedUnchanged(t *testing.T) {
	tests := map[string]struct {
		header map[string]string
		want   map[string]string
	}{
		"a request from a browser gets forwarding headers": {
			header: map[string]string{"Host": "tb.example"},
			want: map[string]string{
				"path": "/tb/ns/x/data/runs?tag=a%2Fb", "host": "tb.example",
				"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "tb.example", "X-Forwarded-Proto": "http",
			},
		},
		"a request from a gateway keeps its forwarding headers": {
			header: map[string]string{
				"Host": "gateway.internal", "X-Forwarded-For": "10.1.2.3", "X-Forwarded-Host": "tb.example",
				"X-Forwarded-Proto": "https",
			},
			want: map[string]string{
				"path": "/tb/ns/x/data/runs?tag=a%2Fb", "host": "gateway.internal",
				"X-Forwarded-For": "10.1.2.3, 127.0.0.1", "X-Forwarded-Host": "tb.example", "X-Forwarded-Proto": "https",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			proxy, _, _ := behind(t, func(_ http.ResponseWriter, r *http.Request) {
				got["path"], got["host"] = r.URL.RequestURI(), r.Host
				for _, header := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
					got[header] = r.Header.Get(header)
				}
			}, "/tb/ns/x")
			get(t, proxy.URL+"/tb/ns/x/data/runs?tag=a%2Fb", tc.header)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheRootRedirectsToThePathPrefix(t *testing.T) {
	tests := map[string]struct {
		prefix, path, wantLocation string
		wantCode                   int
	}{
		"the root redirects":                               {"/tb/ns/x", "/", "/tb/ns/x/", http.StatusFound},
		"the root with a query redirects":                  {"/tb/ns/x", "/?darkMode=true", "/tb/ns/x/", http.StatusFound},
		"another path does not redirect":                   {"/tb/ns/x", "/favicon.ico", "", http.StatusTeapot},
		"the root does not redirect without a path prefix": {"", "/", "", http.StatusTeapot},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			proxy, _, _ := behind(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
				tc.prefix)
			if got := get(t, proxy.URL+tc.path, nil); got.code != tc.wantCode || got.location != tc.wantLocation {
				t.Errorf("got %d %q, want %d %q", got.code, got.location, tc.wantCode, tc.wantLocation)
			}
		})
	}
}

func TestRequestsExceptHealthChecksCountAsUse(t *testing.T) {
	tests := map[string]struct {
		userAgent string
		wantIdle  time.Duration
	}{
		"a browser counts":                         {"Mozilla/5.0", 0},
		"a client without a user agent counts":     {"", 0},
		"the kubelet does not count":               {"kube-probe/1.37", time.Hour},
		"a load balancer of Google does not count": {"GoogleHC/1.0", time.Hour},
		"a load balancer of Amazon does not count": {"ELB-HealthChecker/2.0", time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			proxy, a, fake := behind(t, func(http.ResponseWriter, *http.Request) {}, "")
			fake.Step(time.Hour)
			get(t, proxy.URL, map[string]string{"User-Agent": tc.userAgent})
			proxy.Close() // waits until the proxy has finished the request
			if got := a.idle(); got != tc.wantIdle {
				t.Errorf("got idle for %s, want %s", got, tc.wantIdle)
			}
		})
	}
}

func TestAResponseIsStreamedAndCountsAsUseUntilItEnds(t *testing.T) {
	goOn := make(chan struct{})
	proxy, a, fake := behind(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "second\n")
	}, "")
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL, nil)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("got %q, %v before the second line is sent", line, err)
	}
	fake.Step(2 * time.Hour)
	if got := a.idle(); got != 0 {
		t.Errorf("got idle for %s during a request", got)
	}
	close(goOn)
	if line, err := lines.ReadString('\n'); err != nil || line != "second\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	proxy.Close() // waits until the proxy has finished the request
	fake.Step(time.Minute)
	if got := a.idle(); got != time.Minute {
		t.Errorf("got idle for %s a minute after the end of the request", got)
	}
}

func TestARequestEndsWhenTheClientDisconnects(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	proxy, a, fake := behind(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(ended)
	}, "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, proxy.URL, nil)
	if response, err := http.DefaultClient.Do(request); err == nil {
		_ = response.Body.Close()
		t.Fatal("got a response, want an error")
	}
	<-ended
	proxy.Close()
	fake.Step(time.Minute)
	if got := a.idle(); got != time.Minute {
		t.Errorf("got idle for %s a minute after the client disconnected", got)
	}
}

func TestTheProxyRespondsWhileTensorBoardDoesNotRun(t *testing.T) {
	var lines strings.Builder
	proxy := httptest.NewServer(newProxy("127.0.0.1:1", "", newActivity(clocktesting.NewFakeClock(noon)),
		log.New(&lines, "", 0)))
	got := get(t, proxy.URL+"/data?token=hunter2", nil)
	proxy.Close()
	want := answer{
		http.StatusBadGateway, "",
		"TensorBoard does not respond, because it is starting or has stopped. Try again in a few seconds.\n",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if strings.Contains(lines.String(), "hunter2") {
		t.Errorf("the log contains a query: %s", lines.String())
	}
}
