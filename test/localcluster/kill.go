package localcluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kill kills the named processes of the cluster, as in a crash. It kills none if one of them does not run. Up starts
// them again.
func (c *Cluster) Kill(names ...string) error {
	unlock, err := c.Paths.lock()
	if err != nil {
		return err
	}
	defer unlock()
	running := map[string]process{}
	for _, name := range c.Paths.pidNames() {
		if proc := c.Paths.process(name); proc != nil {
			running[name] = *proc
		}
	}
	for _, name := range names {
		if _, ok := running[name]; !ok {
			return fmt.Errorf("component %q is not running; running components: %s", name,
				strings.Join(slices.Sorted(maps.Keys(running)), ", "))
		}
	}
	for _, name := range names {
		if err := running[name].kill(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.Progress.Printf("%s: killed", name)
	}
	return nil
}

// CutPower kills all processes of the cluster and of its pods, as if the machine lost its power. Up then starts the
// cluster as after a reboot of the machine.
func (c *Cluster) CutPower() error {
	unlock, err := c.Paths.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := c.Paths.load()
	if err != nil {
		return err
	}
	if r == nil {
		return errors.New("the cluster does not run")
	}
	for _, name := range c.Paths.pidNames() {
		if proc := c.Paths.process(name); proc != nil {
			if err := proc.kill(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if err := killPods(c.Paths.state("run", "containerd.sock")); err != nil {
		return err
	}
	removeShimSockets(c.Paths.state("run", "containerd"))
	if err := unmountBelow(c.Paths.State); err != nil {
		return err
	}
	r.Boot = ""
	return c.Paths.save(r)
}
