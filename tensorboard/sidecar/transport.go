package sidecar

import (
	"context"
	"net"
	"net/http"
	"time"
)

// stalled is how long a connection can be without progress before it times out. The time for a whole file is not
// limited.
const stalled = 30 * time.Second

// newTransport returns a transport for requests to the servers of logs. It does not decompress responses, because a
// download is resumed at an offset in the bytes that the server sends.
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

// stallConn is a connection on which each read and each write must end in time.
type stallConn struct {
	net.Conn
	stalled time.Duration
}

// Read waits for data for a limited time.
func (c *stallConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write waits for a limited time until the data is accepted.
func (c *stallConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
