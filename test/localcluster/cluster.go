package localcluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"text/template"
)

// Addresses and ports. The ports are below the ephemeral range and above the ports of common services.
const (
	bridge        = "tsjobs0"
	nodeIP        = "10.244.0.1"        // address of the bridge, on which the API server, the kubelet and CoreDNS listen
	bridgeMAC     = "0a:58:0a:f4:00:01" // derived from the IP address with the rule of the CNI plugins
	podCIDR       = "10.244.0.0/24"
	serviceCIDR   = "10.96.0.0/16"
	apiServiceIP  = "10.96.0.1"
	clusterDomain = "cluster.local"
	nodeName      = "tsjobs-node"
	cniNetwork    = "tsjobs"

	portAPIServer         = "26443"
	portEtcd              = "26379"
	portEtcdPeer          = "26380"
	portEtcdMetrics       = "26381"
	portControllerManager = "26257"
	portScheduler         = "26259"
	portKubelet           = "26250"
	portKubeletHealth     = "26248"
	portProxyHealth       = "26256"
	portProxyMetrics      = "26249"
	portDNSHealth         = "26080"
	portDNSReady          = "26081"
	portKwok              = "26247"
)

// Kind is the kind of the cluster's nodes.
type Kind string

const (
	// Real nodes run containers.
	Real Kind = "real"
	// Simulated nodes are simulated by kwok.
	Simulated Kind = "simulated"
)

// Cluster is the local cluster of this machine. There is only one.
type Cluster struct {
	Builder
}

// New returns the cluster that uses the given paths.
func New(repo, kubernetes string, paths Paths, progress *Progress) *Cluster {
	return &Cluster{Builder{Repo: repo, Paths: paths, Kubernetes: kubernetes, Progress: progress}}
}

// record is the persistent state of the cluster. Its file also marks the state folder as a folder of a cluster.
type record struct {
	Kind       Kind   `json:"kind"`
	Reason     string `json:"reason,omitempty"` // why the nodes are simulated
	Kubernetes string `json:"kubernetes"`       // the components folder
	Boot       string `json:"boot"`             // the boot ID of the machine at the last Up
	// IPForward is the host's setting of IP forwarding before the cluster enabled it.
	IPForward string `json:"ipForward,omitempty"`
	// HostFolders are the folders that the cluster created outside of the state folder. See hostLeftovers.
	HostFolders []string `json:"hostFolders,omitempty"`
}

func (p Paths) recordFile() string { return p.state("cluster.json") }

// load returns the record, or nil if there is no cluster.
func (p Paths) load() (*record, error) {
	data, err := os.ReadFile(p.recordFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s is broken: run `localcluster down`: %w", p.recordFile(), err)
	}
	return &r, nil
}

func (p Paths) save(r *record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.State, 0o700); err != nil {
		return err
	}
	return writeFile(p.recordFile(), data)
}

// lock waits until no other command changes the cluster. It returns a function that releases the lock.
func (p Paths) lock() (func(), error) { return lockFile(p.cache("localcluster.lock")) }

// apiHost returns the address on which the API server listens: the bridge with a real node, otherwise loopback.
func (k Kind) apiHost() string {
	if k == Real {
		return nodeIP
	}
	return "127.0.0.1"
}

func (k Kind) server() string { return "https://" + net.JoinHostPort(k.apiHost(), portAPIServer) }

//go:embed templates
var templates embed.FS

// render renders a template and writes the result to the state folder, into the file config/NAME. It returns the path
// of that file.
func (p Paths) render(name string, extra map[string]any) (string, error) {
	values := map[string]any{
		"State": p.State, "Bridge": bridge, "CNINetwork": cniNetwork, "NodeIP": nodeIP, "NodeName": nodeName,
		"PodCIDR": podCIDR, "ClusterDomain": clusterDomain,
		"CgroupRoot": cgroupRoot, "KubeletPort": portKubelet, "KubeletHealthPort": portKubeletHealth,
		"ProxyHealthPort": portProxyHealth, "ProxyMetricsPort": portProxyMetrics,
		"DNSHealthPort": portDNSHealth, "DNSReadyPort": portDNSReady,
	}
	maps.Copy(values, extra)
	t, err := template.New(path.Base(name)).Option("missingkey=error").ParseFS(templates, "templates/"+name)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return "", err
	}
	file := p.state("config", name)
	return file, writeFile(file, out.Bytes())
}

// probe returns a readiness check that requires status 200 for a GET of the URL. TLS servers must have a certificate of
// the cluster's CA.
func (p Paths) probe(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		transport := &http.Transport{DisableKeepAlives: true}
		if ca, err := os.ReadFile(p.cert("ca")); err == nil {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(ca)
			transport.TLSClientConfig = &tls.Config{RootCAs: pool}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, resp.Status)
		}
		return nil
	}
}

// pidNames returns the names of all processes with a PID file, whether they run or not.
func (p Paths) pidNames() []string {
	files, _ := filepath.Glob(p.state("pids", "*.json"))
	for i, f := range files {
		files[i] = filepath.Base(f[:len(f)-len(".json")])
	}
	return files
}
