package sidecar

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fileServer serves one file to anyone, as it is told to.
type fileServer struct {
	mu       sync.Mutex
	data     string
	etag     string
	modified time.Time
	answers  http.HandlerFunc // instead of the file
	noRange  bool
	chunked  bool
	requests []string // method, path, Range and If-None-Match
	headers  []http.Header
	sent     int
}

// ServeHTTP answers one request at a time.
func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests,
		strings.TrimSpace(fmt.Sprint(r.URL.Path, " ", r.Header.Get("Range"), " ", r.Header.Get("If-None-Match"))))
	s.headers = append(s.headers, r.Header)
	if s.answers != nil {
		s.answers(w, r)
		return
	}
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	if s.noRange {
		r.Header.Del("Range")
	}
	counted := &countingWriter{ResponseWriter: w, n: &s.sent}
	if s.chunked {
		_, _ = io.WriteString(counted, s.data[:len(s.data)/2])
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(counted, s.data[len(s.data)/2:])
		return
	}
	http.ServeContent(counted, r, "", s.modified, strings.NewReader(s.data))
}

type countingWriter struct {
	http.ResponseWriter
	n *int
}

// Write counts bytes.
func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	*w.n += n
	return n, err
}

// fetched returns a run with a file of a server.
func fetched(t *testing.T, url string) *run {
	t.Helper()
	transport := newTransport(stalled)
	t.Cleanup(transport.CloseIdleConnections)
	return runIn(t, t.TempDir(), newPage(HTTPSource{URL: url}, transport), 1<<30)
}

