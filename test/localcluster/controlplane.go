package localcluster

import (
	"net"
	"path/filepath"
)

// flags is a table of command-line flags.
type flags []struct{ name, value string }

func (f flags) argv(binary string) []string {
	argv := []string{binary}
	for _, flag := range f {
		argv = append(argv, "--"+flag.name+"="+flag.value)
	}
	return argv
}

func loopback(port string) string { return net.JoinHostPort("127.0.0.1", port) }

func (p Paths) etcd(bin string) Daemon {
	client, peer := "https://"+loopback(portEtcd), "https://"+loopback(portEtcdPeer)
	return Daemon{
		Name: "etcd",
		Argv: flags{
			{"data-dir", p.state("etcd")},
			{"listen-client-urls", client},
			{"advertise-client-urls", client},
			{"listen-peer-urls", peer},
			{"initial-advertise-peer-urls", peer},
			{"initial-cluster", "default=" + peer},
			{"listen-metrics-urls", "http://" + loopback(portEtcdMetrics)},
			{"cert-file", p.cert("loopback")},
			{"key-file", p.key("loopback")},
			{"trusted-ca-file", p.cert("ca")},
			{"client-cert-auth", "true"},
			{"peer-cert-file", p.cert("loopback")},
			{"peer-key-file", p.key("loopback")},
			{"peer-trusted-ca-file", p.cert("ca")},
			{"peer-client-cert-auth", "true"},
			// Writes do not wait for the disk. A crash of the machine can corrupt the data, which is acceptable here.
			{"unsafe-no-fsync", "true"},
			{"log-level", "warn"},
		}.argv(filepath.Join(bin, "etcd")),
		Listens: []string{loopback(portEtcd), loopback(portEtcdPeer), loopback(portEtcdMetrics)},
		Ready:   p.probe("http://" + loopback(portEtcdMetrics) + "/readyz"),
	}
}

// gangGates returns a flag that enables the feature gate for gang scheduling. It returns nil for versions of
// Kubernetes before 1.37, which do not have that feature.
func (b Builder) gangGates() flags {
	if b.Kubernetes != DefaultKubernetes {
		return nil
	}
	return flags{{"feature-gates", "GenericWorkload=true"}}
}

func (p Paths) apiServer(bin string, kind Kind, gates flags) Daemon {
	table := flags{
		{"etcd-servers", "https://" + loopback(portEtcd)},
		{"etcd-cafile", p.cert("ca")},
		{"etcd-certfile", p.cert("loopback")},
		{"etcd-keyfile", p.key("loopback")},
		{"bind-address", kind.apiHost()},
		{"secure-port", portAPIServer},
		{"tls-cert-file", p.cert("apiserver")},
		{"tls-private-key-file", p.key("apiserver")},
		{"client-ca-file", p.cert("ca")},
		{"kubelet-client-certificate", p.cert("apiserver-kubelet")},
		{"kubelet-client-key", p.key("apiserver-kubelet")},
		{"kubelet-certificate-authority", p.cert("ca")},
		{"kubelet-preferred-address-types", "InternalIP"}, // the name of the node cannot be resolved
		{"service-account-issuer", "https://kubernetes.default.svc." + clusterDomain},
		{"service-account-signing-key-file", p.key("service-account")},
		{"service-account-key-file", p.key("service-account")},
		{"service-cluster-ip-range", serviceCIDR},
		{"authorization-mode", "Node,RBAC"},
		{"enable-admission-plugins", "NodeRestriction"},
		{"allow-privileged", "true"},
		// The API server forwards requests to the servers of APIServices, such as the server of Kueue. It authenticates to
		// these servers with the front-proxy certificate. Because of this certificate, the servers trust the user name in
		// the headers of a request.
		{"requestheader-client-ca-file", p.cert("ca")},
		{"requestheader-allowed-names", frontProxyUser},
		{"requestheader-username-headers", "X-Remote-User"},
		{"requestheader-group-headers", "X-Remote-Group"},
		{"requestheader-extra-headers-prefix", "X-Remote-Extra-"},
		{"proxy-client-cert-file", p.cert("front-proxy")},
		{"proxy-client-key-file", p.key("front-proxy")},
	}
	table = append(table, gates...)
	if gates != nil {
		table = append(table, flags{{"runtime-config", "scheduling.k8s.io/v1beta1=true"}}...)
	}
	if kind == Simulated {
		// The API server would add its loopback address to the endpoints of the Service "kubernetes", but endpoints cannot
		// have loopback addresses. No pod on a simulated node uses that Service.
		table = append(table, flags{{"endpoint-reconciler-type", "none"}}...)
	}
	return Daemon{
		Name:    "kube-apiserver",
		Argv:    table.argv(filepath.Join(bin, "kube-apiserver")),
		Listens: []string{net.JoinHostPort(kind.apiHost(), portAPIServer)},
		Ready:   p.probe(kind.server() + "/readyz"),
	}
}

func (p Paths) controllerManager(bin string, kind Kind, gates flags) Daemon {
	table := flags{
		{"kubeconfig", p.state("kubeconfigs", "kube-controller-manager")},
		{"bind-address", "127.0.0.1"},
		{"secure-port", portControllerManager},
		{"tls-cert-file", p.cert("loopback")},
		{"tls-private-key-file", p.key("loopback")},
		{"root-ca-file", p.cert("ca")},
		{"service-account-private-key-file", p.key("service-account")},
		{"cluster-signing-cert-file", p.cert("ca")},
		{"cluster-signing-key-file", p.key("ca")},
		{"use-service-account-credentials", "true"},
		{"leader-elect", "false"}, // there is only one copy, so it need not wait for a Lease
	}
	table = append(table, gates...)
	if kind == Real {
		// Kubernetes must detect a lost node soon, so that tests do not wait long. See nodeLeaseDurationSeconds in
		// kubelet.yaml.
		table = append(table, flags{{"node-monitor-grace-period", "20s"}}...)
	}
	return Daemon{
		Name:    "kube-controller-manager",
		Argv:    table.argv(filepath.Join(bin, "kube-controller-manager")),
		Listens: []string{loopback(portControllerManager)},
		Ready:   p.probe("https://" + loopback(portControllerManager) + "/healthz"),
	}
}

func (p Paths) scheduler(bin string, gates flags) (Daemon, error) {
	config, err := p.render("kube-scheduler.yaml", nil)
	table := append(flags{
		{"config", config},
		{"bind-address", "127.0.0.1"},
		{"secure-port", portScheduler},
		{"tls-cert-file", p.cert("loopback")},
		{"tls-private-key-file", p.key("loopback")},
	}, gates...)
	return Daemon{
		Name:    "kube-scheduler",
		Argv:    table.argv(filepath.Join(bin, "kube-scheduler")),
		Listens: []string{loopback(portScheduler)},
		Ready:   p.probe("https://" + loopback(portScheduler) + "/healthz"),
	}, err
}
