// Package faults has a proxy between a program and the API server. Tests use it to make writes of the program fail.
package faults

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Fault selects how the proxy handles a write.
type Fault int

const (
	// None forwards the write.
	None Fault = iota
	// Fail answers with an internal error. The API server does not get the write.
	Fail
	// Lose forwards the write, but the program does not get the answer.
	Lose
	// Down drops the write, and the proxy refuses all later connections. So the API server gets no further request from
	// the program.
	Down
)

// Proxy is a proxy of the API server. It counts the writes: every request whose method is not GET, and every command
// in a container, even if its request has the method GET.
type Proxy struct {
	// Before returns the fault for a write. If Before is nil, no write has a fault. The proxy calls Before while the API
	// server does not have the write yet. The first write has the number 1.
	Before func(number int, write string) Fault
	// After can be nil. The proxy calls it for each write without a fault, except for commands in containers. At that
	// time, the API server has answered, and the program does not have the answer yet.
	After func(number int, write string)

	server *httptest.Server
	config *rest.Config

	mu     sync.Mutex
	writes []string
}

// Start starts the proxy in front of an API server. At the end of the test, it closes the connections of the program.
func (p *Proxy) Start(t testing.TB, config *rest.Config) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p.config = config
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		// Commands in containers upgrade the connection. HTTP/2 does not support this, so the transport does not use
		// HTTP/2.
		Transport: &http.Transport{
			TLSClientConfig: settings, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		},
		FlushInterval: -1, // forward each part of a stream, such as a watch or a log, immediately
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(proxy, w, r) }))
	t.Cleanup(p.server.CloseClientConnections)
}

// serve answers a request.
func (p *Proxy) serve(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	number, write := p.count(r)
	if write == "" {
		proxy.ServeHTTP(w, r)
		return
	}
	fault := None
	if p.Before != nil {
		fault = p.Before(number, write)
	}
	switch fault {
	case None:
		if p.After == nil || strings.HasSuffix(write, "/exec") {
			proxy.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		p.After(number, write)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the program can be gone
	case Fail:
		http.Error(w, "the proxy has a fault", http.StatusInternalServerError)
	case Lose:
		// The API server gets the write even if the program does not wait for the answer.
		proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		panic(http.ErrAbortHandler)
	case Down:
		_ = p.server.Listener.Close() // an earlier fault can have closed the listener
		p.server.CloseClientConnections()
		panic(http.ErrAbortHandler)
	}
}

// count counts a request if it is a write, and returns the number and the text of the write. The text is empty if the
// request is not a write.
func (p *Proxy) count(r *http.Request) (number int, write string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/exec") {
		write = r.Method + " " + r.URL.Path
		p.writes = append(p.writes, write)
	}
	return len(p.writes), write
}

// Writes returns the writes so far, such as "POST /api/v1/namespaces/a/configmaps".
func (p *Proxy) Writes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.writes...)
}

// Kubeconfig writes a kubeconfig file for the proxy, and returns its path.
func (p *Proxy) Kubeconfig(t testing.TB) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: p.server.URL}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
