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

func TestSSHExitsWithTheCodeOfTheCommand(t *testing.T) {
	j := newJob(t, 2)
	tests := map[string]struct {
		args []string
		want int
	}{
		"a command that succeeds": {[]string{worker1, "true"}, 0},
		"a command that fails":    {[]string{worker1, "exit", "7"}, 7},
		"a command line of pdsh":  {[]string{"-oConnectTimeout=10", "-2", "-a", "-x", "-lroot", worker1, "exit 8"}, 8},
		"a command line of DeepSpeed": {
			[]string{"-o", "PasswordAuthentication=no", "root@" + worker1, "sh -c 'exit 9'"}, 9,
		},
		"a command that a signal ends":     {[]string{worker1, "kill -KILL $$"}, 137},
		"a command that does not exist":    {[]string{worker1, "no-such-program"}, 127},
		"a host without a server":          {[]string{"127.0.9.1", "true"}, 255},
		"a port without a server":          {[]string{"-p", "1", worker1, "true"}, 255},
		"a command line without a command": {[]string{worker1}, 255},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := j.ssh(tc.args...)
			output, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != tc.want {
				t.Errorf("got exit code %d, want %d; output: %s", got, tc.want, output)
			}
		})
	}
}

// A command can end before the server has replied to the request to run the command.
func TestTheResultOfAnImmediateCommandIsNotLost(t *testing.T) {
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
		t.Errorf("sent %d bytes, got %d and %d bytes, or different bytes", len(sent), stdout.Len(), stderr.Len())
	}
}

func TestSSHWithOptionNDoesNotReadStdin(t *testing.T) {
	j := newJob(t, 2)
	cmd := j.ssh("-n", worker1, "cat")
	cmd.Stdin = strings.NewReader("not read")
	if output, err := cmd.Output(); err != nil || len(output) > 0 {
		t.Errorf("got output %q and error %v, want none", output, err)
	}
}

// startReady starts an ssh client and waits until its command prints a line.
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
		t.Fatalf("reading the first line: got %q, %v", line, err)
	}
}

func TestTheProcessGroupOfACommandEnds(t *testing.T) {
	const stubborn = `trap "" TERM; (trap "" TERM; exec sleep 1000) & echo ready; wait; sleep 1000`
	tests := map[string]struct {
		command string
		by      syscall.Signal
		want    int
	}{
		"when the client is killed":     {"sleep 1000 & echo ready; wait", syscall.SIGKILL, -1},
		"when the client is terminated": {"sleep 1000 & echo ready; wait", syscall.SIGTERM, 143},
		"when the client is interrupted and the command traps SIGTERM": {
			"trap 'exit 4' TERM; sleep 1000 & echo ready; wait", syscall.SIGINT, 4,
		},
		"by force if the command ignores the signal":                          {stubborn, syscall.SIGHUP, 137},
		"by force if the client is killed and the command ignores the signal": {stubborn, syscall.SIGKILL, -1},
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
				t.Errorf("got exit code %d, want %d", got, tc.want)
			}
			j.idle(1)
		})
	}
}

func TestBackgroundProcessesOfACommandEndWithIt(t *testing.T) {
	j := newJob(t, 2)
	if output, err := j.ssh(worker1, "sleep 1000 & exit 3").CombinedOutput(); err == nil ||
		err.Error() != "exit status 3" {
		t.Errorf("got error %v and output %s, want exit status 3", err, output)
	}
	j.idle(1)
}

func TestSSHEndsIfNobodyReadsItsOutput(t *testing.T) {
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
		t.Errorf("got exit code %d, want 143", got)
	}
}

// When the launcher is terminated, pdsh ends, but the ranks still print messages while they save their work.
func TestOutputAfterTheEndOfPdshIsNotLost(t *testing.T) {
	j := newJob(t, 2)
	r, err := openReports(func() {}, j.logged)
	if err != nil {
		t.Fatal(err)
	}
	cmd := j.ssh(worker1, node+`trap "" TERM; echo ready; read go <$RELEASE; echo "saves
to /data"; printf "the end"; echo a warning >&2`)
	cmd.Env = append(cmd.Env, envSocket+"="+r.socket)
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
	r.close(time.Minute)
	if diff := cmp.Diff("127: saves\n127: to /data\n127: the end\n", j.logged.String()); diff != "" {
		t.Errorf("unexpected output of the host (-want +got):\n%s", diff)
	}
}

