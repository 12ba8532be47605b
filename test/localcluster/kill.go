package localcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kill kills processes of the cluster, like a crash. Up starts them again.
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
