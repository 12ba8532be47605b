package agent

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// The test binary is also the agent, so that launchers of tests can run it as ssh.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_INIT") != "" {
		_ = os.Unsetenv("TEST_INIT") // so that the child does not run init
		os.Exit(runInit([]string{"ssh"}))
	}
	if filepath.Base(os.Args[0]) == "ssh" {
		Main()
	}
	os.Exit(m.Run())
}

// job is a job whose workers have loopback addresses. The subcommand launch starts the ssh server of worker 0.
type job struct {
	*options
	t       *testing.T
	signer  ssh.Signer
	logged  *buffer
	output  string        // file with the output of the launcher
	started *bufio.Reader // reads lines that were written to $STARTED
	release *os.File      // writes lines that are read from $RELEASE
	servers map[int]*server
	lines   map[int]*cuttable
}

// buffer is a bytes.Buffer that is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// cuttable is a listener whose connections can be cut.
type cuttable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cuttable) cut() {
	_ = c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

func newKey(t *testing.T, folder string) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newJob returns a job and starts its workers except worker 0.
func newJob(t *testing.T, workers int) *job {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(folder, "ssh")); err != nil {
		t.Fatal(err)
	}
	o := defaults()
	j := &job{options: &o, t: t, logged: &buffer{}, servers: map[int]*server{}, lines: map[int]*cuttable{}}
	o.host, o.workers = "127.0.%d.1", workers
	o.address = o.hostOf(0)
	o.port = freePort(t, o.address)
	o.key = newKey(t, folder)
	o.folder = folder
	o.hostfile = filepath.Join(folder, "hostfile")
	o.log = newLogger(j.logged)
	o.grace = time.Minute
	o.killAfter = time.Minute
	o.timing.retry = time.Millisecond
	o.timing.settle = 20 * time.Millisecond
	o.timing.probe = 5 * time.Millisecond
	o.timing.blame = 0
	if j.signer, err = readKey(o.key); err != nil {
		t.Fatal(err)
	}
	started, release := j.fifo("started"), j.fifo("release")
	j.started, j.release = bufio.NewReader(started), release
	o.environment = append(os.Environ(), "HOSTFILE="+o.hostfile, "STARTED="+started.Name(), "RELEASE="+release.Name())
	j.output = filepath.Join(folder, "output")
	if o.stdout, err = os.Create(j.output); err != nil {
		t.Fatal(err)
	}
	o.stderr = o.stdout
	t.Cleanup(func() { _ = o.stdout.Close() })
	for i := 1; i < workers; i++ {
		j.start(i)
	}
	t.Cleanup(func() {
		for _, s := range j.servers {
			s.stop()
		}
		if t.Failed() {
			content, _ := os.ReadFile(j.output)
			t.Logf("log:\n%s\noutput:\n%s", j.logged, content)
		}
	})
	return j
}

func freePort(t *testing.T, address string) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// fifo creates a named pipe. It is open for reading and writing, so that opening the other end does not block.
func (j *job) fifo(name string) *os.File {
	j.t.Helper()
	file := filepath.Join(j.folder, name)
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		j.t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = f.Close() })
	return f
}

// start starts a worker. Each session of the worker has the index of the worker in $WORKER.
func (j *job) start(worker int) *server {
	j.t.Helper()
	o := *j.options
	o.address, o.port = o.hostOf(worker), o.portOf(worker)
	o.environment = append(slices.Clip(o.environment), fmt.Sprintf("WORKER=%d", worker))
	l, err := o.listen(j.t.Context())
	if err != nil {
		j.t.Fatal(err)
	}
	j.lines[worker] = &cuttable{Listener: l}
	j.servers[worker] = startServer(&o, j.signer, j.lines[worker])
	return j.servers[worker]
}

// waitStarted returns the next line that was written to $STARTED.
func (j *job) waitStarted() string {
	j.t.Helper()
	line, err := j.started.ReadString('\n')
	if err != nil {
		j.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// idle waits until the worker runs no session.
func (j *job) idle(worker int) {
	s := j.servers[worker]
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // now a session that was being started is counted
	s.running.Wait()
}

// ssh returns a command that runs the ssh client.
func (j *job) ssh(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(j.folder, "ssh"), args...)
	cmd.Env = append(os.Environ(), envKey+"="+j.key, fmt.Sprintf("%s=%d", envPort, j.port))
	return cmd
}

// launcher writes a script for the launcher and returns the command to run it. Most scripts contain a call of pdsh.
func (j *job) launcher(script string) []string {
	j.t.Helper()
	return []string{"/bin/sh", j.script("launcher", script)}
}

// script writes a script for a shell and returns its path.
func (j *job) script(name, script string) string {
	j.t.Helper()
	file := filepath.Join(j.folder, name)
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		j.t.Fatal(err)
	}
	return file
}

// node is the beginning of a node command in tests.
const node = `: -m deepspeed.launcher.launch --world_info=x; `

// pdsh returns commands that run the script as a node command on every host of the hostfile. They set $code to the last
// exit code other than 0.
func pdsh(script string) string {
	return `
pids=
for host in $(cut -d' ' -f1 $HOSTFILE); do
	ssh -oConnectTimeout=10 -2 -a -x $host '` + node + script + `' &
	pids="$pids $!"
done
code=0
for pid in $pids; do wait $pid || code=$?; done
`
}
