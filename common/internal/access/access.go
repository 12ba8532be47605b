// Package access protects an HTTP handler. The API server authenticates each peer by its bearer token and authorizes
// the peer.
//
// The filter of controller-runtime (pkg/metrics/filters) does the same with k8s.io/apiserver, which adds 20 MB to the
// binary of each controller. This package needs only client-go. It also limits the requests to the API server that
// peers without a valid token can cause.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"tensorstack.dev/jobs/common/fair"
	"tensorstack.dev/jobs/common/listen"
)

// Limits of a Filter.
const (
	// AllowedTTL is how long the filter remembers that a token was allowed.
	AllowedTTL = time.Minute
	// RefusedTTL is how long the filter remembers that a token was refused.
	RefusedTTL = 10 * time.Second
	// MaxAnswers is the maximum number of allowed tokens that a filter remembers. Refused tokens have the same maximum.
	// For another one, the filter forgets the token that was not used for the longest time.
	MaxAnswers = 256
	// Timeout is the maximum time for a request to wait for its turn and for the review of its token.
	Timeout = 5 * time.Second
	// Rate is the average number of reviews per second. A review sends one request to the API server, and a second one
	// if the token is valid.
	Rate = 5
	// Burst is the maximum number of consecutive reviews that the rate limit does not delay, if no review precedes them.
	Burst = 5
)

// Filter reviews the tokens of peers, one after another. IP addresses of peers take turns, so that a peer that sends
// many tokens does not delay other peers for long.
type Filter struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	path   string
	logger logr.Logger
	rate   *fair.Bucket

	turn     chan struct{} // holds a value while a token is reviewed
	reported string        // the error that was logged last; guarded by turn

	allowed, refused *cache.LRUExpireCache // statuses by the hash of the token
}

// New returns a filter that sends reviews to the API server of the configuration. RBAC must allow a peer to get the
// path as a nonResourceURL. The filter has its own rate limit and ignores the rate limit of the configuration.
func New(config *rest.Config, path string, logger logr.Logger) (*Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	authentication, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return newFilter(authentication.TokenReviews(), authorization.SubjectAccessReviews(), path, logger), nil
}

func newFilter(
	tokens authenticationclient.TokenReviewInterface, access authorizationclient.SubjectAccessReviewInterface,
	path string, logger logr.Logger,
) *Filter {
	return &Filter{
		tokens: tokens, access: access, path: path, logger: logger,
		rate: fair.NewBucket(Rate, Burst), turn: make(chan struct{}, 1),
		allowed: cache.NewLRUExpireCache(MaxAnswers), refused: cache.NewLRUExpireCache(MaxAnswers),
	}
}

// Protect returns a handler that calls the given handler only for peers that are allowed. Other peers get status 401
// if the token is missing or not valid. They get 403 if the user of the token has no access to the path, and 503 if
// the API server returned an error or did not review the token in time.
func (f *Filter) Protect(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		status := f.statusOf(request)
		if status == http.StatusOK {
			handler.ServeHTTP(w, request)
			return
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(status), status)
	})
}

// statusOf returns 200 if a request is allowed, and otherwise the status of the response.
func (f *Filter) statusOf(request *http.Request) int {
	token := bearerToken(request)
	if token == "" {
		return http.StatusUnauthorized
	}
	hash := key(sha256.Sum256([]byte(token)))
	if status, ok := f.remembered(hash); ok {
		return status
	}
	ctx, cancel := context.WithTimeout(request.Context(), Timeout)
	defer cancel()
	if f.rate.Wait(ctx, listen.AddressOf(request.RemoteAddr)) != nil {
		return http.StatusServiceUnavailable
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return http.StatusServiceUnavailable
	}
	if status, ok := f.remembered(hash); ok { // while this request waited, another one reviewed the same token
		return status
	}
	status, err := f.review(ctx, token)
	if err != nil {
		if request.Context().Err() == nil { // the peer still waits for the response
			f.report(err, token)
		}
		return http.StatusServiceUnavailable
	}
	f.reported = ""
	f.remember(hash, status)
	return status
}

// bearerToken returns the bearer token of a request. Empty means none.
func bearerToken(request *http.Request) string {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// review asks the API server which user has a token, and then whether the user has access to the path. It returns 200,
// 401 or 403.
func (f *Filter) review(ctx context.Context, token string) (int, error) {
	question := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	reviewed, err := f.tokens.Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !reviewed.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := reviewed.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	access, err := f.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: f.path, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !access.Status.Allowed || access.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// report logs an error without the token, which an error of the API server can contain. If consecutive reviews fail
// with the same error, it logs the error only once, because peers can cause any number of errors.
func (f *Filter) report(err error, token string) {
	text := strings.ReplaceAll(err.Error(), token, "(token)")
	if text == f.reported {
		return
	}
	f.reported = text
	f.logger.Error(errors.New(text), "Failed to review a token; the peer is refused")
}

// remembered returns the status for the token with the given hash. If ok is false, the filter does not remember the
// token.
func (f *Filter) remembered(hash key) (status int, ok bool) {
	for _, answers := range []*cache.LRUExpireCache{f.allowed, f.refused} {
		if status, ok := answers.Get(hash); ok {
			return status.(int), true //nolint:forcetypeassert // remember adds only statuses
		}
	}
	return 0, false
}

// remember stores the status for a token. Refused tokens cannot displace allowed tokens.
func (f *Filter) remember(hash key, status int) {
	if status == http.StatusOK {
		f.allowed.Add(hash, status, AllowedTTL)
	} else {
		f.refused.Add(hash, status, RefusedTTL)
	}
}

// key is the hash of a token. The filter does not store tokens.
type key [sha256.Size]byte
