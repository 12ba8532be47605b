package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// SaveSnapshot writes a snapshot of etcd to the file, which must not exist.
func (c *Cluster) SaveSnapshot(ctx context.Context, file string) error {
	return c.etcdTool(ctx, "etcdctl", flags{
		{"endpoints", "https://" + loopback(portEtcd)},
		{"cacert", c.Paths.cert("ca")},
		{"cert", c.Paths.cert("loopback")},
		{"key", c.Paths.key("loopback")},
	}, "snapshot", "save", file)
}

// RestoreSnapshot kills the control plane, replaces the data of etcd by the snapshot, and starts the control plane.
// The node and its pods continue to run. The resource versions after the restore are higher than those before, as the
// documentation of etcd recommends for Kubernetes. So the watches of clients fail, and the clients list all objects.
func (c *Cluster) RestoreSnapshot(ctx context.Context, file string) error {
	if err := c.Kill("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"); err != nil {
		return err
	}
	data := c.Paths.state("etcd")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	peer := "https://" + loopback(portEtcdPeer)
	if err := c.etcdTool(ctx, "etcdutl", flags{
		{"data-dir", data},
		{"initial-advertise-peer-urls", peer},
		{"initial-cluster", "default=" + peer},
		{"bump-revision", "1000000000"},
		{"mark-compacted", "true"},
	}, "snapshot", "restore", file); err != nil {
		return err
	}
	return c.Up(ctx, UpOptions{})
}

func (c *Cluster) etcdTool(ctx context.Context, name string, options flags, args ...string) error {
	bin, err := c.Binaries(ctx, "etcdtools", "etcdctl", "etcdutl")
	if err != nil {
		return err
	}
	argv := append(options.argv(filepath.Join(bin, name)), args...)
	if output, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[1], err, lastLines(output, 5))
	}
	return nil
}
