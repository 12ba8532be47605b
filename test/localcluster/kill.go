package localcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kill ends processes of the cluster as a crash would, without a warning. Up starts them again.
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
			return fmt.Errorf("no %q runs, but: %s", name, strings.Join(slices.Sorted(maps.Keys(running)), ", "))
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
