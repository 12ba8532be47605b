package localcluster

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func sleeper(ready error) Daemon {
	path, _ := exec.LookPath("sleep")
	return Daemon{Name: "sleeper", Argv: []string{path, "300"}, Ready: func(context.Context) error { return ready }}
}

func TestDaemonLife(t *testing.T) {
	c := &Cluster{Builder{Paths: Paths{State: t.TempDir()}, Progress: NewProgress(io.Discard)}}
	ctx := context.Background()
	d := sleeper(nil)
	if err := c.ensure(ctx, d); err != nil {
		t.Fatal(err)
	}
	first := c.Paths.process(d.Name)
	if first == nil {
		t.Fatal("the daemon is not running")
	}
	t.Cleanup(func() { _ = stop(*first, time.Second) })

	if err := c.ensure(ctx, d); err != nil {
		t.Fatal(err)
	}
	if again := c.Paths.process(d.Name); again == nil || again.PID != first.PID {
		t.Errorf("a healthy daemon was restarted: %v, then %v", first, again)
	}

	d.Argv = append(d.Argv, "1")
	if c.Paths.healthy(ctx, d) == nil {
		t.Error("a daemon whose arguments have changed counts as healthy")
	}
	if err := c.ensure(ctx, d); err != nil {
		t.Fatal(err)
	}
	second := c.Paths.process(d.Name)
	if second == nil || second.PID == first.PID || first.alive() {
		t.Fatalf("changed arguments did not replace the process: %v, then %v", first, second)
	}
	if err := stop(*second, time.Second); err != nil {
		t.Fatal(err)
	}
	if c.Paths.process(d.Name) != nil {
		t.Error("the daemon is still running after stop")
	}
}

func TestKill(t *testing.T) {
	c := &Cluster{Builder{Paths: Paths{Cache: t.TempDir(), State: t.TempDir()}, Progress: NewProgress(io.Discard)}}
	d := sleeper(nil)
	if err := c.ensure(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.stopAll() })
	if err := c.Kill(d.Name, "nonsense"); err == nil ||
		!strings.Contains(err.Error(), `component "nonsense" is not running; running components: `+d.Name) {
		t.Errorf("the error does not list the running components: %v", err)
	}
	killed := c.Paths.process(d.Name)
	if killed == nil {
		t.Fatal("kill with an unknown name killed another process")
	}
	if err := c.Kill(d.Name); err != nil {
		t.Fatal(err)
	}
	if killed.alive() {
		t.Error("the killed process is still running")
	}
	if err := c.ensure(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	if c.Paths.process(d.Name) == nil {
		t.Error("the killed process was not started again")
	}
}

func TestRecycledPIDIsNotOurs(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) })
	start, err := startTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ours := process{PID: cmd.Process.Pid, Start: start, Boot: bootID()}
	if !ours.alive() {
		t.Fatal("the running process is not recognized")
	}
	for name, other := range map[string]process{
		"that started later":   {PID: ours.PID, Start: start + 1, Boot: ours.Boot},
		"of another boot":      {PID: ours.PID, Start: start, Boot: "another"},
		"of an empty PID file": {},
	} {
		if other.alive() {
			t.Errorf("a process %s counts as running", name)
		}
		if err := stop(other, time.Second); err != nil {
			t.Errorf("stopping a process %s: %v", name, err)
		}
	}
	if !ours.alive() {
		t.Error("stop killed another process with the same PID")
	}
}

func TestErrorsIncludeTheCause(t *testing.T) {
	c := &Cluster{Builder{Paths: Paths{State: t.TempDir()}, Progress: NewProgress(io.Discard)}}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	d := Daemon{
		Name:  "broken",
		Argv:  []string{sh, "-c", "echo no such flag; exit 3"},
		Ready: func(context.Context) error { return errors.New("never") },
	}
	err = c.ensure(context.Background(), d)
	if err == nil || !strings.Contains(err.Error(), "no such flag") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error does not have the log and the exit status: %v", err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d.Listens = []string{l.Addr().String()}
	if err := c.ensure(context.Background(), d); err == nil ||
		!strings.Contains(err.Error(), "address "+l.Addr().String()+" is in use") {
		t.Errorf("the error does not name the address that is in use: %v", err)
	}
}
