package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

func TestANamespaceDoesNotWaitForTheRequestsOfAnother(t *testing.T) {
	t.Parallel()
	const busyPath, quietPath = "/api/v1/namespaces/busy/pods", "/api/v1/namespaces/quiet/pods"
	answer := make(chan struct{})
	arrived := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == busyPath && !r.URL.Query().Has("watch") {
			arrived <- struct{}{}
			<-answer
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	shareRequests(config, 500, 1000)
	// A program has several clients with one configuration.
	busy, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	quiet, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(client *http.Client, path string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		response, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: %s", path, err)
			return
		}
		response.Body.Close()
	}
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() { get(busy, busyPath) })
	}
	for range maxUnderWay / 2 {
		<-arrived
	}
	get(quiet, quietPath)
	get(quiet, "/api/v1/nodes")
	get(busy, busyPath+"?watch=true")
	if n := len(arrived); n > 0 {
		t.Errorf("one namespace has %d more requests under way than half of the limit", n)
	}
	close(answer)
	group.Wait()
	if n := len(arrived); n != 1000-maxUnderWay/2 {
		t.Errorf("%d requests arrived later, want %d", n, 1000-maxUnderWay/2)
	}
}

// transport is an http.RoundTripper that responds immediately.
type transport func(*http.Request)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	t(request)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// sharedTransport returns the transport of a client with a rate limit, and a counter of the requests that it has
// sent.
func sharedTransport(qps float32, burst int) (http.RoundTripper, *atomic.Int64) {
	var sent atomic.Int64
	config := &rest.Config{}
	shareRequests(config, qps, burst)
	return config.WrapTransport(transport(func(*http.Request) { sent.Add(1) })), &sent
}

func TestRateOfRequests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		qps   float32
		burst int
		path  string
		want  int64
	}{
		{"a burst is followed by the rate", 10, 5, "/api/v1/namespaces/ns/pods", 15},
		{"watches do not count", 10, 5, "/api/v1/namespaces/ns/pods?watch=true&resourceVersion=1", 60},
		{"a rate of 0 means the default of client-go", 0, 0, "/api/v1/namespaces/ns/pods", 15},
		{"a negative rate means no limit", -1, 0, "/api/v1/namespaces/ns/pods", 60},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, sent := sharedTransport(test.qps, test.burst)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 60 {
					go func() {
						request, _ := http.NewRequestWithContext(ctx, http.MethodGet, test.path, nil)
						if response, err := client.RoundTrip(request); err == nil {
							response.Body.Close()
						}
					}()
				}
				time.Sleep(time.Second + time.Millisecond)
				synctest.Wait()
				if got := sent.Load(); got != test.want {
					t.Errorf("%d requests were sent within a second, want %d", got, test.want)
				}
			})
		})
	}
}

// closed is a body that records whether it is closed.
type closed struct {
	io.Reader
	is bool
}

func (c *closed) Close() error {
	c.is = true
	return nil
}

func TestARequestWhoseContextHasExpiredIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, sent := sharedTransport(1, 1)
		post := func(timeout time.Duration) (*closed, error) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			body := &closed{Reader: strings.NewReader("{}")}
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/ns/pods", body)
			if err != nil {
				return body, err
			}
			response, err := client.RoundTrip(request)
			if err == nil {
				response.Body.Close()
			}
			return body, err
		}
		if _, err := post(time.Minute); err != nil {
			t.Fatal(err)
		}
		for range maxUnderWay { // a request that has failed no longer counts as under way
			body, err := post(time.Millisecond)
			if !errors.Is(err, context.DeadlineExceeded) || !body.is {
				t.Fatalf("the error is %v, want %v; the body is closed: %t, want true",
					err, context.DeadlineExceeded, body.is)
			}
		}
		if _, err := post(time.Minute); err != nil || sent.Load() != 2 {
			t.Errorf("%d requests were sent, want 2: %v", sent.Load(), err)
		}
	})
}

func TestNamespaceOfARequest(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/pods":                                "",
		"/api/v1/namespaces":                          "",
		"/api/v1/namespaces/ns":                       "ns",
		"/api/v1/namespaces/ns/pods/pod":              "ns",
		"/apis/events.k8s.io/v1/namespaces/ns/events": "ns",
		"/proxied/apis/batch.tensorstack.dev/v1beta1/namespaces/ns/ptjobs/j/status": "ns",
		"/apis/scheduler.tensorstack.dev/v1beta1/queues/namespaces":                 "",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := namespaceOf(request); got != want {
			t.Errorf("the namespace of %s is %q, want %q", path, got, want)
		}
	}
}
