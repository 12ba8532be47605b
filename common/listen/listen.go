// Package listen bounds what peers can make an HTTP server hold before it knows who they are: connections, goroutines,
// memory and time.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the servers that NewServer returns. Their requests are small, and soon answered.
const (
	// MaxHeader is the size of the header of a request, in bytes. That of a probe or a scrape has some hundred bytes. A
	// header of many short fields takes up to 20 times as much in memory.
	MaxHeader = 16 << 10
	// Timeout is how long a peer may take to send a request, and how long the answer and its way to the peer may take.
	Timeout = 10 * time.Second
	// IdleTimeout is how long a connection without requests is kept: Prometheus scrapes more often.
	IdleTimeout = 2 * time.Minute
	// ShutdownTimeout is how long requests may still take when a server ends.
	ShutdownTimeout = 2 * time.Second
)

// NewServer returns a server that limits the size of requests, and the time that they take, as well as that of a TLS
// handshake. The context of a request ends when a listener of TCP closes its connection, even if the peer has begun to
// send the next request. The listener may be wrapped by tls.NewListener.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: MaxHeader,
		ReadTimeout: Timeout, WriteTimeout: Timeout, IdleTimeout: IdleTimeout,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if encrypted, ok := c.(*tls.Conn); ok {
				c = encrypted.NetConn()
			}
			if c, ok := c.(*conn); ok {
				ctx, c.end = context.WithCancel(ctx)
			}
			return ctx
		},
	}
}

// TCP listens at an address. It keeps at most so many connections, and nobody waits for a place: one more takes that of
// the connection that has been silent for the longest time, of those from the address that has the most. So whoever
// opens many takes the places of its own.
func TCP(ctx context.Context, address string, most int) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, most: most, conns: map[*conn]bool{}}, nil
}

type listener struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns map[*conn]bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l, end: func() {}}
	c.touch()
	if surplus := l.add(c); surplus != nil {
		_ = surplus.Close()
	}
	return c, nil
}

// add takes a connection. It returns the one to close for it, nil if there is room.
func (l *listener) add(c *conn) (surplus *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	if len(l.conns) <= l.most {
		return nil
	}
	longestSilent := func(a, b *conn) int { return cmp.Compare(a.active.Load(), b.active.Load()) }
	return slices.MinFunc(OfBusiestAddress(slices.Collect(maps.Keys(l.conns))), longestSilent)
}

func (l *listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// conn is a connection that its listener may close.
type conn struct {
	net.Conn
	listener *listener
	active   atomic.Int64 // when data last came, or was to go, in nanoseconds
	end      func()       // ends the contexts of its requests; set before there are any
}

func (c *conn) touch() { c.active.Store(time.Now().UnixNano()) }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.touch()
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	c.touch()
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.remove(c)
	c.end()
	return c.Conn.Close()
}

// OfBusiestAddress returns the connections whose peer has the IP address with the most of them. There must be at least
// one connection. If one of the returned ones is closed for a new one, a peer that opens many takes its own places.
func OfBusiestAddress[C net.Conn](conns []C) []C {
	count := map[string]int{}
	most := 0
	for _, c := range conns {
		count[addressOf(c)]++
		most = max(most, count[addressOf(c)])
	}
	return slices.DeleteFunc(slices.Clone(conns), func(c C) bool { return count[addressOf(c)] < most })
}

// addressOf returns the IP address of a peer.
func addressOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
