package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// server runs commands for whoever has the job's key.
type server struct {
	*options
	config   *ssh.ServerConfig
	listener net.Listener
	unknowns unknowns

	mu       sync.Mutex
	sessions map[*session]bool
	stopping bool
	running  sync.WaitGroup // of sessions
}

// session is a command that runs in a process group of its own.
type session struct {
	server         *server
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr io.ReadCloser
	end            func() // TERM to the group, and KILL if it takes too long; once
}

// startServer serves until stop.
func startServer(o *options, key ssh.Signer, listener net.Listener) *server {
	s := &server{options: o, listener: listener, sessions: map[*session]bool{}}
	s.config = &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, peer ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, checkKey(key, peer)
		},
	}
	s.config.AddHostKey(key)
	go s.accept()
	return s
}

func (s *server) accept() {
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as too many open files, which pass
			s.log.Printf("accepting a connection: %v", err)
			time.Sleep(s.timing.retry)
		default:
			go s.handle(conn)
		}
	}
}

// stop ends all sessions and returns when they have ended. Their processes get the time that the kubelet gives the pod.
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

func (s *server) handle(tcp net.Conn) {
	defer func() { _ = tcp.Close() }()
	_ = tcp.SetDeadline(time.Now().Add(3 * s.timing.dial))
	s.unknowns.add(tcp)
	conn, channels, requests, err := ssh.NewServerConn(tcp, s.config)
	s.unknowns.remove(tcp)
	if err != nil {
		// the first is none, which is no attempt
		if auth, ok := errors.AsType[*ssh.ServerAuthError](err); ok && len(auth.Errors) > 1 {
			s.log.Printf("refused %s: %v", tcp.RemoteAddr(), auth.Errors[len(auth.Errors)-1])
		}
		return
	}
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

// serve runs the one command of a channel, and ends it if the channel or its connection goes.
func (s *server) serve(channel ssh.Channel, requests <-chan *ssh.Request) {
	var c *session
	for r := range requests {
		var exec struct{ Command string }
		ok := false
		switch r.Type {
		case "exec":
			if c == nil && ssh.Unmarshal(r.Payload, &exec) == nil {
				if c = s.start(exec.Command); c != nil {
					// The reply goes first: a command that ends at once closes the channel.
					_ = r.Reply(true, nil)
					go c.carry(channel)
					continue
				}
			}
		case "signal": // whichever: the client wants an end
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

// start starts a command, whose caller must carry its streams. It returns nil if it cannot.
func (s *server) start(command string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", command) //nolint:gosec // it runs what the holder of the key tells it to
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

// carry connects the streams of the command with the channel. It returns when the command has ended and the client
// knows how.
func (c *session) carry(channel ssh.Channel) {
	defer c.server.running.Done()
	go func() {
		_, _ = io.Copy(c.stdin, channel)
		_ = c.stdin.Close()
	}()
	var output sync.WaitGroup
	output.Go(func() { _, _ = io.Copy(channel, c.stdout) })
	output.Go(func() { _, _ = io.Copy(channel.Stderr(), c.stderr) })
	ranks := &ranks{group: c.cmd.Process.Pid, slots: c.server.slots, found: map[int]int{}}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { ranks.watch(ended) })
	code := c.wait()
	close(ended)
	watch.Wait()
	_ = c.stdin.Close()
	// A process that left the group may hold the streams for ever.
	late := time.AfterFunc(c.server.killAfter, func() { _, _ = c.stdout.Close(), c.stderr.Close() })
	output.Wait()
	late.Stop()
	_, _ = c.stdout.Close(), c.stderr.Close()
	if code != 0 && ranks.first != "" {
		newLogger(channel.Stderr()).Print(ranks.first)
	}
	status := struct{ Code uint32 }{uint32(code)} //nolint:gosec // from 0 to 255
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
	_ = channel.Close()
	c.server.mu.Lock()
	delete(c.server.sessions, c)
	c.server.mu.Unlock()
}

// wait returns when no process of the group is left, with the exit code of its first one. The others may not outlive
// it: they are ranks whose launcher is gone.
func (c *session) wait() int {
	state, err := c.cmd.Process.Wait() // not Cmd.Wait, which closes the streams before all is read
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
	return statusCode(status)
}

// terminate ends the group. Its time is limited only while the pod stays.
func (c *session) terminate() {
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

// serve is the command of the workers that do not launch.
func serve(ctx context.Context, o *options) error {
	key, err := readKey(o.key)
	if err != nil {
		return err
	}
	if err := o.writeHostfile(firstWorkers(o.workers)); err != nil {
		return err
	}
	listener, err := o.listen()
	if err != nil {
		return err
	}
	s := startServer(o, key, listener)
	o.log.Printf("serving ssh on port %d", o.port)
	<-ctx.Done()
	s.stop()
	return nil
}