// A terminated launcher of DeepSpeed runs a command on each host to end the ranks there. If the subcommand launch
// runs the launcher, this command must have no effect: the subcommand itself ends the ranks, and each rank must get
// SIGTERM only once. The command would also fail if the pod of the host ends, because the ssh server no longer runs
// there.
func TestACommandThatEndsTheRanksIsNotRunUnderLaunch(t *testing.T) {
	j := newJob(t, 1)
	cmd := j.ssh("127.0.9.1", `pkill -f  /usr/bin/python3\ -u\ -m\ deepspeed.launcher.launc`)
	cmd.Env = append(cmd.Env, envSocket+"=socket")
	output, err := cmd.CombinedOutput()
	if err != nil || len(output) > 0 {
		t.Errorf("got error %v and output %q, want none", err, output)
	}
}

// Each rank gets SIGTERM from the server. A second one would interrupt a handler that saves a checkpoint.
func TestRanksGetSIGTERMOnce(t *testing.T) {
	j := newJob(t, 2)
	// The rank counts the signals until its parent has ended. The parent is DeepSpeed's launcher, which sends SIGTERM to
	// its ranks when it gets SIGTERM.
	rank := j.script("rank", `trap 'n=$((n+1))' TERM; n=0; launcher=/proc/$PPID; echo ready
until [ ! -e $launcher ] || grep -q ") Z" $launcher/stat || [ $n = 2 ]; do sleep 0.01; done
until [ $n != 0 ]; do sleep 0.01; done
echo $n >$STARTED`)
	launcher := j.script("launcher", `sh `+rank+` & trap "sleep 0.1; kill $!; wait" TERM; wait`)
	cmd := j.ssh(worker1, "exec sh "+launcher+" -m deepspeed.launcher.launch --world_info=x")
	startReady(t, cmd)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if got := j.waitStarted(); got != "1" {
		t.Errorf("the rank got SIGTERM %s times, want once", got)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("got exit code %d, want 143, since the agent ended the ranks", got)
	}
}

func TestServeEndsItsSessions(t *testing.T) {
	j := newJob(t, 1)
	o := *j.options
	o.address, o.workers, o.killAfter = worker1, 2, 0 // killAfter has no effect on a server that stops
	ctx, terminate := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- serve(ctx, &o) }()
	for j.reach(t.Context(), j.signer, []int{1})[0] != nil {
		if t.Context().Err() != nil {
			t.Fatal("worker 1 does not accept ssh")
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
		t.Errorf("got exit code %d, want 6", got)
	}
}

func TestServeFailsIfItsPortIsTaken(t *testing.T) {
	j := newJob(t, 2)
	o := *j.options
	o.address = worker1
	if err := serve(t.Context(), &o); err == nil || codeOf(err) != exitSoftware ||
		!strings.Contains(err.Error(), "the port must be free") {
		t.Errorf("got error %v, want an error about the port", err)
	}
}

func TestAPeerWithAnotherKeyIsRefused(t *testing.T) {
	j, other := newJob(t, 2), newJob(t, 1)
	t.Run("by the server", func(t *testing.T) {
		_, err := ssh.Dial("tcp", j.servers[1].listener.Addr().String(), &ssh.ClientConfig{
			Auth: []ssh.AuthMethod{ssh.PublicKeys(other.signer)}, HostKeyCallback: ssh.FixedHostKey(j.signer.PublicKey()),
		})
		if err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("got error %v, want a failed authentication", err)
		}
	})
	t.Run("by the client", func(t *testing.T) {
		other.port = j.port
		output, err := other.ssh(worker1, "true").CombinedOutput()
		if err == nil || !strings.Contains(string(output), "the peer does not have the key of this job") {
			t.Errorf("got error %v and output %s, want an error about the key of the server", err, output)
		}
	})
}

