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

// fileServer is an HTTP server with one file.
type fileServer struct {
	mu       sync.Mutex
	data     string
	etag     string
	modified time.Time
	answers  http.HandlerFunc // if set, handles the requests in place of the file
	noRange  bool
	chunked  bool
	requests []string // path, Range and If-None-Match of each request
	headers  []http.Header
	sent     int
}

// ServeHTTP handles one request at a time.
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

// Write counts the written bytes.
func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	*w.n += n
	return n, err
}

// fetched returns a run that fetches a file from a server.
func fetched(t *testing.T, url string) *run {
	t.Helper()
	transport := newTransport(stalled)
	t.Cleanup(transport.CloseIdleConnections)
	return runIn(t, t.TempDir(), newPage(HTTPSource{URL: url}, transport), 1<<30)
}

func TestAFileOfAnHTTPServerIsFetched(t *testing.T) {
	type step struct {
		server       func(s *fileServer)
		want         string
		wantAbsent   bool
		wantError    string
		wantRequests []string
		wantSent     int // the number of sent bytes, which is not checked if 0
	}
	data := func(data string) func(s *fileServer) { return func(s *fileServer) { s.data = data } }
	fails := func(code int) func(s *fileServer) {
		return func(s *fileServer) { s.answers = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) } }
	}
	tests := map[string]struct {
		server *fileServer
		steps  []step
	}{
		"a file that grows is continued at an offset": {
			steps: []step{
				{server: data(long), want: long, wantRequests: []string{"/a.tfevents"}},
				{
					server: data(long + "more"), want: long + "more", wantRequests: []string{"/a.tfevents bytes=16384-"},
					wantSent: overlap + 4,
				},
				{want: long + "more", wantRequests: []string{"/a.tfevents bytes=16388-"}, wantSent: overlap},
			},
		},
		"a file is not sent again if its ETag has not changed": {
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
		"a file is read from the start if the server does not support ranges": {
			server: &fileServer{noRange: true},
			steps: []step{
				{server: data(long), want: long},
				{server: data(long + "more"), want: long + "more", wantSent: len(long) + 4},
				{server: data("another, " + long + "more"), wantAbsent: true},
				{want: "another, " + long + "more"},
			},
		},
		"a file is read from the start if the server does not send its size": {
			server: &fileServer{chunked: true},
			steps: []step{
				{server: data(long), want: long},
				{server: data(long + "more"), want: long + "more"},
				{server: data("shorter"), wantAbsent: true},
				{want: "shorter"},
			},
		},
		"a file that became shorter is removed and fetched again": {
			steps: []step{
				{server: data(long), want: long},
				{server: data("short"), wantAbsent: true},
				{want: "short"},
				{server: data("shor"), wantAbsent: true},
				{want: "shor"},
			},
		},
		"a file that was replaced is removed and fetched again": {
			steps: []step{
				{server: data("12345"), want: "12345"},
				{server: data("abcdefgh"), wantAbsent: true},
				{want: "abcdefgh"},
			},
		},
		"a file that has grown without a new modification time is fetched": {
			server: &fileServer{modified: noon},
			steps: []step{
				{server: data("12345"), want: "12345"},
				{server: data("12345678"), want: "12345678"},
			},
		},
		"a file stays if the server returns an error": {
			steps: []step{
				{server: data("12345"), want: "12345"},
				{server: fails(500), want: "12345", wantError: "the server responded with 500 Internal Server Error"},
				{server: fails(404), want: "12345", wantError: "the server responded with 404 Not Found"},
				{server: fails(403), want: "12345", wantError: "the server responded with 403 Forbidden"},
				{server: func(s *fileServer) { s.answers, s.data = nil, "1234567" }, want: "1234567"},
			},
		},
		"a download is resumed after the server has aborted it": {
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
		"a file stays if the server aborts while it sends known data": {
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
		"a compressed response is refused": {
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
				}, wantAbsent: true, wantError: "the server sent the file compressed",
			}},
		},
		"a response from the wrong offset is refused": {
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
					}, want: "12345", wantError: `invalid Content-Range "lines 1-2"`,
				},
				{
					server: fails(http.StatusPartialContent), want: "12345", wantError: "a part of the file without a Content-Range",
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
				origin.mu.Lock() // the server holds the lock until it has finished the request
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
					t.Errorf("requested the encoding %q, want identity", got)
				}
			}
		})
	}
}

func TestAFileOfAnHTTPServerIsNamedAfterItsURL(t *testing.T) {
	tests := map[string]struct{ url, want string }{
		"an event file keeps its name": {
			"http://host/runs/events.out.tfevents.1.h?signature=1", "events.out.tfevents.1.h",
		},
		"another file gets the prefix of event files":       {"http://host/runs/log.bin", "events.out.tfevents.log.bin"},
		"escaped characters are decoded":                    {"http://host/a%20b.tfevents", "a b.tfevents"},
		"an escaped slash is not decoded":                   {"http://host/a%2Fb.tfevents", "a%2Fb.tfevents"},
		"an escaped path to a parent folder is not decoded": {"http://host/..%2F..%2Fb", "events.out.tfevents...%2F..%2Fb"},
		"a URL without a file name has a valid name":        {"http://host/", "events.out.tfevents./"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := newPage(HTTPSource{URL: tc.url}, nil).list(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got[0].path); diff != "" {
				t.Errorf("unexpected name (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectsAreFollowedWithoutAReferer(t *testing.T) {
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
			t.Errorf("the other server received the headers %s", got)
		}
	}
}

func TestErrorsDoNotContainTheQuery(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		url    string
		want   string
	}{
		"nothing listens at the address": {url: "http://127.0.0.1:1", want: "connection refused"},
		"the host does not exist":        {url: "http://no-such-host.invalid", want: "no-such-host.invalid"},
		"the server redirects endlessly": {
			answer: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) },
			want:   "redirected more than 10 times",
		},
		"the server redirects to an invalid address": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://a b/?"+r.URL.RawQuery)
				w.WriteHeader(http.StatusFound)
			}, want: "failed to parse Location header",
		},
		"the server does not respond with HTTP": {
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
				t.Errorf("got %q, want an error with %q and without the query", text, tc.want)
			}
		})
	}
}

func TestADownloadTimesOutOnlyIfItStalls(t *testing.T) {
	const patience, pause, parts = time.Second, 200 * time.Millisecond, 8
	tests := map[string]struct {
		answer    http.HandlerFunc
		want      map[string]string
		wantError string
	}{
		"a download can take longer than the time limit of one read": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				for range parts {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					time.Sleep(pause)
				}
			},
			want: map[string]string{"a.tfevents": strings.Repeat("x", parts)},
		},
		"a download that stalls times out": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "12345")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			want: map[string]string{"a.tfevents": "12345"}, wantError: "i/o timeout",
		},
		"a request without a response times out": {
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
				t.Errorf("got the description %q, want one that the server has sent nothing", describe(err))
			}
			wantTree(t, r, tc.want)
		})
	}
}

func TestTheDownloadOfAnEndlessFileStopsAtTheLimit(t *testing.T) {
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
			t.Errorf("got %d bytes, want slightly less than 1 MiB", used)
		}
	}
}
