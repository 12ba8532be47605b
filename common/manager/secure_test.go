package manager

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/listen/listentest"
)

const prometheusToken = "token-of-prometheus"

// reviewer returns the configuration for an API server that accepts one token. The user of the token is authorized to
// get metrics.
func reviewer(t *testing.T) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request, review any, decide func()) {
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		decide()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		answer(w, r, &review, func() {
			review.Status.Authenticated = review.Spec.Token == prometheusToken
			review.Status.User.Username = "prometheus"
		})
	})
	const accessReviews = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
	mux.HandleFunc(accessReviews, func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		answer(w, r, &review, func() { review.Status.Allowed = review.Spec.User == "prometheus" })
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// secureServer starts a server of secure metrics, which runs until the test ends, and returns its address.
func secureServer(t *testing.T, certDir string, logger logr.Logger) (address string, secure *security) {
	t.Helper()
	options := DefaultOptions()
	options.MetricsBindAddress, options.HealthProbeBindAddress = "127.0.0.1:0", "0"
	options.MetricsSecure, options.MetricsCertDir = true, certDir
	secure, err := newSecurity(reviewer(t), options, logger)
	if err != nil {
		t.Fatal(err)
	}
	all, err := servers(t.Context(), options, secure)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = all[0].Server.Serve(all[0].Listener) }()
	t.Cleanup(func() { _ = all[0].Server.Close() })
	return all[0].Listener.Addr().String(), secure
}

// encrypted connects to a server by TLS without verifying its certificate.
func encrypted(t *testing.T, address string, config *tls.Config) *tls.Conn {
	t.Helper()
	config.InsecureSkipVerify = true
	return tls.Client(listentest.Dial(t, "127.0.77.1", address), config)
}

// withToken returns a request for a path with a bearer token.
func withToken(path, token string) string {
	return strings.Replace(listentest.Get(path), "\r\n\r\n", "\r\nAuthorization: Bearer "+token+"\r\n\r\n", 1)
}

func TestSecureMetricsNeedATokenOverTLS(t *testing.T) {
	t.Parallel()
	address, _ := secureServer(t, "", logr.Discard())
	post := strings.Replace(listentest.Get("/metrics"), "GET", "POST", 1)
	for name, tc := range map[string]struct {
		request string
		want    int
	}{
		"a client without a token gets no metrics":                   {listentest.Get("/metrics"), 401},
		"a client with an invalid token gets no metrics":             {withToken("/metrics", "forged"), 401},
		"Prometheus gets metrics":                                    {withToken("/metrics", prometheusToken), 200},
		"a client without a token cannot see whether a path exists":  {listentest.Get("/"), 401},
		"Prometheus gets no other path":                              {withToken("/", prometheusToken), 404},
		"a client with a large header is refused":                    {listentest.Large(listen.MaxHeader), 431},
		"a client without a token gets no metrics by another method": {post, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := listentest.Ask(t, encrypted(t, address, &tls.Config{}), tc.request); got != tc.want {
				t.Errorf("got status %d, want %d", got, tc.want)
			}
		})
	}
	t.Run("a client without TLS is refused", func(t *testing.T) {
		t.Parallel()
		c := listentest.Dial(t, "127.0.77.1", address)
		if got := listentest.Ask(t, c, withToken("/metrics", prometheusToken)); got != http.StatusBadRequest {
			t.Errorf("got status %d, want %d", got, http.StatusBadRequest)
		}
	})
}

