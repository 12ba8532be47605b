package progress

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/signed"
)

const token = "the-token"

var someState = State{Reports: 1, Step: ptr.To[int64](420), SinceReport: time.Second, SinceProgress: time.Minute}

// serve starts a server and returns it as a target with the token.
func serve(t *testing.T, handler http.Handler) Target {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Target{Address: server.Listener.Addr().String(), Token: token}
}

// receiver returns the handler of a receiver that has the state.
func receiver() http.Handler { return Handler(token, func() State { return someState }) }

func TestTheClientReadsTheState(t *testing.T) {
	for name, address := range map[string]string{
		"the address is an IPv4 address": "127.0.0.1:0",
		"the address is an IPv6 address": "[::1]:0",
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", address)
			if err != nil {
				t.Skipf("the host has no such address: %v", err)
			}
			server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: receiver()}}
			server.Start()
			t.Cleanup(server.Close)
			got, err := NewClient().Read(t.Context(), Target{Address: listener.Addr().String(), Token: token})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(someState, got); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheClientIgnoresTheProxyOfTheEnvironment(t *testing.T) {
	if proxy := NewClient().http.Transport.(*http.Transport).Proxy; proxy != nil {
		t.Error("the client has a proxy, want none")
	}
}

// signing returns a handler that responds with the body, and signs every response with the token.
func signing(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		signResponse(w.Header(), token, r.Header.Get(nonceHeader), []byte(body))
		_, _ = io.WriteString(w, body)
	}
}

func TestTheClientDoesNotBelieveOtherServers(t *testing.T) {
	t.Parallel()
	const unsigned = "the response is not signed with the token of the receiver, or is too large"
	var recorded atomic.Pointer[http.Header]
	if _, err := NewClient().Read(t.Context(), serve(t, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			receiver().ServeHTTP(w, r)
			recorded.Store(new(w.Header().Clone()))
		},
	))); err != nil {
		t.Fatal(err)
	}
	body, err := someState.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var followed atomic.Int64
	elsewhere := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed.Add(1)
		receiver().ServeHTTP(w, r)
	}))
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"a receiver with another token refuses the request": {
			Handler("other", func() State { return someState }).ServeHTTP, "the status of the response is 401, want 200",
		},
		"a response without a signature is an error": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }, unsigned,
		},
		"a response that was recorded before is an error": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(signatureHeader, recorded.Load().Get(signatureHeader))
				_, _ = w.Write(body)
			}, unsigned,
		},
		"a response whose body was changed is an error": {
			func(w http.ResponseWriter, r *http.Request) {
				signResponse(w.Header(), token, r.Header.Get(nonceHeader), body)
				_, _ = w.Write([]byte(`{"reports": 2}`))
			}, unsigned,
		},
		"the signature of the request is no signature of the response": {
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(signatureHeader, strings.TrimPrefix(r.Header.Get("Authorization"), scheme))
			}, unsigned,
		},
		"a redirect is an error": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://"+elsewhere.Address+Path, http.StatusFound)
			}, "the status of the response is 302, want 200",
		},
		"a signed state that is invalid is an error": {
			signing(`{"reports": -1}`), `the field "reports" of the state must be`,
		},
		"a body without end is an error": {
			func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, MaxBody)); err != nil {
						return
					}
				}
			}, unsigned,
		},
		"a large header is an error": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Large", strings.Repeat("x", 2*MaxBody))
			}, "server response headers exceeded",
		},
		"a compressed body is not expanded": {
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				signing(`{"reports": 1}`)(w, r)
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewClient().Read(t.Context(), serve(t, tc.handler))
			if got := message(err); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("the error is %q, want %q", got, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if n := followed.Load(); n != 0 {
			t.Errorf("the client followed %d redirects, want none", n)
		}
	})
}

func TestAnErrorIsShort(t *testing.T) {
	t.Parallel()
	target := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(connection, strings.Repeat("x", 8<<10)+"\r\n\r\n")
		_ = connection.Close()
	}))
	_, err := NewClient().Read(t.Context(), target)
	if err == nil || len(err.Error()) > maxError {
		t.Errorf("the error is %v, want one of at most %d bytes", err, maxError)
	}
}

