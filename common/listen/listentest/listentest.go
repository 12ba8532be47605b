// Package listentest does to an HTTP server what any peer can do that reaches it.
package listentest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Dial connects from an address of its own, such as 127.0.77.1, to a server, as a pod does.
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

// Large returns the beginning of a request whose header has more bytes than a server with a limit reads.
func Large(limit int) string {
	const begin, beyond = "GET /", 4 << 10 // net/http reads so much beyond its limit
	return begin + strings.Repeat("x", limit+beyond-len(begin))
}

// Ask sends a request, and returns the status of the answer.
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

// Crowd opens many connections from one address and sends nothing. It returns when the server has closed all that it
// does not keep.
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
