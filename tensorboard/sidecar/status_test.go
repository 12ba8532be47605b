package sidecar

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"tensorstack.dev/jobs/common/report"
)

func TestTheControllerGetsTheStatusOfTheSidecar(t *testing.T) {
	sources := []Source{
		{Run: "b", S3: &S3Source{Bucket: "bucket", Prefix: "runs/"}},
		{Run: "a", HTTP: &HTTPSource{URL: "http://host/file?key=hunter2"}},
		{Run: "c", Link: "/claims/c"},
	}
	fake := clocktesting.NewFakeClock(noon)
	a, troubled := newActivity(fake), newTroubles(sources)
	health := httptest.NewServer(newHealth("127.0.0.1:1", "", a, troubled))
	t.Cleanup(health.Close)
	tests := []struct {
		name string
		do   func()
		want Status
	}{
		{"a new sidecar is not idle", func() {}, Status{}},
		{
			"the idle time has whole seconds", func() { fake.Step(90*time.Second + 999*time.Millisecond) },
			Status{IdleSeconds: 90},
		},
		{"the sidecar is not idle during a request", func() { a.begin() }, Status{}},
		{
			"sources that fail have an error",
			func() { troubled.set(1, "not there"); troubled.set(0, "no bucket") },
			Status{Sources: []SourceStatus{
				{Run: "b", Source: "s3://bucket/runs/", Error: "no bucket"},
				{Run: "a", Source: "http://host/file", Error: "not there"},
			}},
		},
		{
			"a source that works again has no error", func() { troubled.set(0, "") },
			Status{Sources: []SourceStatus{{Run: "a", Source: "http://host/file", Error: "not there"}}},
		},
	}
	for _, tc := range tests {
		tc.do()
		got, err := Fetch(t.Context(), NewClient(time.Minute), strings.TrimPrefix(health.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: unexpected status (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestFetchFailsIfTheServerIsNotASidecar(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"the server has no status": {http.NotFound, "got 404 Not Found"},
		"the response is not JSON": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "reading the response",
		},
		"the response is too large": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"sources": [`))
			for range 100_000 {
				_, _ = w.Write([]byte(`{"run": "a", "error": "b"},`))
			}
		}, "reading the response"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.answer)
			t.Cleanup(server.Close)
			_, err := Fetch(t.Context(), NewClient(time.Minute), strings.TrimPrefix(server.URL, "http://"))
			wantError(t, err, tc.want)
		})
	}
}

// Anybody who can create pods can create a pod that responds in place of a sidecar, so a response can have any size.
func TestALargeResponseCausesAShortError(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := map[string]struct{ answer, want string }{
		"the header is too long":      {"HTTP/1.1 200 OK\r\nX-Long: " + long + "\r\n\r\n{}", "exceeded"},
		"the status line is too long": {"HTTP/1.1 500 " + long + "\r\n\r\n", "exceeded"},
		"the status is long":          {"HTTP/1.1 500 " + long[:maxHeader/2] + "\r\n\r\n", "got 500 xxx"},
		"the response is not HTTP":    {long[:maxHeader/2] + "\r\n\r\n", "malformed HTTP"},
		"there are too many sources": {
			"HTTP/1.1 200 OK\r\n\r\n{\"sources\": [{}" + strings.Repeat(",{}", maxStatus/4) + "]}",
			"more than 4288 sources",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				peer, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = http.ReadRequest(bufio.NewReader(peer))
				_, _ = io.WriteString(peer, tc.answer)
				_ = peer.Close()
			}()
			_, err = Fetch(t.Context(), NewClient(time.Minute), listener.Addr().String())
			wantError(t, err, tc.want)
			if length := len(err.Error()); length > report.MaxNote {
				t.Errorf("the error has %d bytes, want at most %d", length, report.MaxNote)
			}
		})
	}
}

func TestTheSidecarIsReadyWhileTensorBoardServesData(t *testing.T) {
	tests := map[string]struct {
		answer   http.HandlerFunc
		away     bool
		wantCode int
		wantBody string
	}{
		"TensorBoard serves data": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/tb/ns/x/data/environment" {
					http.NotFound(w, r)
				}
			},
			wantCode: http.StatusOK, wantBody: "ok\n",
		},
		"TensorBoard has lost the process that reads the logs": {
			answer:   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			wantCode: http.StatusServiceUnavailable, wantBody: "TensorBoard is not ready: got 500 Internal Server Error\n",
		},
		"TensorBoard does not run": {
			away: true, answer: http.NotFound,
			wantCode: http.StatusServiceUnavailable, wantBody: "TensorBoard is not ready: dial tcp",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tensorBoard := httptest.NewServer(tc.answer)
			t.Cleanup(tensorBoard.Close)
			if tc.away {
				tensorBoard.Close()
			}
			fake := clocktesting.NewFakeClock(noon)
			a := newActivity(fake)
			health := httptest.NewServer(newHealth(strings.TrimPrefix(tensorBoard.URL, "http://"), "/tb/ns/x", a,
				newTroubles(nil)))
			t.Cleanup(health.Close)
			fake.Step(time.Hour)
			if got := get(t, health.URL+ReadyPath, nil); got.code != tc.wantCode || !strings.HasPrefix(got.body, tc.wantBody) {
				t.Errorf("got %d %q, want %d %q", got.code, got.body, tc.wantCode, tc.wantBody)
			}
			if got := get(t, health.URL+HealthPath, nil); got.code != http.StatusOK {
				t.Errorf("got status %d of the health check, want 200", got.code)
			}
			if a.idle() != time.Hour {
				t.Error("the readiness check counts as use of TensorBoard")
			}
		})
	}
}
