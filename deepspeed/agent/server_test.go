package agent

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

const worker1 = "127.0.1.1"

func TestSSHExitsAsTheCommandDid(t *testing.T) {
	j := newJob(t, 2)
	tests := map[string]struct {
		args []string
		want int
	}{
		"success":               {[]string{worker1, "true"}, 0},
		"a code":                {[]string{worker1, "exit", "7"}, 7},
		"as pdsh calls it":      {[]string{"-oConnectTimeout=10", "-2", "-a", "-x", "-lroot", worker1, "exit 8"}, 8},
		"as DeepSpeed calls it": {[]string{"-o", "PasswordAuthentication=no", "root@" + worker1, "sh -c 'exit 9'"}, 9},
		"a signal":              {[]string{worker1, "kill -KILL $$"}, 137},
		"a missing program":     {[]string{worker1, "no-such-program"}, 127},
		"nobody there":          {[]string{"127.0.9.1", "true"}, 255},
		"another port":          {[]string{"-p", "1", worker1, "true"}, 255},
		"no command":            {[]string{worker1}, 255},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := j.ssh(tc.args...)
			output, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != tc.want {
				t.Errorf("got %d, want %d; output: %s", got, tc.want, output)
			}
		})
	}
}

// A command may end before the server has replied that it runs it.
func TestACommandThatEndsAtOnceIsNotLost(t *testing.T) {
	const connections, commands = 16, 50
	j := newJob(t, 2)
	d := dialer{key: j.signer, port: j.port, timing: j.timing}
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			client, err := d.dial(t.Context(), worker1)
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			for range commands {
				session, err := client.NewSession()
				if err != nil {
					t.Error(err)
					return
				}
				if err := session.Run("true"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestSSHCarriesAllThreeStreams(t *testing.T) {
	j := newJob(t, 2)
	sent := make([]byte, 8<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(sent)
	var stdout, stderr bytes.Buffer
	cmd := j.ssh(worker1, "tee /dev/stderr")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(sent), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stdout.Bytes(), sent) || !bytes.Equal(stderr.Bytes(), sent) {
		t.Errorf("sent %d bytes, got %d and %d, or others", len(sent), stdout.Len(), stderr.Len())
	}
}

func TestSSHWithNReadsNothing(t *testing.T) {
	j := newJob(t, 2)
	cmd := j.ssh("-n", worker1, "cat")
	cmd.Stdin = strings.NewReader("not read")
	if output, err := cmd.Output(); err != nil || len(output) > 0 {
		t.Errorf("got %q, %v", output, err)
	}
}

// startReady starts a call whose command says ready, and waits for that.
func startReady(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
}

func TestTheProcessGroupEnds(t *testing.T) {
	const stubborn = `trap "" TERM; (trap "" TERM; exec sleep 1000) & echo ready; wait; sleep 1000`
	tests := map[string]struct {
		command string
		by      syscall.Signal
		want    int
	}{
		"when the client is killed":             {"sleep 1000 & echo ready; wait", syscall.SIGKILL, -1},
		"when the client is told to end":        {"sleep 1000 & echo ready; wait", syscall.SIGTERM, 143},
		"also if it traps the signal":           {"trap 'exit 4' TERM; sleep 1000 & echo ready; wait", syscall.SIGINT, 4},
		"by force if it ignores the signal":     {stubborn, syscall.SIGHUP, 137},
		"by force if the client is killed, too": {stubborn, syscall.SIGKILL, -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 1)
			j.killAfter = 20 * time.Millisecond
			j.start(1)
			cmd := j.ssh(worker1, tc.command)
			startReady(t, cmd)
			_ = cmd.Process.Signal(tc.by)
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			j.idle(1)
		})
	}
}

func TestWhatACommandLeavesBehindEndsWithIt(t *testing.T) {
	j := newJob(t, 2)
	if output, err := j.ssh(worker1, "sleep 1000 & exit 3").CombinedOutput(); err == nil ||
		err.Error() != "exit status 3" {
		t.Errorf("got %v, %s", err, output)
	}
	j.idle(1)
}

func TestSSHWhoseOutputNobodyReadsEnds(t *testing.T) {
	j := newJob(t, 2)
	cmd := j.ssh(worker1, "echo ready; read go <$RELEASE; echo more; sleep 1000")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	_ = stdout.Close()
	_, _ = j.release.WriteString("go\n")
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("got %d, want 143", got)
	}
}

