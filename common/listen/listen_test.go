package listen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tensorstack.dev/jobs/common/listen/listentest"
)

// start serves at most so many connections until the test ends.
func start(t *testing.T, most int, handler http.HandlerFunc) (address string) {
	t.Helper()
	l, err := TCP(t.Context(), "127.0.0.1:0", most)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(handler)
	server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 0, 0, 0 // nothing ends by itself
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// wantAnswer checks that a peer gets an answer.
func wantAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	if status := listentest.Ask(t, c, listentest.Get("/")); status != http.StatusNoContent {
		t.Errorf("got status %d, want %d", status, http.StatusNoContent)
	}
}

func TestManyConnectionsOfOnePeerKeepNobodyAway(t *testing.T) {
	const most = 8
	address := start(t, most, noContent)
	early := listentest.Dial(t, "127.0.77.1", address)
	listentest.Crowd(t, address, most-1) // the early one has a place, too
	wantAnswer(t, early)
	wantAnswer(t, listentest.Dial(t, "127.0.99.1", address))
}

func TestTheConnectionThatWasSilentForTheLongestTimeIsClosed(t *testing.T) {
	const peer = "127.0.77.1"
	address := start(t, 2, noContent)
	first, second := listentest.Dial(t, peer, address), listentest.Dial(t, peer, address)
	for _, c := range []net.Conn{first, second, first} {
		wantAnswer(t, c)
	}
	listentest.Dial(t, peer, address)
	_, _ = io.Copy(io.Discard, second) // until it is closed
	wantAnswer(t, first)
}

func TestWhatIsDoneForAPeerEndsWithItsConnection(t *testing.T) {
	for name, next := range map[string]string{
		"a peer waits for the answer":   "",
		"a peer sends the next request": listentest.Get("/"),
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

func TestARequestWithALargeHeaderIsRefused(t *testing.T) {
	c := listentest.Dial(t, "127.0.77.1", start(t, 1, noContent))
	if status := listentest.Ask(t, c, listentest.Large(MaxHeader)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got status %d, want %d", status, http.StatusRequestHeaderFieldsTooLarge)
	}
}

// pipes is a listener of connections in memory, whose time is that of a synctest bubble.
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
	_, _ = w.Write(append([]byte("answer "), body...))
}

func TestAPeerHasLimitedTime(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
	get := listentest.Get("/")
	for name, tc := range map[string]struct {
		sent  string
		reads bool
		want  time.Duration
	}{
		"a peer that sends nothing":              {"", true, Timeout},
		"a peer that sends half a header":        {"GET / HTTP/1.1\r\nHos", true, Timeout},
		"a peer that sends half a body":          {post + "half", true, Timeout},
		"a peer that does not read the answer":   {get, false, Timeout},
		"a peer that sends no second request":    {get, true, IdleTimeout},
		"a peer that sends half a second header": {get + "GET / HT", true, Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := NewServer(http.HandlerFunc(echo))
				closed := make(chan struct{})
				server.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateClosed {
						close(closed)
					}
				}
				listener := make(pipes, 1)
				near, far := net.Pipe()
				listener <- far
				go func() { _ = server.Serve(listener) }()
				begin := time.Now()
				go func() { _, _ = io.WriteString(near, tc.sent) }()
				if tc.reads {
					go func() { _, _ = io.Copy(io.Discard, near) }()
				}
				<-closed
				if took := time.Since(begin).Round(time.Second); took < tc.want || took > tc.want+time.Second {
					t.Errorf("the connection was closed after %s, want %s", took, tc.want)
				}
				_ = near.Close()
				close(listener)
				_ = server.Close()
			})
		})
	}
}

func TestAnAddressThatCannotBeListenedAtIsAnError(t *testing.T) {
	if _, err := TCP(context.Background(), "nowhere", 1); !errors.As(err, new(*net.OpError)) {
		t.Errorf("got %v, want an error of the network", err)
	}
}
