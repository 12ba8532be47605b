package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const path = "/metrics"

// apiServer authenticates tokens of the form "token of NAME". It allows access to users whose names begin with
// "prometheus", and denies access to users whose names end with "denied".
type apiServer struct {
	mu sync.Mutex
	// reviewed holds the tokens in the order of their reviews.
	reviewed []string
	// asked holds the SubjectAccessReviews that the filter has created.
	asked []authorizationv1.SubjectAccessReview
	// err is the error of the next reviews. Nil means no error.
	err error
	// answer delays each TokenReview until it receives a value from this channel. A nil channel delays no review.
	answer chan struct{}
}

func (s *apiServer) filter(logger logr.Logger) *Filter {
	return newFilter(tokenReviews{s: s}, accessReviews{s: s}, path, logger)
}

func (s *apiServer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// reviews returns the number of reviewed tokens.
func (s *apiServer) reviews() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reviewed)
}

type tokenReviews struct {
	authenticationclient.TokenReviewInterface
	s *apiServer
}

func (r tokenReviews) Create(
	ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	r.s.mu.Lock()
	token := review.Spec.Token
	r.s.reviewed = append(r.s.reviewed, token)
	err := r.s.err
	r.s.mu.Unlock()
	if r.s.answer != nil {
		select {
		case <-r.s.answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	name, known := strings.CutPrefix(token, "token of ")
	answer := review.DeepCopy()
	answer.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{
		Username: name, UID: "uid", Groups: []string{"group"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
	}}
	if !known {
		answer.Status = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	}
	return answer, nil
}

type accessReviews struct {
	authorizationclient.SubjectAccessReviewInterface
	s *apiServer
}

func (r accessReviews) Create(
	_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.asked = append(r.s.asked, *review)
	answer := review.DeepCopy()
	answer.Status.Allowed = strings.HasPrefix(review.Spec.User, "prometheus")
	answer.Status.Denied = strings.HasSuffix(review.Spec.User, "denied")
	return answer, r.s.err
}

// scrape requests metrics from an IP address and returns the response.
func scrape(ctx context.Context, f *Filter, address, authorization string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	request.RemoteAddr = address + ":1234"
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	recorder := httptest.NewRecorder()
	f.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "metrics")
	})).ServeHTTP(recorder, request)
	return recorder
}

// status returns the response status of a scrape with a token.
func status(t *testing.T, f *Filter, token string) int {
	t.Helper()
	return scrape(t.Context(), f, "10.0.0.1", "Bearer "+token).Code
}

func TestOnlyAllowedPeersGetMetrics(t *testing.T) {
	t.Parallel()
	type result struct {
		Status    int
		Body      string
		Challenge string
		Reviews   int
	}
	unauthorized := result{http.StatusUnauthorized, "Unauthorized\n", "Bearer", 0}
	rejected := unauthorized
	rejected.Reviews = 1
	forbidden := result{http.StatusForbidden, "Forbidden\n", "", 1}
	for name, tc := range map[string]struct {
		authorization string
		want          result
	}{
		"a peer without a token gets 401":        {"", unauthorized},
		"a peer with an empty token gets 401":    {"Bearer ", unauthorized},
		"a peer with a password gets 401":        {"Basic dG9rZW4gb2YgcHJvbWV0aGV1cw==", unauthorized},
		"a token that is not valid gets 401":     {"Bearer forged", rejected},
		"a user without access gets 403":         {"Bearer token of a tenant", forbidden},
		"a user whose access is denied gets 403": {"Bearer token of prometheus denied", forbidden},
		"a user with access gets metrics":        {"Bearer token of prometheus", result{200, "metrics", "", 1}},
		"the scheme is not case-sensitive":       {"bearer token of prometheus", result{200, "metrics", "", 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServer{}
			answer := scrape(t.Context(), server.filter(logr.Discard()), "10.0.0.1", tc.authorization)
			got := result{answer.Code, answer.Body.String(), answer.Header().Get("WWW-Authenticate"), server.reviews()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccessReviewIsAboutTheUserOfTheToken(t *testing.T) {
	t.Parallel()
	server := &apiServer{}
	status(t, server.filter(logr.Discard()), "token of prometheus")
	want := []authorizationv1.SubjectAccessReview{{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "prometheus", UID: "uid", Groups: []string{"group"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}}
	if diff := cmp.Diff(want, server.asked); diff != "" {
		t.Errorf("unexpected access review (-want +got):\n%s", diff)
	}
}

func TestAnAnswerIsRememberedUntilItExpires(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token string
		ttl   time.Duration
	}{
		"an allowed token is remembered":                 {"token of prometheus", AllowedTTL},
		"an invalid token is remembered":                 {"forged", RefusedTTL},
		"a token of a user without access is remembered": {"token of a tenant", RefusedTTL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{}
				f := server.filter(logr.Discard())
				first := status(t, f, tc.token)
				time.Sleep(tc.ttl)
				again := status(t, f, tc.token)
				if got := server.reviews(); got != 1 || again != first {
					t.Errorf("within %s the token was reviewed %d times, want 1, and the status changed from %d to %d",
						tc.ttl, got, first, again)
				}
				time.Sleep(time.Nanosecond)
				status(t, f, tc.token)
				if got := server.reviews(); got != 2 {
					t.Errorf("after %s the token was reviewed %d times, want 2", tc.ttl, got)
				}
			})
		})
	}
}

func TestAnAllowedTokenIsRefusedAfterAllowedTTLIfReviewsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		f := server.filter(logr.Discard())
		got := []int{status(t, f, "token of prometheus")}
		server.fail(errors.New("the API server is down"))
		got = append(got, status(t, f, "token of prometheus"))
		time.Sleep(AllowedTTL + time.Nanosecond)
		got = append(got, status(t, f, "token of prometheus"))
		server.fail(nil)
		got = append(got, status(t, f, "token of prometheus"))
		if diff := cmp.Diff([]int{200, 200, 503, 200}, got); diff != "" {
			t.Errorf("unexpected statuses (-want +got):\n%s", diff)
		}
	})
}

