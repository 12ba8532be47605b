package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tensorstack.dev/jobs/common/listen/listentest"
)

// start starts a server that keeps at most the given number of connections and runs until the test ends.
func start(t *testing.T, most int, handler http.HandlerFunc) (address string) {
	t.Helper()
	l, err := TCP(t.Context(), "127.0.0.1:0", most)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(handler)
	server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 0, 0, 0 // no connection times out
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// certified returns the configuration of a TLS server with a certificate.
func certified(t *testing.T) *tls.Config {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13}
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// wantResponse checks that a client gets a response.
func wantResponse(t *testing.T, c net.Conn) {
	t.Helper()
	if status := listentest.Ask(t, c, listentest.Get("/")); status != http.StatusNoContent {
		t.Errorf("got status %d, want %d", status, http.StatusNoContent)
	}
}

func TestManyConnectionsOfOneClientDoNotLockOutOthers(t *testing.T) {
	const most = 8
	address := start(t, most, noContent)
	early := listentest.Dial(t, "127.0.77.1", address)
	listentest.Crowd(t, address, most-1) // the server keeps these connections and the early one
	wantResponse(t, early)
	wantResponse(t, listentest.Dial(t, "127.0.99.1", address))
}

func TestTheConnectionThatWasInactiveForTheLongestTimeIsClosed(t *testing.T) {
	const peer = "127.0.77.1"
	address := start(t, 2, noContent)
	first, second := listentest.Dial(t, peer, address), listentest.Dial(t, peer, address)
	for _, c := range []net.Conn{first, second, first} {
		wantResponse(t, c)
	}
	listentest.Dial(t, peer, address)
	_, _ = io.Copy(io.Discard, second) // wait until the server closes the second connection
	wantResponse(t, first)
}

func TestAnExemptConnectionDoesNotCount(t *testing.T) {
	const peer = "127.0.77.1"
	l, err := TCP(t.Context(), "127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() (near, far net.Conn) {
		near = listentest.Dial(t, peer, l.Addr().String())
		if far, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		return near, far
	}
	exempt, far := dial()
	Exempt(far)
	second, _ := dial()
	dial()                             // replaces the second connection
	_, _ = io.Copy(io.Discard, second) // wait until the listener closes the second connection
	if _, err := io.WriteString(far, "x"); err != nil {
		t.Errorf("the listener has closed the exempt connection: %v", err)
	}
	if n, err := exempt.Read(make([]byte, 1)); n != 1 {
		t.Errorf("the exempt connection is broken: %v", err)
	}
}

func TestTheContextOfARequestEndsWithItsConnection(t *testing.T) {
	for name, next := range map[string]string{
		"the client waits for the response": "",
		"the client sends the next request": listentest.Get("/"),
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan struct{})
			address := start(t, 1, func(_ http.ResponseWriter, r *http.Request) {
				close(began)
				<-r.Context().Done()
				close(ended)
			})
			c := listentest.Dial(t, "127.0.77.1", address)
			_, _ = io.WriteString(c, listentest.Get("/"))
			<-began
			_, _ = io.WriteString(c, next)
			listentest.Dial(t, "127.0.77.1", address)
			<-ended
		})
	}
}

func TestTheContextOfARequestEndsWithItsTLSConnection(t *testing.T) {
	tcp, err := TCP(t.Context(), "127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	began, ended := make(chan struct{}), make(chan struct{})
	server := NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	}))
	server.WriteTimeout = 0
	go func() { _ = server.Serve(tls.NewListener(tcp, certified(t))) }()
	t.Cleanup(func() { _ = server.Close() })
	address := tcp.Addr().String()
	insecure := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	c := tls.Client(listentest.Dial(t, "127.0.77.1", address), insecure)
	_, _ = io.WriteString(c, listentest.Get("/"))
	<-began
	_, _ = io.WriteString(c, listentest.Get("/"))
	listentest.Dial(t, "127.0.77.1", address)
	<-ended
}

