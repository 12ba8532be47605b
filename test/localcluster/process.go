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

// Daemon is a process of the cluster. It continues to run after the command that starts it.
type Daemon struct {
	Name string
	// Argv is the command line. Argv[0] is an absolute path.
	Argv []string
	// Files are the configuration files. If they or Argv change, ensure restarts the daemon.
	Files []string
	// Listens are the TCP addresses that must be free before the daemon starts.
	Listens []string
	// Ready returns nil if the daemon is ready.
	Ready func(context.Context) error
}

// process is the content of a PID file. The start time and the boot ID distinguish the process from a later process
// with the same PID.
type process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`
	Boot   string `json:"boot"`
	Digest string `json:"digest"`
}

const readyTimeout = 90 * time.Second

func (p Paths) pidFile(name string) string { return p.state("pids", name+".json") }

// LogFile returns the path of the log of the named process.
func (p Paths) LogFile(name string) string { return p.state("logs", name+".log") }

// process returns the named process, or nil if it does not run.
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

// startTime returns the start time of a process, in clock ticks since the boot. It returns an error for a zombie
// without other threads, because such a process has already freed its ports and files.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the command in parentheses, can contain any character. The other fields follow it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const state, threads, start = 0, 17, 19
	if len(fields) <= start {
		return 0, fmt.Errorf("/proc/%d/stat has too few fields: %q", pid, data)
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

// healthy returns nil if the daemon runs with the current configuration and is ready.
func (p Paths) healthy(ctx context.Context, d Daemon) error {
	proc := p.process(d.Name)
	if proc == nil {
		return errors.New("not running")
	}
	if digest, err := d.digest(); err != nil || proc.Digest != digest {
		return errors.New("runs with an old configuration: run `localcluster up` to restart it")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return d.Ready(ctx)
}

// ensure starts the daemon unless it is healthy, and waits until it is ready.
func (c *Cluster) ensure(ctx context.Context, d Daemon) error {
	if c.Paths.healthy(ctx, d) == nil {
		return nil
	}
	began := time.Now()
	if proc := c.Paths.process(d.Name); proc != nil {
		c.Progress.Printf("%s: restarting, because it is not healthy or its configuration has changed", d.Name)
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
			return fmt.Errorf("%s: interrupted before it was ready: run `localcluster up` or `localcluster down`", d.Name)
		}
		log := c.Paths.LogFile(d.Name)
		tail, _ := os.ReadFile(log)
		return fmt.Errorf("%s: %w\nThe end of %s:\n%s\nSee the log above, then run `localcluster down` and `localcluster up`",
			d.Name, err, log, lastLines(tail, 15))
	}
	c.Progress.Printf("%s: ready after %.1fs", d.Name, time.Since(began).Seconds())
	return nil
}

// start starts the daemon in a new session, so that it does not get the signals of this command.
func (p Paths) start(d Daemon) (exited <-chan error, err error) {
	for _, addr := range d.Listens {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("address %s is in use: stop the process that listens on it (see ss -ltnp): %w", addr, err)
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
		return ended, nil // the process has already ended, which waitReady reports
	}
	data, err := json.Marshal(process{PID: cmd.Process.Pid, Start: start, Boot: bootID(), Digest: digest})
	if err == nil {
		err = writeFile(p.pidFile(d.Name), data)
	}
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill()) // Down could not stop a process without a PID file
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
			return fmt.Errorf("ended before it was ready: %w", state)
		case <-ctx.Done():
			return fmt.Errorf("timeout waiting for it to be ready: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop sends SIGTERM to a process. If it does not end within the grace period, stop kills it.
func stop(p process, grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.endsWithin(grace) {
		return nil
	}
	return p.kill()
}

// kill sends SIGKILL to a process and waits for its end.
func (p process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.endsWithin(5 * time.Second) {
		return fmt.Errorf("process %d does not end after SIGKILL", p.PID)
	}
	return nil
}

// signal sends a signal to the process unless it has ended.
func (p process) signal(s syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signaling process %d: %w", p.PID, err)
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
