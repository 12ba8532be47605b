package localcluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// hostLeftovers are files that containerd and kubelet write outside the state folder, whatever they are told. The
// folders go too, once empty, if the cluster brought them.
var hostLeftovers = []struct {
	folder string
	globs  []string
}{
	{"/var/lib/kubelet", []string{"device-plugins/*"}},
	{"/var/lib/cni", nil},        // see removeCNIResults
	{"/var/log/containers", nil}, // links into the state folder
	{"/run/containerd", nil},     // sockets of shims
}

// Down leaves nothing of the cluster behind: no process, mount, interface, firewall rule, cgroup or file. Pods get no
// time to end. It relies on no part of the cluster being alive, so it also cleans up after half an up.
func (c *Cluster) Down(ctx context.Context) error {
	unlock, err := c.Paths.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := c.Paths.load()
	if err != nil {
		// Whatever the broken record said: clean as for the most that this user may have brought up.
		c.Progress.Printf("%v", err)
		r = &record{Kind: Simulated}
		if os.Geteuid() == 0 {
			r.Kind = Real
		}
	}
	if r == nil {
		c.Progress.Printf("there is no cluster")
		return nil
	}
	if r.Kind == Real && os.Geteuid() != 0 {
		return errors.New("the cluster has a real node: run down as root")
	}
	if err := c.stopAll(); err != nil {
		return err
	}
	c.Progress.Printf("processes: stopped")
	if r.Kind == Real {
		if err := c.cleanHost(ctx, r); err != nil {
			return err
		}
		c.Progress.Printf("pods, mounts, network and cgroups: gone")
	}
	// A mount that is left would have its files deleted with the folder.
	if left := mountsBelow(c.Paths.State); len(left) > 0 {
		return fmt.Errorf("still mounted: %s: unmount by hand and run down again", strings.Join(left, ", "))
	}
	// The record goes last: until then another down still knows what to do.
	entries, err := os.ReadDir(c.Paths.State)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if path := c.Paths.state(e.Name()); path != c.Paths.recordFile() {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	if err := os.RemoveAll(c.Paths.State); err != nil {
		return err
	}
	c.Progress.Printf("the cluster is gone")
	return nil
}

// stopAll stops kubelet before the rest, or it would restart pods while they are killed.
func (c *Cluster) stopAll() error {
	if proc := c.Paths.process("kubelet"); proc != nil {
		if err := stop(*proc, 5*time.Second); err != nil {
			return fmt.Errorf("kubelet: %w", err)
		}
	}
	var group errgroup.Group
	for _, name := range c.Paths.pidNames() {
		proc := c.Paths.process(name)
		// The API server waits for its watchers, and etcd for the API server: nobody needs their goodbye.
		if proc == nil {
			continue
		}
		group.Go(func() error {
			if err := stop(*proc, 2*time.Second); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *Cluster) cleanHost(ctx context.Context, r *record) error {
	if err := killPods(c.Paths.state("run", "containerd.sock")); err != nil {
		return err
	}
	removeShimSockets(c.Paths.state("run", "containerd"))
	// Detached: a mount that a dying process still uses goes with it.
	for range 5 {
		for _, m := range mountsBelow(c.Paths.State) {
			if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmounting %s: %w", m, err)
			}
		}
	}
	removeLinks("/var/log/containers", c.Paths.State)
	removeCNIResults("/var/lib/cni/results")
	for _, l := range hostLeftovers {
		for _, folder := range r.HostFolders {
			if folder != l.folder {
				continue
			}
			for _, glob := range l.globs {
				files, _ := filepath.Glob(filepath.Join(l.folder, glob))
				for _, f := range files {
					_ = os.Remove(f) // what stays keeps its folder, which is all that can go wrong
				}
			}
			removeEmpty(l.folder)
		}
	}
	return errors.Join(removeNetwork(ctx, r), retry(removeCgroups))
}

// killPods kills every container of the containerd with that socket. Killing the first process of a container ends the
// others; its shim, which is the parent, would live on.
func killPods(socket string) error {
	var victims []process
	shims := map[int]bool{}
	pids := runningPIDs()
	for _, pid := range pids {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		args := strings.Split(string(cmdline), "\x00")
		if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
			continue
		}
		for i, arg := range args {
			if arg == "-address" && i+1 < len(args) && args[i+1] == socket {
				shims[pid] = true
			}
		}
	}
	for _, pid := range pids {
		if shims[pid] || shims[parent(pid)] {
			if start, err := startTime(pid); err == nil {
				victims = append(victims, process{PID: pid, Start: start, Boot: bootID()})
			}
		}
	}
	for _, v := range victims {
		if err := syscall.Kill(v.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing pid %d: %w", v.PID, err)
		}
	}
	return retry(func() error {
		for _, v := range victims {
			if v.alive() {
				return fmt.Errorf("pid %d of a pod does not end", v.PID)
			}
		}
		return nil
	})
}

func runningPIDs() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func parent(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nPPid:")
	line, _, _ := strings.Cut(rest, "\n")
	ppid, _ := strconv.Atoi(strings.TrimSpace(line))
	return ppid
}

// removeShimSockets removes the sockets that shims had in /run/containerd/s, which no setting moves.
func removeShimSockets(state string) {
	files, _ := filepath.Glob(filepath.Join(state, "io.containerd.runtime.v2.task", "*", "*", "address"))
	for _, f := range files {
		if address, err := os.ReadFile(f); err == nil {
			_ = os.Remove(strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://"))
		}
	}
}

// removeCNIResults removes what the CNI library remembers of our pods: <network>-<pod>-<interface>, and for the
// loopback network, which others have too, the same pods.
func removeCNIResults(dir string) {
	ours, _ := filepath.Glob(filepath.Join(dir, cniNetwork+"-*"))
	for _, result := range ours {
		pod, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(result), cniNetwork+"-"), "-")
		all, _ := filepath.Glob(filepath.Join(dir, "*-"+pod+"-*"))
		for _, f := range all {
			_ = os.Remove(f)
		}
	}
}

// mountsBelow lists the mount points below dir, the last mounted first.
func mountsBelow(dir string) []string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescape.Replace(fields[4]); strings.HasPrefix(point, dir+"/") {
			mounts = append([]string{point}, mounts...)
		}
	}
	return mounts
}

// removeLinks removes the links in dir that point below target.
func removeLinks(dir, target string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		link := filepath.Join(dir, e.Name())
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, target+"/") {
			_ = os.Remove(link)
		}
	}
}

// removeEmpty removes dir and its subfolders as far as they are empty.
func removeEmpty(dir string) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // fails for one with content, as it should
	}
}

// retry gives the kernel a few seconds to finish.
func retry(try func() error) error {
	var err error
	for range 100 {
		if err = try(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
