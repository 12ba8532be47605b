package manager

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"tensorstack.dev/jobs/common/fair"
)

// maxUnderWay is the maximum number of concurrent requests to the API server. It suffices for the default rate of 500
// requests per second while a request takes less than 0.2 s. One namespace can have at most half of the requests. The
// API server accepts more: with default flags, it handles 245 requests of ServiceAccounts concurrently. So requests
// wait in the controller, where namespaces take turns, and not in the API server.
const maxUnderWay = 100

// shareRequests makes all clients of a configuration share a rate limit and a limit of concurrent requests to the API
// server. Namespaces take turns. These limits replace the rate limit that each client would have.
func shareRequests(config *rest.Config, qps float32, burst int) {
	shared := requests{underWay: fair.NewPool(maxUnderWay)}
	if qps >= 0 { // as in rest.Config, a negative rate means no limit, and 0 means the default
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

// requests is the transport of a client. It applies the limits that all clients of a configuration share.
type requests struct {
	next     http.RoundTripper
	underWay *fair.Pool
	tokens   *fair.Bucket // nil means no limit
}

// RoundTrip implements http.RoundTripper. Watches do not count towards the limits, because a watch lasts for minutes
// and there is only one for each kind.
//
// A request counts as under way until the header of its response arrives. The API server has then done its work, and
// the client reads the body immediately. If a request counted until its body is closed, a request whose body is never
// closed would count forever.
func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "true" {
		return r.next.RoundTrip(request)
	}
	namespace := namespaceOf(request)
	if err := r.wait(request.Context(), namespace); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper must close it
		}
		return nil, err
	}
	defer r.underWay.Release(namespace, 1)
	return r.next.RoundTrip(request)
}

// wait waits until a request of a namespace can be sent. The request then counts as under way, unless wait returns an
// error.
func (r *requests) wait(ctx context.Context, namespace string) error {
	// Wait for a place in underWay first, and then for a token. One namespace gets at most half of the places, so no
	// more than maxUnderWay/2 of its requests wait for tokens.
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

// namespaceOf returns the namespace in the path of a request. It is empty for cluster-scoped objects other than
// Namespaces, and for requests to all namespaces.
func namespaceOf(request *http.Request) string {
	_, rest, _ := strings.Cut(request.URL.Path, "/namespaces/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}
