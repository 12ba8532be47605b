package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"tensorstack.dev/jobs/common/helper"
	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/ranks"
)

// server is an ssh server that runs commands for clients with the key of the job.
type server struct {
	*options
	config   *ssh.ServerConfig
	listener net.Listener

	mu       sync.Mutex
	sessions map[*session]bool
	stopping bool
	running  sync.WaitGroup // counts the sessions
}

// session is a command that runs in a separate process group.
type session struct {
	server         *server
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr io.ReadCloser
	end            func() // sends SIGTERM to the group, and SIGKILL after a timeout; later calls do nothing
	killedLauncher atomic.Bool
}

// startServer starts a server. The server runs until the method stop is called.
func startServer(o *options, key ssh.Signer, listener net.Listener) *server {
	s := &server{options: o, listener: listener, sessions: map[*session]bool{}}
	s.config = &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, peer ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, checkKey(key, peer)
		},
	}
	s.config.AddHostKey(key)
	go listen.Accept(listener, s.handle, o.log, o.timing.retry)
	return s
}

// stop ends all sessions and returns when they have ended. Only the grace period of the pod limits this time.
func (s *server) stop() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.stopping = true
	for c := range s.sessions {
		go c.end()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// letEnd makes the server accept no more sessions. From then on, the server does not send SIGKILL to ranks, so that
// they have as much time to end as the pod has.
func (s *server) letEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

func (s *server) handle(tcp net.Conn) {
	defer func() { _ = tcp.Close() }()
	_ = tcp.SetDeadline(time.Now().Add(3 * s.timing.dial))
	conn, channels, requests, err := ssh.NewServerConn(tcp, s.config)
	if err != nil {
		// The first error is about the method none, which is no attempt to authenticate.
		if auth, ok := errors.AsType[*ssh.ServerAuthError](err); ok && len(auth.Errors) > 1 {
			s.log.Printf("refused %s: %v", tcp.RemoteAddr(), auth.Errors[len(auth.Errors)-1])
		}
		return
	}
	listen.Exempt(tcp)
	_ = tcp.SetDeadline(time.Time{})
	go ssh.DiscardRequests(requests)
	go keepAlive(conn, s.timing.keepAlive)
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "this server runs commands only")
			continue
		}
		if channel, requests, err := c.Accept(); err == nil {
			go s.serve(channel, requests)
		}
	}
}

// serve runs the only command of a channel. It ends the command if the channel or its connection is closed.
func (s *server) serve(channel ssh.Channel, requests <-chan *ssh.Request) {
	var c *session
	for r := range requests {
		var exec struct{ Command string }
		ok := false
		switch r.Type {
		case "exec":
			if c == nil && ssh.Unmarshal(r.Payload, &exec) == nil {
				if c = s.start(exec.Command); c != nil {
					// Reply before the call of carry: carry closes the channel when the command ends, which can happen immediately.
					_ = r.Reply(true, nil)
					go c.carry(channel)
					continue
				}
			}
		case "signal": // any signal means that the client wants to end the command
			if c != nil {
				ok = true
				c.end()
			}
		}
		_ = r.Reply(ok, nil)
	}
	if c != nil {
		c.end()
	}
}

// start starts a command and returns its session, or nil if the command cannot be started. The caller must call
// carry, because carry connects the streams of the command, and stop waits until carry has returned.
func (s *server) start(command string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", command) //nolint:gosec // a client with the key can run any command
	cmd.Env = s.sessionEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if err := errors.Join(errIn, errOut, errErr); err != nil {
		s.log.Printf("cannot run a command: %v", err)
		return nil
	}
	if err := cmd.Start(); err != nil {
		s.log.Printf("cannot run a command: %v: the image must have /bin/sh", err)
		return nil
	}
	c := &session{server: s, cmd: cmd, stdin: stdin, stdout: stdout, stderr: stderr}
	c.end = sync.OnceFunc(c.terminate)
	s.sessions[c] = true
	s.running.Add(1)
	return c
}

// carry connects the streams of the command with the channel. It returns when the command has ended and its exit code
// was sent to the client.
func (c *session) carry(channel ssh.Channel) {
	defer c.server.running.Done()
	go func() {
		_, _ = io.Copy(c.stdin, channel)
		_ = c.stdin.Close()
	}()
	var output sync.WaitGroup
	output.Go(func() { _, _ = io.Copy(channel, c.stdout) })
	output.Go(func() { _, _ = io.Copy(channel.Stderr(), c.stderr) })
	training := ranks.Watcher{Among: ranks.InGroup(c.cmd.Process.Pid), Size: c.server.slots}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	var failure string
	watch.Go(func() { failure = firstFailure(training.Events(ended), training.Size) })
	code := c.wait()
	close(ended)
	watch.Wait()
	_ = c.stdin.Close()
	// A process that has left the group could keep the streams open indefinitely, so close them after killAfter.
	late := time.AfterFunc(c.server.killAfter, func() { _, _ = c.stdout.Close(), c.stderr.Close() })
	output.Wait()
	late.Stop()
	_, _ = c.stdout.Close(), c.stderr.Close()
	if code != 0 && failure != "" {
		newLogger(channel.Stderr()).Print(failure)
	}
	status := struct{ Code uint32 }{uint32(code)} //nolint:gosec // from 0 to 255
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
	_ = channel.Close()
	c.server.mu.Lock()
	delete(c.server.sessions, c)
	c.server.mu.Unlock()
}

// wait waits until all processes of the group have ended, and returns the exit code of the first process. When the
// first process ends, the function ends the others, since they are ranks that have lost their launcher.
func (c *session) wait() int {
	state, err := c.cmd.Process.Wait() // Cmd.Wait would close the streams before all output is read
	c.end()
	for ticker := time.NewTicker(20 * time.Millisecond); ; <-ticker.C {
		if errors.Is(syscall.Kill(-c.cmd.Process.Pid, 0), syscall.ESRCH) {
			ticker.Stop()
			break
		}
	}
	if err != nil {
		c.server.log.Printf("waiting for a command: %v", err)
		return exitSoftware
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		panic(fmt.Sprintf("exit status of type %T", state.Sys()))
	}
	if c.killedLauncher.Load() && status.Signal() == syscall.SIGKILL {
		return exitTerminated // the method terminate killed the launcher, which had replaced the shell of the session
	}
	return helper.ExitCode(status)
}

// terminate ends the process group. It does not send SIGKILL to ranks while the server stops, since the kubelet then
// limits the time. It first kills DeepSpeed's launcher on the host, which would send another SIGTERM to each rank, and
// SIGKILL 30 s later.
func (c *session) terminate() {
	for _, p := range ranks.Processes(ranks.InGroup(c.cmd.Process.Pid)) {
		if isNodeLauncher(p.ID) {
			c.killedLauncher.Store(true)
			_ = syscall.Kill(p.ID, syscall.SIGKILL)
		}
	}
	group := -c.cmd.Process.Pid
	if syscall.Kill(group, syscall.SIGTERM) != nil {
		return
	}
	time.AfterFunc(c.server.killAfter, func() {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if c.server.sessions[c] && !c.server.stopping {
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	})
}

// serve is the subcommand of workers that do not run the launcher.
func serve(ctx context.Context, o *options) error {
	key, err := readKey(o.key)
	if err != nil {
		return err
	}
	if err := o.writeHostfile(firstWorkers(o.workers)); err != nil {
		return err
	}
	listener, err := o.listen(ctx)
	if err != nil {
		return err
	}
	s := startServer(o, key, listener)
	o.log.Printf("serving ssh on port %d", o.port)
	<-ctx.Done()
	s.stop()
	return nil
}
