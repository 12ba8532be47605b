// Package listen limits the resources that unauthenticated clients can use in a server: connections, goroutines, memory
// and time.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of servers from NewServer. They are for small requests with fast responses.
const (
	// MaxHeader is the maximum size of a request header, in bytes. Headers of probes and scrapes have some hundred bytes.
	// A header with many short fields needs up to 20 times its size in memory.
	MaxHeader = 16 << 10
	// Timeout is how long a client can take to send a request. The server can take as long to handle the request and
	// send the response.
	Timeout = 10 * time.Second
	// IdleTimeout is how long an idle connection is kept. Prometheus scrapes more often, so its connection stays open.
	IdleTimeout = 2 * time.Minute
	// ShutdownTimeout is how long active requests can take during the shutdown of a server.
	ShutdownTimeout = 2 * time.Second
)

// NewServer returns a server that limits the header size of requests and the duration of requests and TLS handshakes.
// If the listener of the server comes from the function TCP, a request ends with its connection: when the listener
// closes the connection, the context of the request is canceled. This holds even if the client has begun to send the
// next request, and even if tls.NewListener wraps the listener.
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

// TCP listens at an address. It keeps at most the given number of connections. A new connection never waits. If there
// are too many connections, the listener selects the connections of the IP address with the most connections. Of
// these, it closes the one that has been inactive for the longest time. So a client that opens many connections
// replaces only its own.
func TCP(ctx context.Context, address string, most int) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, most: most, conns: map[*conn]bool{}}, nil
}

// Accept calls the handler for each connection of the listener, in a goroutine of its own. It returns when the
// listener is closed. Another error, such as too many open files, can be temporary: Accept logs it, and tries again
// after the interval.
func Accept(l net.Listener, handle func(net.Conn), logger *log.Logger, retry time.Duration) {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			logger.Printf("accepting a connection: %v", err)
			time.Sleep(retry)
		default:
			go handle(conn)
		}
	}
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

// add adds a connection. If there are too many, it returns the connection to close. Otherwise it returns nil.
func (l *listener) add(c *conn) (surplus *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	if len(l.conns) <= l.most {
		return nil
	}
	byActivity := func(a, b *conn) int { return cmp.Compare(a.active.Load(), b.active.Load()) }
	return slices.MinFunc(ofBusiestAddress(slices.Collect(maps.Keys(l.conns))), byActivity)
}

// Exempt makes a connection from the listener of TCP count no longer, so the listener does not close it for others.
// Call it when the peer is authenticated.
func Exempt(c net.Conn) {
	if c, ok := c.(*conn); ok {
		c.listener.remove(c)
	}
}

func (l *listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// conn is a connection that its listener can close.
type conn struct {
	net.Conn
	listener *listener
	active   atomic.Int64 // when the last read ended or the last write began, in nanoseconds
	end      func()       // cancels the contexts of requests; set before the first request
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

// ofBusiestAddress returns the connections from the IP address with the most connections. If several addresses have
// the most, it returns the connections of all of them. There must be at least one connection.
func ofBusiestAddress(conns []*conn) []*conn {
	count := map[string]int{}
	most := 0
	for _, c := range conns {
		address := AddressOf(c.RemoteAddr().String())
		count[address]++
		most = max(most, count[address])
	}
	return slices.DeleteFunc(conns, func(c *conn) bool {
		return count[AddressOf(c.RemoteAddr().String())] < most
	})
}

// AddressOf returns the IP address of a peer. The parameter is its address with a port.
func AddressOf(peer string) string {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		return peer
	}
	return host
}