func TestAFileOfAnHTTPServer(t *testing.T) {
	type step struct {
		server       func(s *fileServer)
		want         string
		wantAbsent   bool
		wantError    string
		wantRequests []string
		wantSent     int // 0 is not checked
	}
	data := func(data string) func(s *fileServer) { return func(s *fileServer) { s.data = data } }
	fails := func(code int) func(s *fileServer) {
		return func(s *fileServer) { s.answers = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) } }
	}
	tests := map[string]struct {
		server *fileServer
		steps  []step
	}{
		"goes on at the offset": {
			steps: []step{
				{server: data(long), want: long, wantRequests: []string{"/a.tfevents"}},
				{
					server: data(long + "more"), want: long + "more", wantRequests: []string{"/a.tfevents bytes=16384-"},
					wantSent: overlap + 4,
				},
				{want: long + "more", wantRequests: []string{"/a.tfevents bytes=16388-"}, wantSent: overlap},
			},
		},
		"is not sent again if its ETag is known": {
			server: &fileServer{data: long, etag: `"v1"`},
			steps: []step{
				{want: long},
				{want: long, wantRequests: []string{`/a.tfevents bytes=16384- "v1"`}},
				{
					server: func(s *fileServer) { s.data, s.etag = long+"more", `"v2"` }, want: long + "more",
					wantRequests: []string{`/a.tfevents bytes=16384- "v1"`}, wantSent: overlap + 4,
				},
				{want: long + "more", wantRequests: []string{`/a.tfevents bytes=16388- "v2"`}},
			},
		},
		"is read from the start where the server knows no ranges": {
			server: &fileServer{noRange: true},
			steps: []step{
				{server: data(long), want: long},
				{server: data(long + "more"), want: long + "more", wantSent: len(long) + 4},
				{server: data("another, " + long + "more"), wantAbsent: true},
				{want: "another, " + long + "more"},
			},
		},
		"is read from the start where the server knows not even sizes": {
			server: &fileServer{chunked: true},
			steps: []step{
				{server: data(long), want: long},
				{server: data(long + "more"), want: long + "more"},
				{server: data("shorter"), wantAbsent: true},
				{want: "shorter"},
			},
		},
		"that became shorter is fetched anew": {
			steps: []step{
				{server: data(long), want: long},
				{server: data("short"), wantAbsent: true},
				{want: "short"},
				{server: data("shor"), wantAbsent: true},
				{want: "shor"},
			},
		},
		"that was replaced is fetched anew": {
			steps: []step{
				{server: data("12345"), want: "12345"},
				{server: data("abcdefgh"), wantAbsent: true},
				{want: "abcdefgh"},
			},
		},
		"that grew within the second of its date is fetched": {
			server: &fileServer{modified: noon},
			steps: []step{
				{server: data("12345"), want: "12345"},
				{server: data("12345678"), want: "12345678"},
			},
		},
		"stays if the server fails": {
			steps: []step{
				{server: data("12345"), want: "12345"},
				{server: fails(500), want: "12345", wantError: "the server answers 500 Internal Server Error"},
				{server: fails(404), want: "12345", wantError: "the server answers 404 Not Found"},
				{server: fails(403), want: "12345", wantError: "the server answers 403 Forbidden"},
				{server: func(s *fileServer) { s.answers, s.data = nil, "1234567" }, want: "1234567"},
			},
		},
		"goes on where the server died": {
			steps: []step{
				{
					server: func(s *fileServer) {
						s.answers = func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Length", fmt.Sprint(len(long)))
							_, _ = io.WriteString(w, long[:20000])
						}
					}, want: long[:20000], wantError: "unexpected EOF",
				},
				{
					server: func(s *fileServer) { s.answers, s.data = nil, long }, want: long,
					wantRequests: []string{"/a.tfevents bytes=3616-"}, wantSent: len(long) - 3616,
				},
			},
		},
		"that dies while it sends what is known is no other file": {
			server: &fileServer{noRange: true},
			steps: []step{
				{server: data(long), want: long},
				{
					server: func(s *fileServer) {
						s.answers = func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Length", fmt.Sprint(len(long)+1))
							_, _ = io.WriteString(w, long[:100])
						}
					}, want: long, wantError: "unexpected EOF",
				},
			},
		},
		"is not taken compressed": {
			steps: []step{{
				server: func(s *fileServer) {
					s.answers = func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Encoding", "gzip")
						var b bytes.Buffer
						z := gzip.NewWriter(&b)
						_, _ = io.WriteString(z, long)
						_ = z.Close()
						_, _ = w.Write(b.Bytes())
					}
				}, wantAbsent: true, wantError: "the server sends the file compressed",
			}},
		},
		"is not taken from the wrong offset": {
			steps: []step{
				{server: data("12345"), want: "12345"},
				{
					server: func(s *fileServer) {
						s.answers = func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Range", "bytes 5-8/9")
							w.WriteHeader(http.StatusPartialContent)
							_, _ = io.WriteString(w, "6789")
						}
					}, want: "12345", wantError: `"a.tfevents": the server`,
				},
				{
					server: func(s *fileServer) {
						s.answers = func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Range", "lines 1-2")
							w.WriteHeader(http.StatusPartialContent)
						}
					}, want: "12345", wantError: `that it describes as "lines 1-2"`,
				},
				{
					server: fails(http.StatusPartialContent), want: "12345", wantError: "does not say which part of the file it sends",
				},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			origin := tc.server
			if origin == nil {
				origin = &fileServer{}
			}
			server := httptest.NewServer(origin)
			t.Cleanup(server.Close)
			r := fetched(t, server.URL+"/a.tfevents")
			for i, s := range tc.steps {
				t.Logf("step %d", i)
				origin.mu.Lock()
				if s.server != nil {
					s.server(origin)
				}
				origin.requests, origin.sent = nil, 0
				origin.mu.Unlock()
				wantError(t, r.fetch(t.Context()), s.wantError)
				want := map[string]string{"a.tfevents": s.want}
				if s.wantAbsent {
					want = nil
				}
				wantTree(t, r, want)
				origin.mu.Lock() // until the server is done, too
				if s.wantRequests != nil {
					if diff := cmp.Diff(s.wantRequests, origin.requests); diff != "" {
						t.Errorf("unexpected requests (-want +got):\n%s", diff)
					}
				}
				if s.wantSent > 0 && origin.sent != s.wantSent {
					t.Errorf("%d bytes were sent, want %d", origin.sent, s.wantSent)
				}
				origin.mu.Unlock()
			}
			for _, header := range origin.headers {
				if got := header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("asked for encoding %q", got)
				}
			}
		})
	}
}

