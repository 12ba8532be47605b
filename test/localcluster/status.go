package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// ErrUnhealthy is returned by Status if there is no cluster, or if the cluster is not healthy. Status prints the cause
// first.
var ErrUnhealthy = errors.New("the cluster is not healthy: run `localcluster up`")

// Status prints one line per component. It returns ErrUnhealthy if a component is not healthy.
func (c *Cluster) Status(ctx context.Context, out io.Writer) error {
	r, err := c.Paths.load()
	if err != nil {
		return err
	}
	if r == nil {
		fmt.Fprintln(out, "no cluster")
		return ErrUnhealthy
	}
	c.Kubernetes = r.Kubernetes
	daemons, err := c.daemons(ctx, r.Kind)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	well := true
	line := func(name string, pid string, err error) {
		health := "healthy"
		if err != nil {
			health, well = err.Error(), false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, pid, health)
	}
	var nodes error
	for _, d := range daemons.all() {
		pid := "-"
		if proc := c.Paths.process(d.Name); proc != nil {
			pid = fmt.Sprint(proc.PID)
		}
		health := c.Paths.healthy(ctx, d)
		line(d.Name, pid, health)
		if d.Name == "kube-apiserver" && health != nil {
			nodes = errors.New("unknown while the API server is down")
		}
	}
	if nodes == nil {
		nodes = c.nodesHealth(ctx)
	}
	line("nodes", "-", nodes)
	kind := string(r.Kind)
	if r.Reason != "" {
		kind += " (" + r.Reason + ")"
	}
	fmt.Fprintf(w, "node kind\t\t%s\nkubeconfig\t\t%s\n", kind, c.Paths.Kubeconfig())
	if err := w.Flush(); err != nil {
		return err
	}
	if !well {
		return ErrUnhealthy
	}
	return nil
}

func (c *Cluster) nodesHealth(ctx context.Context) error {
	client, err := c.Paths.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return usable(ctx, client)
}

// NodeKind returns the kind of the nodes. It returns an error if there is no cluster.
func (c *Cluster) NodeKind() (Kind, error) {
	r, err := c.Paths.load()
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", errors.New("no cluster: run `localcluster up` first")
	}
	return r.Kind, nil
}
