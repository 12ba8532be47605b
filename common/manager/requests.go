package manager

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"tensorstack.dev/jobs/common/fair"
)

// maxUnderWay bounds the requests to the API server that are under way. One namespace has at most half of them, which
// is enough for the default rate of 500 requests a second while one takes less than 0.2 s. An API server with default
// flags works on 245 requests of service accounts at once, so that those of one namespace do not wait there for those
// of another either.
const maxUnderWay = 100

// shareRequests has all clients of a configuration share a rate of requests to the API server, in which namespaces
// take turns, and the requests under way. It takes the place of the rate limit that each client would have of its
// own.
func shareRequests(config *rest.Config, qps float32, burst int) {
	shared := requests{underWay: fair.NewPool(maxUnderWay)}
	if qps >= 0 { // as in a rest.Config, less is no limit, and nothing is the default
		rate := cmp.Or(qps, rest.DefaultQPS)
		shared.tokens = fair.NewBucket(float64(rate), cmp.Or(burst, rest.DefaultBurst))
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		r := shared
		r.next = next
		return &r
	})
}

// requests is the transport of a client.
type requests struct {
	next     http.RoundTripper
	underWay *fair.Pool
	tokens   *fair.Bucket // nil: no limit
}

// RoundTrip implements http.RoundTripper. A watch takes neither a token nor a place among the requests under way: it
// lasts for minutes, and there is one a kind.
//
// A request is under way until the header of its answer is there: then the API server has done its work, and the
// client reads the rest at once. If the place were kept until the body is closed, a body that nobody closes would
// keep it for ever.
func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "true" {
		return r.next.RoundTrip(request)
	}
	namespace := namespaceOf(request)
	if err := r.wait(request.Context(), namespace); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	defer r.underWay.Release(namespace, 1)
	return r.next.RoundTrip(request)
}

// wait waits until a request of a namespace may be sent. Then it is under way, unless there is an error.
func (r *requests) wait(ctx context.Context, namespace string) error {
	// The place comes first: so a namespace has no more waiting for tokens than it may have under way.
	if err := r.underWay.Acquire(ctx, namespace, 1); err != nil {
		return err
	}
	if r.tokens == nil {
		return nil
	}
	err := r.tokens.Wait(ctx, namespace)
	if err != nil {
		r.underWay.Release(namespace, 1)
	}
	return err
}

// namespaceOf returns the namespace that a request is about, which is empty for objects without one and for those of
// all namespaces.
func namespaceOf(request *http.Request) string {
	_, rest, _ := strings.Cut(request.URL.Path, "/namespaces/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}