func TestHowAFileOfAnHTTPServerIsNamed(t *testing.T) {
	tests := map[string]struct{ url, want string }{
		"as at the server":            {"http://host/runs/events.out.tfevents.1.h?signature=1", "events.out.tfevents.1.h"},
		"so that TensorBoard sees it": {"http://host/runs/log.bin", "events.out.tfevents.log.bin"},
		"with what its name holds":    {"http://host/a%20b.tfevents", "a b.tfevents"},
		"in no folder":                {"http://host/a%2Fb.tfevents", "a%2Fb.tfevents"},
		"in no folder above":          {"http://host/..%2F..%2Fb", "events.out.tfevents...%2F..%2Fb"},
		"though the address has none": {"http://host/", "events.out.tfevents./"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := newPage(HTTPSource{URL: tc.url}, nil).list(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got[0].path); diff != "" {
				t.Errorf("unexpected name (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectsAreFollowedWithoutSayingWhereFrom(t *testing.T) {
	elsewhere := &fileServer{data: "12345"}
	other := httptest.NewServer(elsewhere)
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL+"/elsewhere", http.StatusFound))
	t.Cleanup(server.Close)
	r := fetched(t, server.URL+"/a.tfevents?signature=hunter2")
	wantError(t, r.fetch(t.Context()), "")
	wantTree(t, r, map[string]string{"a.tfevents": "12345"})
	for _, header := range elsewhere.headers {
		if got := fmt.Sprint(header); strings.Contains(got, "hunter2") || header.Get("Referer") != "" {
			t.Errorf("the other server was told %s", got)
		}
	}
}

func TestNoQueryIsInAnError(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		url    string
		want   string
	}{
		"nobody there": {url: "http://127.0.0.1:1", want: "connection refused"},
		"no such host": {url: "http://no-such-host.invalid", want: "no-such-host.invalid"},
		"redirects for ever": {
			answer: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) },
			want:   "redirected more than 10 times",
		},
		"a redirect to nowhere": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://a b/?"+r.URL.RawQuery)
				w.WriteHeader(http.StatusFound)
			}, want: "failed to parse Location header",
		},
		"not HTTP": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				conn, _, _ := http.NewResponseController(w).Hijack()
				_, _ = io.WriteString(conn, "SSH-2.0\r\n")
				_ = conn.Close()
			}, want: "malformed HTTP",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.answer != nil {
				server := httptest.NewServer(tc.answer)
				t.Cleanup(server.Close)
				tc.url = server.URL
			}
			err := fetched(t, tc.url+"/a.tfevents?signature=hunter2").fetch(t.Context())
			if err == nil {
				t.Fatal("got no error")
			}
			text := describe(err)
			if !strings.Contains(text, tc.want) || strings.Contains(text, "hunter2") {
				t.Errorf("got %q, want one with %q", text, tc.want)
			}
		})
	}
}

func TestAServerMayBeSlowButMustNotStall(t *testing.T) {
	const patience, pause, parts = time.Second, 200 * time.Millisecond, 8
	tests := map[string]struct {
		answer    http.HandlerFunc
		want      map[string]string
		wantError string
	}{
		"it takes longer than the limit for one read": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				for range parts {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					time.Sleep(pause)
				}
			},
			want: map[string]string{"a.tfevents": strings.Repeat("x", parts)},
		},
		"it stops in the middle": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "12345")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			want: map[string]string{"a.tfevents": "12345"}, wantError: "i/o timeout",
		},
		"it never answers": {
			answer:    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			wantError: "i/o timeout",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.answer)
			t.Cleanup(server.Close)
			r := runIn(t, t.TempDir(), newPage(HTTPSource{URL: server.URL + "/a.tfevents"}, newTransport(patience)), 1<<30)
			err := r.fetch(t.Context())
			wantError(t, err, tc.wantError)
			if err != nil && !strings.Contains(describe(err), "the server has sent nothing for") {
				t.Errorf("humans are told %q", describe(err))
			}
			wantTree(t, r, tc.want)
		})
	}
}

func TestAFileWithoutEndStopsAtTheLimit(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, long); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	r := fetched(t, server.URL+"/a.tfevents")
	r.quota.limit = 1 << 20
	for range 2 {
		wantError(t, r.fetch(t.Context()), "the limit of fetched logs is reached: 1Mi for all sources (--fetch-limit)")
		if used := r.quota.used.Load(); used > 1<<20 || used < 1<<20-64<<10 {
			t.Errorf("%d bytes were fetched", used)
		}
	}
}