func TestARequestWithALargeHeaderIsRefused(t *testing.T) {
	c := listentest.Dial(t, "127.0.77.1", start(t, 1, noContent))
	if status := listentest.Ask(t, c, listentest.Large(MaxHeader)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got status %d, want %d", status, http.StatusRequestHeaderFieldsTooLarge)
	}
}

// pipes is a listener for in-memory connections, which can be used in a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(append([]byte("response "), body...))
}

// closedAfter returns how long a server keeps the connection of a client, rounded to seconds. It must run in a synctest
// bubble.
func closedAfter(t *testing.T, listenAt func(net.Listener) net.Listener, sent string, reads bool) time.Duration {
	t.Helper()
	server := NewServer(http.HandlerFunc(echo))
	server.ErrorLog = log.New(io.Discard, "", 0)
	closed := make(chan struct{})
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	listener := make(pipes, 1)
	near, far := net.Pipe()
	listener <- far
	go func() { _ = server.Serve(listenAt(listener)) }()
	begin := time.Now()
	go func() { _, _ = io.WriteString(near, sent) }()
	if reads {
		go func() { _, _ = io.Copy(io.Discard, near) }()
	}
	<-closed
	took := time.Since(begin).Round(time.Second)
	_ = near.Close()
	close(listener)
	_ = server.Close()
	return took
}

func TestAClientHasLimitedTime(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
	get := listentest.Get("/")
	for name, tc := range map[string]struct {
		sent  string
		reads bool
		want  time.Duration
	}{
		"a client that sends nothing is disconnected":              {"", true, Timeout},
		"a client that sends half a header is disconnected":        {"GET / HTTP/1.1\r\nHos", true, Timeout},
		"a client that sends half a body is disconnected":          {post + "half", true, Timeout},
		"a client that does not read the response is disconnected": {get, false, Timeout},
		"a client that sends no second request is disconnected":    {get, true, IdleTimeout},
		"a client that sends half a second header is disconnected": {get + "GET / HT", true, Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plain := func(l net.Listener) net.Listener { return l }
				if took := closedAfter(t, plain, tc.sent, tc.reads); took < tc.want || took > tc.want+time.Second {
					t.Errorf("the connection was closed after %s, want %s", took, tc.want)
				}
			})
		})
	}
}

func TestATLSHandshakeHasLimitedTime(t *testing.T) {
	config := certified(t)
	const half = "\x16\x03\x01\x02\x00\x01\x00" // the beginning of a ClientHello of 512 bytes
	for name, sent := range map[string]string{
		"a client that sends nothing is disconnected":            "",
		"a client that sends half a ClientHello is disconnected": half,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				encrypted := func(l net.Listener) net.Listener { return tls.NewListener(l, config) }
				if took := closedAfter(t, encrypted, sent, true); took != Timeout {
					t.Errorf("the connection was closed after %s, want %s", took, Timeout)
				}
			})
		})
	}
}

func TestAnInvalidAddressIsAnError(t *testing.T) {
	if _, err := TCP(context.Background(), "nowhere", 1); !errors.As(err, new(*net.OpError)) {
		t.Errorf("the error is %v, want a *net.OpError", err)
	}
}

// failing is a listener whose first call of Accept fails.
type failing struct {
	net.Listener
	failed bool
}

func (f *failing) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

func TestAcceptGoesOnAfterAnErrorUntilTheListenerIsClosed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	handled := make(chan net.Conn)
	returned := make(chan struct{})
	go func() {
		Accept(&failing{Listener: l}, func(c net.Conn) { handled <- c }, log.New(&logged, "", 0), time.Millisecond)
		close(returned)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = (<-handled).Close()
	_, _ = conn.Close(), l.Close()
	<-returned
	if got, want := logged.String(), "accepting a connection: too many open files\n"; got != want {
		t.Errorf("got the log %q, want %q", got, want)
	}
}
