package manager

import (
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"tensorstack.dev/jobs/common/internal/access"
)

const (
	// metricsPath is the path of the metrics. With secure metrics, clients need the permission to get this path.
	metricsPath = "/metrics"
	// The names of the files are the keys of a Secret of type kubernetes.io/tls.
	certFile, keyFile = "tls.crt", "tls.key"
)

// security contains the access control and the TLS configuration of secure metrics.
type security struct {
	filter *access.Filter
	tls    *tls.Config
	// watcher reloads the certificate when its files change. Nil means that the certificate is self-signed.
	watcher *certwatcher.CertWatcher
	logger  logr.Logger
}

// newSecurity returns the security of the metrics. The API server of the configuration reviews the tokens and the
// permissions of clients. newSecurity returns nil if the options do not enable secure metrics.
func newSecurity(config *rest.Config, options Options, logger logr.Logger) (*security, error) {
	if !options.MetricsSecure {
		if options.MetricsCertDir != "" {
			return nil, errors.New("--metrics-cert-dir needs --metrics-secure")
		}
		return nil, nil //nolint:nilnil // metrics without security are valid
	}
	s := &security{logger: logger.WithName("metrics")}
	var err error
	if s.filter, err = access.New(config, metricsPath, s.logger); err != nil {
		return nil, fmt.Errorf("setting up the access control of the metrics (--metrics-secure): %w", err)
	}
	var certificate func() (*tls.Certificate, error)
	if options.MetricsCertDir == "" {
		certificate, err = selfSigned()
	} else {
		folder := options.MetricsCertDir
		s.watcher, err = certwatcher.New(filepath.Join(folder, certFile), filepath.Join(folder, keyFile))
		certificate = func() (*tls.Certificate, error) { return s.watcher.GetCertificate(nil) }
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the metrics (--metrics-cert-dir): %w", err)
	}
	s.tls = tlsConfig(certificate)
	return s, nil
}

// selfSigned creates a certificate that is kept only in memory, and returns a function that returns the certificate.
// The certificate enables encryption, but clients cannot verify it.
func selfSigned() (func() (*tls.Certificate, error), error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return func() (*tls.Certificate, error) { return &pair, nil }, err
}

// tlsConfig returns the configuration of a server with a certificate. It disables HTTP/2, as controller-runtime does by
// default, because a client can easily overload an HTTP/2 server (CVE-2023-44487, CVE-2023-39325).
func tlsConfig(certificate func() (*tls.Certificate, error)) *tls.Config {
	turn := make(chan struct{}, 1)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // TLS 1.3 is used if the client supports it
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			found, err := certificate()
			if err != nil {
				return nil, err
			}
			signer, ok := found.PrivateKey.(crypto.Signer)
			if !ok {
				return nil, fmt.Errorf("the private key of the certificate is a %T, which cannot sign", found.PrivateKey)
			}
			inTurn := *found
			inTurn.PrivateKey = signerInTurn{signer, turn, hello.Context().Done()}
			return &inTurn, nil
		},
	}
}

// signerInTurn creates signatures one at a time, so that clients that connect all the time use at most one CPU. A
// slow client does not delay the others, because no data is sent or received while a signature is created.
type signerInTurn struct {
	crypto.Signer
	turn chan struct{} // contains a value while a signature is created
	// closed is a channel that is closed when the connection is closed. The handshake then stops waiting for its turn,
	// so that its memory is freed.
	closed <-chan struct{}
}

// Sign implements crypto.Signer.
func (s signerInTurn) Sign(random io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return s.Signer.Sign(random, digest, options)
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// errorLog returns a logger for the errors of a server. The logger logs at debug level, because most errors are
// failed handshakes, and clients can cause any number of them.
func (s *security) errorLog() *log.Logger {
	return log.New(debugWriter{s.logger}, "", 0)
}

// debugWriter is a writer that logs each written line at debug level.
type debugWriter struct{ logger logr.Logger }

// Write implements io.Writer.
func (w debugWriter) Write(line []byte) (int, error) {
	w.logger.V(1).Info(string(line))
	return len(line), nil
}