func TestSecureMetricsNegotiateTLS(t *testing.T) {
	t.Parallel()
	address, _ := secureServer(t, "", logr.Discard())
	type result struct {
		Version  uint16
		Protocol string
		Refused  bool
	}
	for name, tc := range map[string]struct {
		config *tls.Config
		want   result
	}{
		"TLS 1.3 is used if the client supports it": {&tls.Config{}, result{Version: tls.VersionTLS13}},
		"TLS 1.2 is used if the client supports no later version": {
			&tls.Config{MaxVersion: tls.VersionTLS12}, result{Version: tls.VersionTLS12},
		},
		"versions before TLS 1.2 are refused": {
			&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, result{Refused: true},
		},
		"HTTP/1.1 is used if the client also supports HTTP/2": {
			&tls.Config{NextProtos: []string{"h2", "http/1.1"}}, result{tls.VersionTLS13, "http/1.1", false},
		},
		"a client that only supports HTTP/2 is refused": {&tls.Config{NextProtos: []string{"h2"}}, result{Refused: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := encrypted(t, address, tc.config)
			var got result
			if err := c.HandshakeContext(t.Context()); err != nil {
				got.Refused = true
			} else {
				got.Version, got.Protocol = c.ConnectionState().Version, c.ConnectionState().NegotiatedProtocol
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected connection (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecureMetricsAreAvailableWhileClientsHoldConnections(t *testing.T) {
	t.Parallel()
	address, _ := secureServer(t, "", logr.Discard())
	listentest.Crowd(t, address, maxConnections)
	got := listentest.Ask(t, encrypted(t, address, &tls.Config{}), withToken("/metrics", prometheusToken))
	if got != http.StatusOK {
		t.Errorf("got status %d, want %d", got, http.StatusOK)
	}
}

// writeCertificate writes a new certificate for a host into a directory, as the kubelet does for a Secret.
func writeCertificate(t *testing.T, folder, host string) {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	version, err := os.MkdirTemp(folder, "version-")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(filepath.Join(version, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("data", name), filepath.Join(folder, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	next := filepath.Join(folder, "next")
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(folder, "data")); err != nil {
		t.Fatal(err)
	}
}

// servedHost returns the host name in the certificate of a server.
func servedHost(t *testing.T, address string) string {
	t.Helper()
	c := encrypted(t, address, &tls.Config{})
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(c.ConnectionState().PeerCertificates[0].DNSNames, ",")
}

func TestCertificateInADirectoryIsServedAndReloaded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeCertificate(t, folder, "first")
	address, secure := secureServer(t, folder, logr.Discard())
	changes := make(chan string, 10)
	secure.watcher.RegisterCallback(func(certificate tls.Certificate) {
		changes <- strings.Join(certificate.Leaf.DNSNames, ",")
	})
	got := []string{<-changes, servedHost(t, address)}
	writeCertificate(t, folder, "second")
	if err := secure.watcher.ReadCertificate(); err != nil { // the watcher does this every 10 s, and when a file changes
		t.Fatal(err)
	}
	got = append(got, <-changes, servedHost(t, address))
	if diff := cmp.Diff([]string{"first", "first", "second", "second"}, got); diff != "" {
		t.Errorf("unexpected certificates (-want +got):\n%s", diff)
	}
}

func TestCertificateInADirectoryCanBeVerified(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeCertificate(t, folder, "metrics.example.org")
	address, _ := secureServer(t, folder, logr.Discard())
	roots, err := certutil.NewPool(filepath.Join(folder, certFile))
	if err != nil {
		t.Fatal(err)
	}
	verifying := &tls.Config{RootCAs: roots, ServerName: "metrics.example.org"}
	c := tls.Client(listentest.Dial(t, "127.0.77.1", address), verifying)
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestErrorsOfSecureMetricsNameTheFlag(t *testing.T) {
	t.Parallel()
	const unread = "reading the certificate of the metrics (--metrics-cert-dir): "
	empty, wrong := t.TempDir(), t.TempDir()
	for _, name := range []string{certFile, keyFile} {
		if err := os.WriteFile(filepath.Join(wrong, name), []byte("wrong"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		secure  bool
		certDir string
		want    string
	}{
		"a directory without a certificate is an error":   {true, empty, unread},
		"a certificate that cannot be parsed is an error": {true, wrong, unread},
		"a certificate without secure metrics is an error": {
			false, empty, "--metrics-cert-dir needs --metrics-secure",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newSecurity(&rest.Config{}, Options{MetricsSecure: tc.secure, MetricsCertDir: tc.certDir}, logr.Discard())
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("the error is %v, want the prefix %q", err, tc.want)
			}
		})
	}
}

func TestMetricsAreNotSecureByDefault(t *testing.T) {
	t.Parallel()
	secure, err := newSecurity(&rest.Config{}, DefaultOptions(), logr.Discard())
	if secure != nil || err != nil {
		t.Errorf("newSecurity returned %v, %v; want nil, nil", secure, err)
	}
}

func TestLogDoesNotContainTokensOfClients(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := withoutQuotes(zap.New(chattyLogger(&out)))
	options := DefaultOptions()
	options.MetricsSecure = true
	secure, err := newSecurity(reviewer(t), options, logger)
	if err != nil {
		t.Fatal(err)
	}
	ctx := ctrl.LoggerInto(t.Context(), logger)
	handler := secure.filter.Protect(http.NotFoundHandler())
	for _, token := range []string{prometheusToken, "token-that-is-forged"} {
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, metricsPath, nil)
		request.Header.Set("Authorization", "Bearer "+token)
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
	if !strings.Contains(out.String(), `"msg":"Request Body"`) {
		t.Errorf("client-go no longer logs request bodies, so that this test has no effect: %s", &out)
	}
	for _, secret := range []string{prometheusToken, "token-that-is-forged"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the log contains a token: %s", &out)
		}
	}
}

func TestFailedHandshakesAreOnlyLoggedAtDebugLevel(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options []zap.Opts
		want    int
	}{
		"the default log does not contain the handshake": {nil, 0},
		"the debug log contains the handshake":           {[]zap.Opts{zap.UseDevMode(true), zap.JSONEncoder()}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			s := &security{logger: zap.New(append(tc.options, zap.WriteTo(&out))...)}
			s.errorLog().Print("http: TLS handshake error from 10.0.0.1:1234: EOF")
			if got := strings.Count(out.String(), "TLS handshake error"); got != tc.want {
				t.Errorf("the log has %d lines about the handshake, want %d: %s", got, tc.want, &out)
			}
		})
	}
}

// slowSigner counts the signatures that have begun. Each signature ends when a value is sent to the channel.
type slowSigner struct {
	crypto.Signer
	begun *atomic.Int32
	end   <-chan struct{}
}

func (s slowSigner) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	s.begun.Add(1)
	<-s.end
	return nil, nil
}

func TestSignaturesOfHandshakesTakeTurns(t *testing.T) {
	t.Parallel()
	const peers = 4
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		end, turn := make(chan struct{}), make(chan struct{}, 1)
		for range peers {
			signer := signerInTurn{slowSigner{begun: &begun, end: end}, turn, nil}
			go func() { _, _ = signer.Sign(nil, nil, nil) }()
		}
		for want := range int32(peers) {
			synctest.Wait()
			if got := begun.Load(); got != want+1 {
				t.Errorf("%d signatures have begun after %d have ended, want %d", got, want, want+1)
			}
			end <- struct{}{}
		}
	})
}

// A client that opens connections faster than signatures are created must not fill the memory with closed connections.
func TestAHandshakeStopsWaitingWhenItsConnectionIsClosed(t *testing.T) {
	t.Parallel()
	failures := make(chan string, 1)
	logger := funcr.New(func(_, line string) { failures <- line }, funcr.Options{Verbosity: 1})
	listener, err := listen.TCP(t.Context(), "127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	greeted, end := make(chan struct{}), make(chan struct{})
	config := tlsConfig(func() (*tls.Certificate, error) {
		greeted <- struct{}{}
		certificate, err := pair()
		slow := *certificate
		slow.PrivateKey = slowSigner{certificate.PrivateKey.(crypto.Signer), new(atomic.Int32), end}
		return &slow, err
	})
	server := listen.NewServer(http.NotFoundHandler())
	server.ErrorLog = (&security{logger: logger}).errorLog()
	go func() { _ = server.Serve(tls.NewListener(listener, config)) }()
	t.Cleanup(func() { _ = server.Close() })
	for range 3 { // the first connection signs, the second waits, and the third replaces the second
		c := encrypted(t, listener.Addr().String(), &tls.Config{})
		go func() { _ = c.HandshakeContext(t.Context()) }()
		<-greeted
	}
	if got := <-failures; !strings.Contains(got, context.Canceled.Error()) {
		t.Errorf("the handshake ended with %s, want an error with %q", got, context.Canceled)
	}
	close(end)
}
