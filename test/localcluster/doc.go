// Package localcluster runs one Kubernetes cluster on this machine from nothing but Go modules and Debian packages:
// no image registry and no release download is needed.
//
// The control plane is always real: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, built from the
// modules that components/ pins, run as host processes. The node is real where root and Debian packages allow it
// (containerd, kubelet, kube-proxy and CoreDNS, all host processes too). Elsewhere kwok simulates nodes.
//
// Everything the cluster writes lives in one state folder and, on a real node, behind one bridge, so that Down can
// leave nothing behind. Built binaries and images live in a cache folder, which Down keeps.
package localcluster
