package localcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is one certificate of the cluster.
type identity struct {
	file  string
	cn    string
	org   string
	hosts []string // the names and addresses of a server; empty for a client
	// kubeconfig is the path of the kubeconfig for a client of the API server. It is empty if the client has none.
	kubeconfig string
}

// frontProxyUser is the user name with which the API server sends requests to the servers of APIServices.
const frontProxyUser = "front-proxy"

const certificateLife = 10 * 365 * 24 * time.Hour

// identities lists all certificates. Every cluster gets all of them, because an unused one costs only a millisecond.
func identities(p Paths) []identity {
	const masters = "system:masters"
	client := func(file, cn, org string) identity {
		return identity{file: file, cn: cn, org: org, kubeconfig: p.state("kubeconfigs", file)}
	}
	admin := client("admin", "tensorstack-admin", masters)
	admin.kubeconfig = p.Kubeconfig()
	return []identity{
		{file: "apiserver", cn: "kube-apiserver", hosts: []string{
			"localhost", "127.0.0.1", nodeIP, apiServiceIP, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc." + clusterDomain,
		}},
		{file: "apiserver-kubelet", cn: "kube-apiserver-kubelet-client", org: masters},
		{file: "front-proxy", cn: frontProxyUser},
		// etcd, kube-controller-manager and kube-scheduler use this certificate on the loopback address.
		{file: "loopback", cn: "localhost", hosts: []string{"localhost", "127.0.0.1"}},
		{file: "kubelet-server", cn: nodeName, hosts: []string{nodeName, nodeIP}},
		admin,
		client("kube-controller-manager", "system:kube-controller-manager", ""),
		client("kube-scheduler", "system:kube-scheduler", ""),
		client("kube-proxy", "system:kube-proxy", ""),
		client("kubelet", "system:node:"+nodeName, "system:nodes"),
		client("coredns", corednsUser, ""),
		client("kwok", "kwok", masters), // kwok acts for all nodes, and can write any object that a stage selects
	}
}

func (p Paths) cert(file string) string { return p.state("pki", file+".crt") }
func (p Paths) key(file string) string  { return p.state("pki", file+".key") }

// ensurePKI creates the CA, the service account key, the certificates and the kubeconfigs, unless they exist.
func (p Paths) ensurePKI(server string) error {
	if err := os.MkdirAll(p.state("pki"), 0o700); err != nil {
		return err
	}
	ca, err := p.ensureCA()
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	if !exists(p.key("service-account")) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		if err := writeKey(p.key("service-account"), key); err != nil {
			return err
		}
	}
	for _, id := range identities(p) {
		if err := p.issue(ca, id); err != nil {
			return fmt.Errorf("certificate %s: %w", id.file, err)
		}
		if id.kubeconfig == "" {
			continue
		}
		if err := p.writeKubeconfig(id, server); err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", id.file, err)
		}
	}
	return nil
}

// authority is the CA certificate and its private key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (p Paths) ensureCA() (*authority, error) {
	if exists(p.cert("ca")) {
		return p.loadCA()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := unsigned("tensorstack-local-ca", "")
	cert.IsCA, cert.BasicConstraintsValid = true, true
	cert.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if err := writeKey(p.key("ca"), key); err != nil { // the key is first, so that no certificate lacks it
		return nil, err
	}
	if err := writeFile(p.cert("ca"), encode("CERTIFICATE", der)); err != nil {
		return nil, err
	}
	return p.loadCA()
}

func (p Paths) loadCA() (*authority, error) {
	certPEM, err := os.ReadFile(p.cert("ca"))
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(p.key("ca"))
	if err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("files of the CA are broken: run `localcluster down` and `localcluster up`")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

// issue writes a certificate for an identity, unless the certificate exists. Clients can use the certificate. If the
// identity has hosts, servers can use it too.
func (p Paths) issue(ca *authority, id identity) error {
	if exists(p.cert(id.file)) && exists(p.key(id.file)) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert := unsigned(id.cn, id.org)
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.hosts) > 0 {
		cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return err
	}
	if err := writeKey(p.key(id.file), key); err != nil {
		return err
	}
	return writeFile(p.cert(id.file), encode("CERTIFICATE", der))
}

func unsigned(cn, org string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // rand.Reader never fails
	subject := pkix.Name{CommonName: cn}
	if org != "" {
		subject.Organization = []string{org}
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour), // the clocks of a host and its guests can differ
		NotAfter:     time.Now().Add(certificateLife),
	}
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(path, encode("EC PRIVATE KEY", der))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeKubeconfig writes the kubeconfig of a client. The certificates and the key are embedded.
func (p Paths) writeKubeconfig(id identity, server string) error {
	var parts [3][]byte
	for i, path := range []string{p.cert("ca"), p.cert(id.file), p.key(id.file)} {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parts[i] = data
	}
	const name = "tensorstack-local"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: parts[0]}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: parts[1], ClientKeyData: parts[2]}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(id.kubeconfig), 0o700); err != nil {
		return err
	}
	return writeFile(id.kubeconfig, data)
}
