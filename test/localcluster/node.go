package localcluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const corednsUser = "tensorstack:coredns"

func (c *Cluster) containerd(pauseImage string) (Daemon, error) {
	binary, err := exec.LookPath("containerd")
	if err != nil {
		return Daemon{}, err
	}
	cni := cniFolder()
	if _, err := c.Paths.render("cni/tsjobs.conflist", nil); err != nil {
		return Daemon{}, err
	}
	config, err := c.Paths.render("containerd.toml", map[string]any{"PauseImage": pauseImage, "CNIBin": cni})
	if err != nil {
		return Daemon{}, err
	}
	return Daemon{
		Name:  "containerd",
		Argv:  []string{binary, "--config", config},
		Files: []string{config},
		Ready: c.Paths.criReady,
	}, nil
}

// criReady returns nil if containerd answers a request for its version. The kubelet sends the same request when it
// starts, and does not wait for containerd. The existence of the socket is not enough, because containerd does not
// answer while it recovers pods.
func (p Paths) criReady(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+p.state("run", "containerd.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second) // otherwise gRPC backs off while the socket does not exist
	defer cancel()
	_, err = cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{})
	return err
}

func (p Paths) kubelet(bin string) (Daemon, error) {
	config, err := p.render("kubelet.yaml", nil)
	if err != nil {
		return Daemon{}, err
	}
	return Daemon{
		Name: "kubelet",
		Argv: flags{
			{"config", config},
			{"kubeconfig", p.state("kubeconfigs", "kubelet")},
			{"root-dir", p.state("kubelet")},
			{"hostname-override", nodeName},
			{"node-ip", nodeIP},
		}.argv(filepath.Join(bin, "kubelet")),
		Files:   []string{config},
		Listens: []string{net.JoinHostPort(nodeIP, portKubelet), loopback(portKubeletHealth)},
		Ready:   p.probe("http://" + loopback(portKubeletHealth) + "/healthz"),
	}, nil
}

func (p Paths) kubeProxy(bin string) (Daemon, error) {
	config, err := p.render("kube-proxy.yaml", nil)
	if err != nil {
		return Daemon{}, err
	}
	return Daemon{
		Name:    "kube-proxy",
		Argv:    flags{{"config", config}}.argv(filepath.Join(bin, "kube-proxy")),
		Files:   []string{config},
		Listens: []string{loopback(portProxyHealth), loopback(portProxyMetrics)},
		Ready:   p.probe("http://" + loopback(portProxyHealth) + "/healthz"),
	}, nil
}

func (p Paths) coredns(bin string) (Daemon, error) {
	// CoreDNS forwards queries for names outside of the cluster to the resolver of the host, if the host has one.
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	config, err := p.render("Corefile", map[string]any{"Upstream": strings.Contains("\n"+string(resolv), "\nnameserver")})
	if err != nil {
		return Daemon{}, err
	}
	return Daemon{
		Name:    "coredns",
		Argv:    []string{filepath.Join(bin, "coredns"), "-conf", config},
		Files:   []string{config},
		Listens: []string{net.JoinHostPort(nodeIP, "53"), loopback(portDNSHealth), loopback(portDNSReady)},
		Ready:   p.probe("http://" + loopback(portDNSReady) + "/ready"),
	}, nil
}

// allowCoreDNS grants CoreDNS the permissions to read the objects that it serves.
func allowCoreDNS(ctx context.Context, client kubernetes.Interface) error {
	read := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: corednsUser},
		Rules: []rbacv1.PolicyRule{
			{Verbs: read, APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "services"}},
			{Verbs: read, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: corednsUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: corednsUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: corednsUser}},
	}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the ClusterRole of CoreDNS: %w", err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the ClusterRoleBinding of CoreDNS: %w", err)
	}
	return nil
}