func TestFilterRemembersALimitedNumberOfTokens(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{
		"allowed tokens are limited": http.StatusOK, "refused tokens are limited": http.StatusForbidden,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const surplus = 10
				f := (&apiServer{}).filter(logr.Discard())
				hash := func(i int) key { return sha256.Sum256(fmt.Append(nil, i)) }
				for i := range MaxAnswers + surplus {
					f.remember(hash(i), code)
					time.Sleep(time.Millisecond)
				}
				if got := len(f.allowed.Keys()) + len(f.refused.Keys()); got != MaxAnswers {
					t.Errorf("%d tokens are remembered, want %d", got, MaxAnswers)
				}
				for i := range MaxAnswers + surplus {
					if _, got := f.remembered(hash(i)); got != (i >= surplus) {
						t.Errorf("token %d of %d is remembered: %t, want %t", i, MaxAnswers+surplus, got, i >= surplus)
					}
				}
				time.Sleep(AllowedTTL)
				f.remember(hash(0), code)
				if got := len(f.allowed.Keys()) + len(f.refused.Keys()); got != 1 {
					t.Errorf("%d tokens are remembered after all but one have expired, want 1", got)
				}
			})
		})
	}
}

func TestRefusedTokensDoNotDisplaceAllowedTokens(t *testing.T) {
	t.Parallel()
	server := &apiServer{}
	f := server.filter(logr.Discard())
	status(t, f, "token of prometheus")
	for i := range 2 * MaxAnswers {
		f.remember(sha256.Sum256(fmt.Append(nil, i)), http.StatusForbidden)
	}
	if got := status(t, f, "token of prometheus"); got != http.StatusOK || server.reviews() != 1 {
		t.Errorf("got status %d after %d reviews, want 200 after 1", got, server.reviews())
	}
}

func TestFilterStoresNoTokens(t *testing.T) {
	t.Parallel()
	f := (&apiServer{}).filter(logr.Discard())
	status(t, f, "token of prometheus")
	status(t, f, "forged")
	text := fmt.Sprintf("%+v %v %v", f, f.allowed.Keys(), f.refused.Keys())
	if strings.Contains(text, "prometheus") || strings.Contains(text, "forged") {
		t.Errorf("the filter stores a token: %s", text)
	}
}

func TestRequestsWithTheSameTokenShareAReview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: make(chan struct{})}
		f := server.filter(logr.Discard())
		codes := make(chan int, Burst)
		for range Burst {
			go func() { codes <- status(t, f, "token of prometheus") }()
		}
		synctest.Wait()
		server.answer <- struct{}{}
		for range Burst {
			if got := <-codes; got != http.StatusOK {
				t.Errorf("got status %d, want 200", got)
			}
		}
		if got := server.reviews(); got != 1 {
			t.Errorf("the token was reviewed %d times, want 1", got)
		}
	})
}

func TestOneTokenIsReviewedAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: make(chan struct{})}
		f := server.filter(logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 2 * Burst {
			go scrape(ctx, f, "10.0.0.1", fmt.Sprintf("Bearer forged %d", i))
		}
		synctest.Wait()
		if got := server.reviews(); got != 1 {
			t.Errorf("%d tokens are reviewed at the same time, want 1", got)
		}
	})
}

func TestRateOfReviewsIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		f := server.filter(logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 100 {
			go scrape(ctx, f, "10.0.0.1", fmt.Sprintf("Bearer forged %d", i))
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if got := server.reviews(); got != Burst+Rate {
			t.Errorf("%d tokens were reviewed within a second, want %d", got, Burst+Rate)
		}
	})
}

func TestAPeerThatSendsManyTokensDoesNotDelayOtherPeers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := (&apiServer{}).filter(logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 100 {
			go scrape(ctx, f, "10.0.0.66", fmt.Sprintf("Bearer forged %d", i))
		}
		synctest.Wait()
		begin := time.Now()
		code := scrape(t.Context(), f, "10.0.0.1", "Bearer token of prometheus").Code
		if took := time.Since(begin); code != http.StatusOK || took > 3*time.Second/Rate {
			t.Errorf("got status %d after %s, want 200 within %s", code, took, 3*time.Second/Rate)
		}
	})
}

func TestAPeerGetsAnAnswerWithinTheTimeout(t *testing.T) {
	t.Parallel()
	for name, peers := range map[string]int{
		"one peer gets an answer if the API server does not respond": 1,
		"a burst of peers gets an answer":                            Burst,
		"many peers get an answer":                                   100,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := (&apiServer{answer: make(chan struct{})}).filter(logr.Discard())
				begin := time.Now()
				codes := make(chan int)
				for i := range peers {
					go func() { codes <- status(t, f, fmt.Sprint("token of prometheus ", i)) }()
				}
				for range peers {
					if got := <-codes; got != http.StatusServiceUnavailable {
						t.Errorf("got status %d, want 503", got)
					}
				}
				if took := time.Since(begin); took != Timeout {
					t.Errorf("the answers took %s, want %s", took, Timeout)
				}
			})
		})
	}
}

func TestAReviewEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := (&apiServer{answer: make(chan struct{})}).filter(logTo(&log))
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			scrape(ctx, f, "10.0.0.1", "Bearer token of prometheus")
			close(ended)
		}()
		synctest.Wait()
		leave()
		<-ended
		if log.Len() > 0 {
			t.Errorf("a peer that disconnects causes a log line: %s", &log)
		}
	})
}

// logTo returns a logger that writes messages of all levels to a buffer.
func logTo(log *bytes.Buffer) logr.Logger {
	return funcr.New(func(_, args string) { fmt.Fprintln(log, args) }, funcr.Options{Verbosity: 10})
}

func TestAnErrorIsLoggedOnceAndWithoutTheToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const token = "token of prometheus"
		var log bytes.Buffer
		server := &apiServer{}
		f := server.filter(logTo(&log))
		fails := func(err error) {
			server.fail(err)
			if got := status(t, f, token); got != http.StatusServiceUnavailable {
				t.Errorf("got status %d, want 503", got)
			}
		}
		fails(fmt.Errorf("webhook rejects %q", token))
		fails(fmt.Errorf("webhook rejects %q", token))
		fails(errors.New("the API server is down"))
		server.fail(nil)
		status(t, f, token)
		time.Sleep(AllowedTTL + time.Nanosecond)
		fails(errors.New("the API server is down"))
		var got []string
		for line := range strings.Lines(log.String()) {
			_, after, _ := strings.Cut(line, `"error"=`)
			got = append(got, strings.TrimSpace(after))
		}
		down := `"the API server is down"`
		if diff := cmp.Diff([]string{`"webhook rejects \"(token)\""`, down, down}, got); diff != "" {
			t.Errorf("unexpected errors in the log (-want +got):\n%s", diff)
		}
	})
}

func TestNobodyIsAllowedIfReviewsFail(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	forbids := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no permission to create reviews", http.StatusForbidden)
	}))
	t.Cleanup(forbids.Close)
	for name, url := range map[string]string{
		"nobody is allowed if the API server is down":                           down.URL,
		"nobody is allowed if the controller has no permission to send reviews": forbids.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			f, err := New(&rest.Config{Host: url}, path, logTo(&log))
			if err != nil {
				t.Fatal(err)
			}
			if got := status(t, f, "token of prometheus"); got != http.StatusServiceUnavailable {
				t.Errorf("got status %d, want 503", got)
			}
			if text := log.String(); text == "" || strings.Contains(text, "token of") {
				t.Errorf("the log is %q, want one error without the token", text)
			}
		})
	}
}
