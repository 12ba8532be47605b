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
	// metricsPath is the path of the metrics, to which a peer needs the right if they are secure.
	metricsPath = "/metrics"
	// The files of a certificate have the names that a Secret of type kubernetes.io/tls gives them.
	certFile, keyFile = "tls.crt", "tls.key"
)

// security is how secure metrics are served.
type security struct {
	filter *access.Filter
	tls    *tls.Config
	// watcher reads the certificate again when its files change. Nil means that the certificate is self-signed.
	watcher *certwatcher.CertWatcher
	logger  logr.Logger
}

// newSecurity returns how secure metrics are served: peers are reviewed by the API server of the configuration. It
// returns nil if the options do not ask for secure metrics.
func newSecurity(config *rest.Config, options Options, logger logr.Logger) (*security, error) {
	if !options.MetricsSecure {
		if options.MetricsCertDir != "" {
			return nil, errors.New("--metrics-cert-dir needs --metrics-secure")
		}
		return nil, nil //nolint:nilnil // metrics that are not secure are no error
	}
	s := &security{logger: logger.WithName("metrics")}
	var err error
	if s.filter, err = access.New(config, metricsPath, s.logger); err != nil {
		return nil, fmt.Errorf("setting up the reviews of who asks for metrics (--metrics-secure): %w", err)
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

// selfSigned returns a certificate that is made now and kept in memory. Peers cannot verify it: it encrypts.
func selfSigned() (func() (*tls.Certificate, error), error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return func() (*tls.Certificate, error) { return &pair, nil }, err
}

// tlsConfig returns the configuration of a server with a certificate. It offers no HTTP/2, as controller-runtime does
// not either by default: a peer can make a server of HTTP/2 work a lot (CVE-2023-44487, CVE-2023-39325).
func tlsConfig(certificate func() (*tls.Certificate, error)) *tls.Config {
	turn := make(chan struct{}, 1)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // both sides choose 1.3 if they can
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			found, err := certificate()
			if err != nil {
				return nil, err
			}
			signer, ok := found.PrivateKey.(crypto.Signer)
			if !ok {
				return nil, fmt.Errorf("the key of the certificate is a %T, which cannot sign", found.PrivateKey)
			}
			inTurn := *found
			inTurn.PrivateKey = signerInTurn{signer, turn, hello.Context().Done()}
			return &inTurn, nil
		},
	}
}

// signerInTurn makes one signature after another, so that those who connect all the time take no more than one CPU for
// them. A peer does not take time while it has the turn.
type signerInTurn struct {
	crypto.Signer
	turn chan struct{} // holds a value while a signature is made
	// closed is closed with the connection, which then holds no memory while others have the turn.
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

// errorLog returns what a server logs its errors to. Most of them are handshakes that failed, and peers decide how many
// there are, so that only debug logs have them.
func (s *security) errorLog() *log.Logger {
	return log.New(debugWriter{s.logger}, "", 0)
}

// debugWriter logs what is written.
type debugWriter struct{ logger logr.Logger }

// Write implements io.Writer.
func (w debugWriter) Write(line []byte) (int, error) {
	w.logger.V(1).Info(string(line))
	return len(line), nil
}
