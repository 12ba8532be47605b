// Package localcluster runs one Kubernetes cluster on this machine. It needs only Go modules and Debian packages, and
// no image registry or release download.
//
// The control plane is always real: etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as host
// processes. They are built from the modules that components/ pins. The node is real if the user is root and Debian
// packages can be installed. Its components containerd, kubelet, kube-proxy and CoreDNS are host processes too.
// Otherwise, kwok simulates nodes.
//
// The cluster writes to one state folder. A real node also has one network bridge. Down removes both. Built binaries
// and images are in a cache folder, which Down keeps.
package localcluster