func TestServeEndsItsSessions(t *testing.T) {
	j := newJob(t, 1)
	o := *j.options
	o.address, o.workers, o.killAfter = worker1, 2, 0 // no force: the time is the kubelet's
	ctx, terminate := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- serve(ctx, &o) }()
	for j.reach(t.Context(), j.signer, []int{1})[0] != nil {
		if t.Context().Err() != nil {
			t.Fatal("not served")
		}
	}
	cmd := j.ssh(worker1, `trap "read go <$RELEASE; exit 6" TERM; echo ready; while :; do read never <$STARTED; done`)
	startReady(t, cmd)
	terminate()
	_, _ = j.release.WriteString("go\n")
	if err := <-served; err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 6 {
		t.Errorf("got %d, want 6", got)
	}
}

func TestServeSaysThatItsPortIsTaken(t *testing.T) {
	j := newJob(t, 2)
	o := *j.options
	o.address = worker1
	if err := serve(t.Context(), &o); err == nil || codeOf(err) != exitSoftware ||
		!strings.Contains(err.Error(), "the port must be free") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherKeyIsRefused(t *testing.T) {
	j, other := newJob(t, 2), newJob(t, 1)
	t.Run("by the server", func(t *testing.T) {
		_, err := ssh.Dial("tcp", j.servers[1].listener.Addr().String(), &ssh.ClientConfig{
			Auth: []ssh.AuthMethod{ssh.PublicKeys(other.signer)}, HostKeyCallback: ssh.FixedHostKey(j.signer.PublicKey()),
		})
		if err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by the client", func(t *testing.T) {
		other.port = j.port
		output, err := other.ssh(worker1, "true").CombinedOutput()
		if err == nil || !strings.Contains(string(output), "the peer does not have the key of this job") {
			t.Errorf("got %v, %s", err, output)
		}
	})
}

func TestAPeerThatIsSilentIsLost(t *testing.T) {
	j := newJob(t, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(j.signer)
		_, _, _, _ = ssh.NewServerConn(conn, config) // and answers nothing
	}()
	d := dialer{key: j.signer, port: listener.Addr().(*net.TCPAddr).Port, timing: j.timing}
	d.timing.keepAlive = 5 * time.Millisecond
	client, err := d.dial(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Wait() // for ever if it is not found out
}

func TestDialHasALimit(t *testing.T) {
	j := newJob(t, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d := dialer{key: j.signer, port: listener.Addr().(*net.TCPAddr).Port, timing: j.timing}
	d.timing.dial = 10 * time.Millisecond
	if _, err := d.dial(t.Context(), "127.0.0.1"); err == nil {
		t.Error("it was accepted")
	}
}

func TestParseCall(t *testing.T) {
	tests := map[string]struct {
		args    string
		want    call
		wantErr string
	}{
		"pdsh": {
			args: "-oConnectTimeout=10 -2 -a -x -lroot host cd /x; ls", want: call{host: "host", command: "cd /x; ls"},
		},
		"DeepSpeed": {
			args: "-o PasswordAuthentication=no -p 2222 host hostname -I",
			want: call{host: "host", port: 2222, command: "hostname -I"},
		},
		"options after the host": {args: "root@host -T -p 22 -- ls -p", wantErr: "unknown option --"},
		"flags and an option together": {
			args: "-Tnp22 host ls", want: call{host: "host", port: 22, noStdin: true, command: "ls"},
		},
		"a port that is none":          {args: "-p x host ls", wantErr: `option -p needs a port, got "x"`},
		"an option that lacks its end": {args: "-p", wantErr: "option -p needs an argument"},
		"an unknown option":            {args: "-Z host ls", wantErr: "unknown option -Z"},
		"no host":                      {args: "-T", wantErr: "usage: ssh [options] [user@]host command"},
		"no command": {
			args: "host", wantErr: "no command for host: this ssh only runs commands; for a shell use kubectl exec",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseCall(strings.Fields(tc.args))
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("got %v, want %s", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(call{})); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
		})
	}
}
