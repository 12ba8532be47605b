package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// UpOptions select the nodes of the cluster.
type UpOptions struct {
	// Simulated is true if the nodes must be simulated even if a real node could run.
	Simulated bool
	// Nodes is the number of simulated nodes. A cluster with a real node has one node.
	Nodes int
}

// Up starts the cluster. If there is a cluster already, it starts the components that are not healthy.
func (c *Cluster) Up(ctx context.Context, options UpOptions) error {
	unlock, err := c.Paths.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := c.ensureRecord(ctx, options)
	if err != nil {
		return err
	}
	if r.Kind == Simulated {
		c.Progress.Printf("nodes: simulated (%s)", r.Reason)
	} else {
		c.Progress.Printf("nodes: one real node")
	}
	if err := c.buildAll(ctx, r.Kind); err != nil {
		return err
	}
	if err := c.Paths.ensurePKI(r.Kind.server()); err != nil {
		return err
	}
	var pauseTag, pauseFile string
	if r.Kind == Real {
		if err := c.prepareHost(ctx, r); err != nil {
			return err
		}
		if pauseTag, pauseFile, err = c.pauseImage(ctx); err != nil {
			return err
		}
		if err := c.linkImages(ctx); err != nil {
			return err
		}
	}
	daemons, err := c.daemons(ctx, r.Kind)
	if err != nil {
		return err
	}
	for _, d := range daemons.first {
		if err := c.ensure(ctx, d); err != nil {
			return err
		}
	}
	client, err := c.Paths.client()
	if err != nil {
		return err
	}
	if r.Kind == Real {
		if err := allowCoreDNS(ctx, client); err != nil {
			return err
		}
	}
	var group errgroup.Group
	for _, d := range daemons.then {
		group.Go(func() error { return c.ensure(ctx, d) })
	}
	if r.Kind == Real {
		group.Go(func() error { return c.ensureImage(ctx, pauseTag, pauseFile) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if r.Kind == Simulated {
		if err := ensureNodes(ctx, client, options.Nodes); err != nil {
			return err
		}
	}
	if err := c.waitUsable(ctx, client); err != nil {
		return err
	}
	c.Progress.Printf("the cluster is up; to use it: export KUBECONFIG=%s", c.Paths.Kubeconfig())
	return nil
}

// ensureRecord chooses the kind of a new cluster and prepares the state folder. It returns an error if the options do
// not fit an existing cluster.
func (c *Cluster) ensureRecord(ctx context.Context, options UpOptions) (*record, error) {
	kind, reason := Real, ""
	if options.Simulated {
		kind, reason = Simulated, "as requested"
	} else if why := noRealNode(); why != "" {
		kind, reason = Simulated, "a real node cannot run here: "+why
	}
	r, err := c.Paths.load()
	if err != nil {
		return nil, err
	}
	if r != nil && r.Kubernetes != c.Kubernetes {
		return nil, fmt.Errorf("the cluster runs %s: run `localcluster down` before you start %s", r.Kubernetes,
			c.Kubernetes)
	}
	if r != nil && r.Kind != kind {
		return nil, fmt.Errorf("the cluster has %s nodes: run `localcluster down` before you start %s nodes", r.Kind, kind)
	}
	if r == nil {
		if entries, err := os.ReadDir(c.Paths.State); err == nil && len(entries) > 0 {
			return nil, fmt.Errorf("%s has other files: set TENSORSTACK_STATE to an empty folder, which down deletes",
				c.Paths.State)
		}
	}
	if kind == Real {
		if err := c.installPackages(ctx, missingPackages()...); err != nil {
			if r != nil {
				return nil, err
			}
			c.Progress.Printf("%v", err)
			kind, reason = Simulated, "a real node cannot run here: Debian packages cannot be installed, see above"
		}
	}
	if r == nil {
		r = &record{Kind: kind, Reason: reason, Kubernetes: c.Kubernetes}
	}
	if r.Boot != bootID() {
		// After a reboot, no process of the cluster runs, and containerd cannot handle the files of the last run.
		if err := errors.Join(os.RemoveAll(c.Paths.state("run")), os.RemoveAll(c.Paths.state("pids"))); err != nil {
			return nil, err
		}
		r.Boot, r.IPForward = bootID(), ""
	}
	return r, c.Paths.save(r)
}

// Build builds the components that Up needs and the training images of the named frameworks. Clusters that are started
// later have these images from the start. Programs and images are built concurrently, because programs need the CPU and
// images need the network. If no real node can run on this machine, no image is built.
func (c *Cluster) Build(ctx context.Context, frameworks ...string) error {
	images, err := trainingImagesOf(frameworks)
	if err != nil {
		return err
	}
	if why := noRealNode(); why != "" {
		c.Progress.Printf("no image is built, because a real node cannot run here: %s", why)
		return c.buildAll(ctx, Simulated)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.buildAll(ctx, Real) })
	group.Go(func() error {
		_, _, err := c.pauseImage(ctx)
		return err
	})
	group.Go(func() error {
		if err := c.installPackages(ctx, missingPackages()...); err != nil {
			return err
		}
		return c.eachTrainingImage(ctx, images, func(ctx context.Context, image trainingImage, path string) error {
			return errors.Join(c.unpack(ctx, path), removeSuperseded(c.Paths.imageStore(unpackedMarks), image.name()))
		})
	})
	return group.Wait()
}

func (c *Cluster) buildAll(ctx context.Context, kind Kind) error {
	kubernetes := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
	other := "kwok"
	if kind == Real {
		kubernetes = append(kubernetes, "kubelet", "kube-proxy")
		other = "coredns"
	}
	// Kubernetes is built first, because the other components share many packages with it. So the builds of these
	// components mostly only link. Concurrent builds would compile the shared packages several times.
	if _, err := c.Binaries(ctx, c.Kubernetes, kubernetes...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, component := range []string{"etcd", other} {
		group.Go(func() error {
			_, err := c.Binaries(ctx, component, component)
			return err
		})
	}
	return group.Wait()
}

// prepareHost sets up the network and the cgroups that the daemons of a real node need. On its first run for a
// cluster, it records which folders of hostLeftovers do not exist yet, so that Down removes them.
func (c *Cluster) prepareHost(ctx context.Context, r *record) error {
	if r.HostFolders == nil {
		r.HostFolders = []string{}
		for _, l := range hostLeftovers {
			if !exists(l.folder) {
				r.HostFolders = append(r.HostFolders, l.folder)
			}
		}
		if err := c.Paths.save(r); err != nil {
			return err
		}
	}
	if err := c.Paths.ensureNetwork(ctx, r); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := ensureCgroups(); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	return nil
}

// daemonSet holds the processes of the cluster, in two fields. Up starts the daemons of "first" one after the other,
// and then the daemons of "then" at the same time.
type daemonSet struct{ first, then []Daemon }

func (d daemonSet) all() []Daemon { return append(append([]Daemon{}, d.first...), d.then...) }

func (c *Cluster) daemons(ctx context.Context, kind Kind) (daemonSet, error) {
	bins := map[string]string{}
	for _, folder := range []string{"etcd", c.Kubernetes, "coredns", "kwok"} {
		dir, err := c.BinDir(folder)
		if err != nil {
			return daemonSet{}, err
		}
		bins[folder] = dir
	}
	kubernetes := bins[c.Kubernetes]
	gates := c.gangGates()
	scheduler, err := c.Paths.scheduler(kubernetes, gates)
	if err != nil {
		return daemonSet{}, err
	}
	set := daemonSet{
		first: []Daemon{c.Paths.etcd(bins["etcd"]), c.Paths.apiServer(kubernetes, kind, gates)},
		then:  []Daemon{c.Paths.controllerManager(kubernetes, kind, gates), scheduler},
	}
	if kind == Simulated {
		kwok, err := c.Paths.kwok(bins["kwok"])
		set.then = append(set.then, kwok)
		return set, err
	}
	pause, _, err := c.pauseImage(ctx)
	if err != nil {
		return daemonSet{}, err
	}
	containerd, err := c.containerd(pause)
	if err != nil {
		return daemonSet{}, err
	}
	set.first = append(set.first, containerd)
	for _, d := range []struct {
		build func(bin string) (Daemon, error)
		bin   string
	}{
		{c.Paths.kubelet, kubernetes},
		{c.Paths.kubeProxy, kubernetes},
		{c.Paths.coredns, bins["coredns"]},
	} {
		daemon, err := d.build(d.bin)
		if err != nil {
			return daemonSet{}, err
		}
		set.then = append(set.then, daemon)
	}
	return set, nil
}

func (p Paths) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no rate limit: there can be hundreds of simulated nodes to create
	return kubernetes.NewForConfig(config)
}

// waitUsable waits until pods can be created and run: all nodes are ready and the default service account exists.
func (c *Cluster) waitUsable(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	began := time.Now()
	for {
		err := usable(ctx, client)
		if err == nil {
			c.Progress.Printf("nodes: ready after %.1fs", time.Since(began).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timeout waiting for the cluster to be usable: %w\nSee the logs in %s", err,
				filepath.Dir(c.Paths.LogFile("x")))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func usable(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var waiting []string
	for _, node := range nodes.Items {
		if why := notReady(node); why != "" {
			waiting = append(waiting, node.Name+" ("+why+")")
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("not ready: %s", strings.Join(waiting, ", "))
	}
	if len(nodes.Items) == 0 {
		return errors.New("there is no node yet")
	}
	return nil
}

func notReady(node corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return "it still has the not-ready taint"
		}
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			if cond.Status == corev1.ConditionTrue {
				return ""
			}
			return cond.Message
		}
	}
	return "no status yet"
}
