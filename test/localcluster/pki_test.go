package localcluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestPKI(t *testing.T) {
	p := Paths{State: t.TempDir()}
	if err := p.ensurePKI("https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	caPEM, err := os.ReadFile(p.cert("ca"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		t.Fatal("the CA is not a certificate")
	}
	for _, id := range identities(p) {
		t.Run(id.file, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(p.cert(id.file), p.key(id.file))
			if err != nil {
				t.Fatal(err)
			}
			if pair.Leaf.Subject.CommonName != id.cn {
				t.Errorf("common name %q, want %q", pair.Leaf.Subject.CommonName, id.cn)
			}
			usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			if len(id.hosts) > 0 {
				usages = append(usages, x509.ExtKeyUsageServerAuth)
			}
			for _, usage := range usages {
				opts := x509.VerifyOptions{
					Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: time.Now().AddDate(9, 0, 0),
				}
				if _, err := pair.Leaf.Verify(opts); err != nil {
					t.Errorf("usage %v: %v", usage, err)
				}
			}
			for _, host := range id.hosts {
				if err := pair.Leaf.VerifyHostname(host); err != nil {
					t.Error(err)
				}
			}
			for _, path := range []string{p.cert(id.file), p.key(id.file)} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: mode %v, error %v, want 0600", path, info.Mode(), err)
				}
			}
		})
	}
	if _, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig()); err != nil {
		t.Errorf("kubeconfig: %v", err)
	}

	// A second run must not change files, because running daemons do not read them again.
	before, err := hashFiles(p.cert("ca"), p.cert("apiserver"), p.key("service-account"), p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ensurePKI("https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	after, err := hashFiles(p.cert("ca"), p.cert("apiserver"), p.key("service-account"), p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if before != after {
		t.Error("a second run replaced files")
	}
}
