package sidecar

import (
	"context"
	"errors"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"
)

// healthCheckers are prefixes of the user agents of health checks, which do not count as use of TensorBoard.
var healthCheckers = []string{"kube-probe/", "GoogleHC/", "ELB-HealthChecker/"}

// newProxy returns a proxy for the TensorBoard at the address. The proxy forwards requests with an unchanged path,
// which includes the path prefix, and streams responses. The activity records each request that is not a health
// check.
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
			DisableCompression:  true, // the browser negotiates the compression
		},
		FlushInterval: -1, // flush immediately
		ErrorLog:      logger,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(r.Context().Err(), context.Canceled) {
				return // the client is gone
			}
			logger.Printf("TensorBoard does not respond: %v", withoutURL(err))
			http.Error(w, "TensorBoard does not respond, because it is starting or has stopped. Try again in a few seconds.",
				http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHealthCheck(r) {
			defer a.begin()()
		}
		if pathPrefix != "" && r.URL.Path == "/" {
			// Users of kubectl port-forward open the root, because they do not know the prefix.
			http.Redirect(w, r, pathPrefix+"/", http.StatusFound)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// forward sets the headers about the origin of the request. It keeps the values that earlier proxies have set.
func forward(r *httputil.ProxyRequest) {
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values
		}
	}
}

// isHealthCheck reports whether a request is a health check of a kubelet or a load balancer.
func isHealthCheck(r *http.Request) bool {
	return slices.ContainsFunc(healthCheckers, func(c string) bool { return strings.HasPrefix(r.UserAgent(), c) })
}
