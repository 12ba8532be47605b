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

// hostLeftovers are folders outside of the state folder in which containerd and the kubelet write. No setting moves
// them. If the cluster created a folder, Down removes the files that match the globs, and then the folder if it is
// empty.
var hostLeftovers = []struct {
	folder string
	globs  []string
}{
	{"/var/lib/kubelet", []string{"device-plugins/*"}},
	{"/var/lib/cni", nil},        // see removeCNIResults
	{"/var/log/containers", nil}, // has links into the state folder
	{"/run/containerd", nil},     // has sockets of shims
}

// Down removes all processes, mounts, interfaces, firewall rules, cgroups and files of the cluster. Pods do not get a
// grace period. Down does not need any component to run, so it also cleans up after an Up that failed.
func (c *Cluster) Down(ctx context.Context) error {
	unlock, err := c.Paths.lock()
	if err != nil {
		return err
	}
	defer unlock()
	r, err := c.Paths.load()
	if err != nil {
		// The record is broken. Assume a real node if this user could have started one.
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
		c.Progress.Printf("removed the pods, mounts, network and cgroups")
	}
	// If mounts remained below the state folder, deleting the folder would delete the files in the mounts.
	if left := mountsBelow(c.Paths.State); len(left) > 0 {
		return fmt.Errorf("mounts remain at %s: unmount them and run down again", strings.Join(left, ", "))
	}
	// The record is deleted last. If Down is interrupted before that, the next Down still finds the record and continues.
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

// stopAll stops all processes of the cluster, the kubelet first. A running kubelet would restart pods while they are
// killed.
func (c *Cluster) stopAll() error {
	if proc := c.Paths.process("kubelet"); proc != nil {
		if err := stop(*proc, 5*time.Second); err != nil {
			return fmt.Errorf("kubelet: %w", err)
		}
	}
	var group errgroup.Group
	for _, name := range c.Paths.pidNames() {
		proc := c.Paths.process(name)
		if proc == nil {
			continue
		}
		// The grace period is short, because nothing depends on a clean shutdown. During a longer grace period, the API
		// server would wait until its watches end, and etcd would wait for the API server.
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
	if err := unmountBelow(c.Paths.State); err != nil {
		return err
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
					_ = os.Remove(f) // after an error, the folder is not empty and stays
				}
			}
			removeEmpty(l.folder)
		}
	}
	return errors.Join(removeNetwork(ctx, r), retry(removeCgroups))
}

// killPods kills all containers of the containerd that has the socket. For each container, it kills the first process,
// and the kernel then kills the others. It also kills the shim, which is the parent of the first process and does not
// end by itself.
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
			return fmt.Errorf("killing process %d: %w", v.PID, err)
		}
	}
	return retry(func() error {
		for _, v := range victims {
			if v.alive() {
				return fmt.Errorf("process %d of a pod does not end", v.PID)
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

// removeShimSockets removes the sockets of shims in /run/containerd/s. No setting moves that folder.
func removeShimSockets(state string) {
	files, _ := filepath.Glob(filepath.Join(state, "io.containerd.runtime.v2.task", "*", "*", "address"))
	for _, f := range files {
		if address, err := os.ReadFile(f); err == nil {
			_ = os.Remove(strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://"))
		}
	}
}

// removeCNIResults removes the results that the CNI library has cached for our pods. The library names each file
// <network>-<pod>-<interface>. A pod with a file of our network is ours. removeCNIResults removes all files of such a
// pod, also the file of the loopback network.
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

// unmountBelow unmounts everything below a folder. It only detaches the mounts, because a process that is ending can
// still use them.
func unmountBelow(dir string) error {
	for range 5 {
		for _, m := range mountsBelow(dir) {
			if err := unix.Unmount(m, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmounting %s: %w", m, err)
			}
		}
	}
	return nil
}

// mountsBelow returns the mount points below dir. The newest mount is the first.
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

// removeEmpty removes the empty folders in dir, and dir if it is then empty.
func removeEmpty(dir string) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // fails if the folder is not empty
	}
}

// retry calls the function try until it succeeds, for up to 5 seconds. The kernel cleans up asynchronously, so the
// first calls can fail.
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
