package localcluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Daemon is a process of the cluster. It outlives the command that starts it.
type Daemon struct {
	Name string
	// Argv[0] is an absolute path.
	Argv []string
	// Files are its configuration: a change of them, or of Argv, restarts it.
	Files []string
	// Listens are the TCP addresses that must be free before it starts.
	Listens []string
	// Ready returns nil once it serves.
	Ready func(context.Context) error
}

// process is what a pid file says. The start time and the boot tell the process from a later one with the same pid.
type process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`
	Boot   string `json:"boot"`
	Digest string `json:"digest"`
}

const readyTimeout = 90 * time.Second

func (p Paths) pidFile(name string) string { return p.state("pids", name+".json") }

// LogFile is where the named process writes its output.
func (p Paths) LogFile(name string) string { return p.state("logs", name+".log") }

// process returns the running process of that name, or nil.
func (p Paths) process(name string) *process {
	data, err := os.ReadFile(p.pidFile(name))
	if err != nil {
		return nil
	}
	var proc process
	if json.Unmarshal(data, &proc) != nil || !proc.alive() {
		return nil
	}
	return &proc
}

func (p process) alive() bool {
	if p.PID <= 1 || p.Boot != bootID() {
		return false
	}
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// startTime is the time a process started, in clock ticks since boot. A zombie counts as gone once its last thread has
// ended: only then are its ports and files free.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the command in parentheses, may hold anything: count from its end.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const state, threads, start = 0, 17, 19
	if len(fields) <= start {
		return 0, fmt.Errorf("/proc/%d/stat is cut short: %q", pid, data)
	}
	if fields[state] == "X" || fields[state] == "Z" && (fields[threads] == "0" || fields[threads] == "1") {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[start], 10, 64)
}

func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

func (d Daemon) digest() (string, error) {
	files, err := hashFiles(d.Files...)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %s", d.Argv, files)
	return shortSum(h), nil
}

// healthy says whether the daemon runs, as configured, and serves.
func (p Paths) healthy(ctx context.Context, d Daemon) error {
	proc := p.process(d.Name)
	if proc == nil {
		return errors.New("not running")
	}
	if digest, err := d.digest(); err != nil || proc.Digest != digest {
		return errors.New("runs with another configuration: run up to restart it")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return d.Ready(ctx)
}

// ensure starts the daemon unless it is healthy, and waits until it is.
func (c *Cluster) ensure(ctx context.Context, d Daemon) error {
	if c.Paths.healthy(ctx, d) == nil {
		return nil
	}
	began := time.Now()
	if proc := c.Paths.process(d.Name); proc != nil {
		c.Progress.Printf("%s: runs but is not healthy or has changed: restart", d.Name)
		if err := stop(*proc, 10*time.Second); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	exited, err := c.Paths.start(d)
	if err != nil {
		return fmt.Errorf("%s: starting: %w", d.Name, err)
	}
	if err := waitReady(ctx, d, exited); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: interrupted before it was ready: run `localcluster up` again, or down", d.Name)
		}
		log := c.Paths.LogFile(d.Name)
		tail, _ := os.ReadFile(log)
		return fmt.Errorf(
			"%s: %w\nThe end of %s:\n%s\nTo do: see the log above, then run `localcluster down` and `localcluster up`",
			d.Name,
			err,
			log,
			lastLines(tail, 15),
		)
	}
	c.Progress.Printf("%s: ready after %.1fs", d.Name, time.Since(began).Seconds())
	return nil
}

// start starts the daemon in a session of its own, so that no signal meant for this command reaches it.
func (p Paths) start(d Daemon) (exited <-chan error, err error) {
	for _, addr := range d.Listens {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("it needs %s, which is taken: stop what listens there (ss -ltnp): %w", addr, err)
		}
		l.Close()
	}
	digest, err := d.digest()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(p.LogFile(d.Name)), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.LogFile(d.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(d.Argv[0], d.Argv[1:]...)
	cmd.Dir = p.State
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	start, err := startTime(cmd.Process.Pid)
	if err != nil {
		return ended, nil // it is gone already, which waitReady reports
	}
	data, err := json.Marshal(process{PID: cmd.Process.Pid, Start: start, Boot: bootID(), Digest: digest})
	if err == nil {
		err = writeFile(p.pidFile(d.Name), data)
	}
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill()) // one without a pid file could never be stopped
	}
	return ended, nil
}

func waitReady(ctx context.Context, d Daemon, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := d.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case state := <-exited:
			return fmt.Errorf("ended at once: %w", state)
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends a process: politely, then by force.
func stop(p process, grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.endsWithin(grace) {
		return nil
	}
	return p.kill()
}

// kill ends a process by force.
func (p process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.endsWithin(5 * time.Second) {
		return fmt.Errorf("pid %d does not end, not even by SIGKILL", p.PID)
	}
	return nil
}

// signal sends the process a signal, unless it has ended.
func (p process) signal(s syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping pid %d: %w", p.PID, err)
	}
	return nil
}

func (p process) endsWithin(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); p.alive(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func lastLines(data []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
