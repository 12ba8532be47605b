package sidecar

import (
	"context"
	"errors"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// healthCheckers are the user agents that look whether TensorBoard is there, but not at it.
var healthCheckers = []string{"kube-probe/", "GoogleHC/", "ELB-HealthChecker/"}

// newProxy returns the way to the TensorBoard at the address. Requests are passed on as they are, path prefix included,
// and noted in the activity. Responses are streamed.
func newProxy(address, pathPrefix string, a *activity, logger *log.Logger) http.Handler {
	target := &url.URL{Scheme: "http", Host: address}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			forward(r)
		},
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true, // what the browser asks for is for the browser
		},
		FlushInterval: -1, // at once
		ErrorLog:      logger,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(r.Context().Err(), context.Canceled) {
				return // nobody is there to be answered
			}
			logger.Printf("TensorBoard does not answer: %v", withoutURL(err))
			http.Error(w, "TensorBoard does not answer: it is starting, or has stopped. Try again in a few seconds.",
				http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHealthCheck(r) {
			defer a.begin()()
		}
		if pathPrefix != "" && r.URL.Path == "/" {
			// Who comes by kubectl port-forward does not know the prefix.
			http.Redirect(w, r, pathPrefix+"/", http.StatusFound)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// forward says where the request came from, and keeps what proxies before this one have said.
func forward(r *httputil.ProxyRequest) {
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if said, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = said
		}
	}
}

func isHealthCheck(r *http.Request) bool {
	for _, checker := range healthCheckers {
		if strings.HasPrefix(r.UserAgent(), checker) {
			return true
		}
	}
	return false
}
