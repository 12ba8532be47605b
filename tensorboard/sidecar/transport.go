package sidecar

import (
	"context"
	"net"
	"net/http"
	"time"
)

// stalled is for how long a server may send or take nothing before it is given up. A whole file may take any time.
const stalled = 30 * time.Second

// newTransport is for requests to servers of logs. It leaves bytes as they are, compressed or not, since files are
// continued at offsets.
func newTransport(stalled time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: stalled}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &stallConn{Conn: conn, stalled: stalled}, nil
		},
		TLSHandshakeTimeout: stalled,
		DisableCompression:  true,
		MaxIdleConnsPerHost: downloads,
		IdleConnTimeout:     2 * time.Minute,
	}
}

// stallConn is a connection on which something must happen all the time, while it is in use.
type stallConn struct {
	net.Conn
	stalled time.Duration
}

// Read waits for data.
func (c *stallConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write waits until data is taken.
func (c *stallConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