func TestTheConnectionToASilentPeerIsClosed(t *testing.T) {
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
		_, _, _, _ = ssh.NewServerConn(conn, config) // the peer does not reply afterwards
	}()
	d := dialer{key: j.signer, port: listener.Addr().(*net.TCPAddr).Port, timing: j.timing}
	d.timing.keepAlive = 5 * time.Millisecond
	client, err := d.dial(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Wait() // returns only if the connection is closed
}

func TestDialHasATimeout(t *testing.T) {
	j := newJob(t, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the server does not reply
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d := dialer{key: j.signer, port: listener.Addr().(*net.TCPAddr).Port, timing: j.timing}
	d.timing.dial = 10 * time.Millisecond
	if _, err := d.dial(t.Context(), "127.0.0.1"); err == nil {
		t.Error("dial succeeded, want a timeout")
	}
}

func TestParseCall(t *testing.T) {
	tests := map[string]struct {
		args    string
		want    call
		wantErr string
	}{
		"a command line of pdsh is parsed": {
			args: "-oConnectTimeout=10 -2 -a -x -lroot host cd /x; ls", want: call{host: "host", command: "cd /x; ls"},
		},
		"a command line of DeepSpeed is parsed": {
			args: "-o PasswordAuthentication=no -p 2222 host hostname -I",
			want: call{host: "host", port: 2222, command: "hostname -I"},
		},
		"options are parsed after the host, too": {args: "root@host -T -p 22 -- ls -p", wantErr: "unknown option --"},
		"flags and an option can share a dash": {
			args: "-Tnp22 host ls", want: call{host: "host", port: 22, noStdin: true, command: "ls"},
		},
		"an invalid port is refused":                {args: "-p x host ls", wantErr: `option -p needs a port, got "x"`},
		"an option without its argument is refused": {args: "-p", wantErr: "option -p needs an argument"},
		"an unknown option is refused":              {args: "-Z host ls", wantErr: "unknown option -Z"},
		"a command line without a host is refused":  {args: "-T", wantErr: "usage: ssh [options] [user@]host command"},
		"a command line without a command is refused": {
			args: "host", wantErr: "no command for host: this ssh only runs commands; for a shell, use kubectl exec",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseCall(strings.Fields(tc.args))
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("got error %v, want %s", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(call{})); diff != "" || err != nil {
				t.Errorf("unexpected call (-want +got):\n%serror: %v", diff, err)
			}
		})
	}
}

// dialFrom opens a connection to worker 1 from the given address, as if it came from another pod.
func (j *job) dialFrom(address string) net.Conn {
	j.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.DialContext(j.t.Context(), "tcp", j.servers[1].listener.Addr().String())
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A pod that opens connections and sends nothing must neither fill the memory of a worker nor block the launcher.
func TestSilentConnectionsAreLimitedAndDoNotBlockOthers(t *testing.T) {
	const silent = 20 * maxUnknown
	j := newJob(t, 1)
	j.timing.dial = time.Hour // so that no connection times out
	j.start(1)
	config := &ssh.ClientConfig{
		Auth: []ssh.AuthMethod{ssh.PublicKeys(j.signer)}, HostKeyCallback: ssh.FixedHostKey(j.signer.PublicKey()),
	}
	authenticated, _, _, err := ssh.NewClientConn(j.dialFrom("127.0.88.1"), worker1, config)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := authenticated.SendRequest("test", true, nil); err != nil { // the server has now authenticated the peer
		t.Fatal(err)
	}
	slow := j.dialFrom("127.0.77.1")
	closed := make(chan struct{}, silent)
	for range silent {
		conn := j.dialFrom("127.0.88.1")
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		}()
	}
	for range silent - maxUnknown + 1 { // the slow connection also counts towards the limit
		<-closed
	}
	if _, _, _, err := ssh.NewClientConn(slow, worker1, config); err != nil {
		t.Errorf("an earlier connection from another address is not served: %v", err)
	}
	if _, _, err := authenticated.SendRequest("test", true, nil); err != nil {
		t.Errorf("an authenticated connection from the same address was closed: %v", err)
	}
	if output, err := j.ssh(worker1, "true").CombinedOutput(); err != nil {
		t.Errorf("a later connection is not served: %v: %s", err, output)
	}
}