func TestAnInvalidTargetIsAnErrorWithoutARequest(t *testing.T) {
	t.Parallel()
	const badAddress = "the address must be an IP address and a port, such as 10.0.0.7:8090"
	for name, tc := range map[string]struct {
		target Target
		want   string
	}{
		"without a token, the receiver cannot be authenticated": {
			Target{Address: "127.0.0.1:1"}, "the token is empty, so the receiver cannot be authenticated",
		},
		"a host name is an error":               {Target{Address: "localhost:1", Token: token}, badAddress},
		"an address without a port is an error": {Target{Address: "127.0.0.1", Token: token}, badAddress},
		"an address with a zone is an error":    {Target{Address: "[fe80::1%eth0]:1", Token: token}, badAddress},
		"an empty address is an error":          {Target{Token: token}, badAddress},
		"an address with a path is an error":    {Target{Address: "127.0.0.1:1/path", Token: token}, badAddress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := NewClient()
			client.http.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
				t.Error("the client connects")
				return nil, errors.New("no connection")
			}
			_, err := client.Read(t.Context(), tc.target)
			want := fmt.Sprintf("reading the progress from %s: %s", tc.target.Address, tc.want)
			if diff := cmp.Diff(want, message(err)); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAServerThatHangsCostsTheTimeout(t *testing.T) {
	t.Parallel()
	const header = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
	for name, sent := range map[string]string{
		"the server sends nothing":       "",
		"the server sends half a header": header[:10],
		"the server sends half a body":   header + "{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				client := NewClient()
				client.http.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
					return near, nil
				}
				go func() { _, _ = io.Copy(io.Discard, far) }()
				go func() { _, _ = io.WriteString(far, sent) }()
				began := time.Now()
				if _, err := client.Read(t.Context(), Target{Address: "10.0.0.7:1", Token: token}); err == nil {
					t.Error("there is no error")
				}
				if took := time.Since(began); took != ReadTimeout {
					t.Errorf("the read took %s, want %s", took, ReadTimeout)
				}
				_ = far.Close()
			})
		})
	}
}

func TestTheReceiverOnlyAnswersSignedRequests(t *testing.T) {
	t.Parallel()
	sent := func(change func(http.Header)) *http.Request {
		request := httptest.NewRequest(http.MethodGet, Path, nil)
		signRequest(request.Header, token, "nonce")
		change(request.Header)
		return request
	}
	for name, tc := range map[string]struct {
		change func(http.Header)
		want   int
	}{
		"a signed request is answered": {func(http.Header) {}, http.StatusOK},
		"a request without a signature is refused": {
			func(h http.Header) { h.Del("Authorization") }, http.StatusUnauthorized,
		},
		"a signature for another token is refused": {
			func(h http.Header) { signRequest(h, "other", "nonce") }, http.StatusUnauthorized,
		},
		"a signature for another nonce is refused": {
			func(h http.Header) { h.Set(nonceHeader, "other") }, http.StatusUnauthorized,
		},
		"the token itself is no signature": {
			func(h http.Header) { h.Set("Authorization", scheme+token) }, http.StatusUnauthorized,
		},
		"an empty nonce is refused": {func(h http.Header) { signRequest(h, token, "") }, http.StatusUnauthorized},
		"a long nonce is refused": {
			func(h http.Header) { signRequest(h, token, strings.Repeat("n", maxNonce+1)) }, http.StatusUnauthorized,
		},
		"the signature of a response is refused": {
			func(h http.Header) { h.Set("Authorization", scheme+signed.Text(token, "response\nnonce\n")) },
			http.StatusUnauthorized,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := httptest.NewRecorder()
			receiver().ServeHTTP(response, sent(tc.change))
			if response.Code != tc.want {
				t.Errorf("got status %d, want %d", response.Code, tc.want)
			}
			if strings.Contains(response.Body.String(), "420") != (tc.want == http.StatusOK) {
				t.Errorf("unexpected body: %s", response.Body)
			}
		})
	}
}

func TestTheTokenIsNotSent(t *testing.T) {
	t.Parallel()
	var request, response strings.Builder
	target := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.Write(&request)
		receiver().ServeHTTP(w, r)
		_ = w.Header().Write(&response)
	}))
	if _, err := NewClient().Read(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"request": request.String(), "response": response.String()} {
		if text == "" || strings.Contains(text, token) {
			t.Errorf("the %s must not contain the token: %s", name, text)
		}
	}
}
