// Package listentest contains clients that test the limits of an HTTP server.
package listentest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Dial connects to a server from a separate IP address, such as 127.0.77.1, as a pod does.
func Dial(t testing.TB, from, server string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Get returns a request for a path.
func Get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }

// Large returns the beginning of a request whose header exceeds the limit of a server.
func Large(limit int) string {
	const begin, beyond = "GET /", 4 << 10 // net/http reads 4 KiB beyond its limit
	return begin + strings.Repeat("x", limit+beyond-len(begin))
}

// Ask sends a request and returns the status code of the response.
func Ask(t testing.TB, c net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// Crowd opens many connections from one address without sending requests. It returns when the server has closed all of
// them except the given number.
func Crowd(t testing.TB, server string, kept int) {
	t.Helper()
	many := 5*kept + 100
	closed := make(chan struct{}, many)
	for range many {
		c := Dial(t, "127.0.88.1", server)
		go func() {
			_, _ = io.Copy(io.Discard, c)
			closed <- struct{}{}
		}()
	}
	for range many - kept {
		<-closed
	}
}
