package train

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/term"
	"k8s.io/client-go/tools/clientcmd"
)

var _ = Describe("kubectl train watch in a terminal", func() {
	It("shows a job at 80 and at 200 columns, and restores the terminal when q is pressed", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, restarts("digits", 3))
		t := n.terminal(ctx, 80, 24, "watch", "digits")
		Eventually(t.Screen).Should(Equal(`digits  PyTorchTrainingJob in namespace NAMESPACE      waits for TIME, age TIME
○ Pending  pods are starting (Pending)

│ 2 of 2 replicas are not running yet: digits-worker-0 is starting

Replicas     0 of 2 running, 2 pending
Restarts     0 of 3  attempt 0

REPLICA   STATE      NODE  RESTARTS
worker-0  ○ Pending  -     0
worker-1  ○ Pending  -     0

EVENTS
TIME  Created          created 2 replicas









CLOCK  ↑↓ scroll  q quit   kubectl train why -n NAMESPACE ptjob/digits`))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		Eventually(t.Screen).Should(Equal(`digits  PyTorchTrainingJob in namespace NAMESPACE      runs for TIME, age TIME
● Running  every replica runs

Replicas     2 of 2 running
Restarts     0 of 3  attempt 0

REPLICA   STATE      NODE  RESTARTS
worker-0  ● Running  -     0
worker-1  ● Running  -     0

EVENTS
TIME  Running          all 2 replicas run or have ended
TIME  Created          created 2 replicas










CLOCK  ↑↓ scroll  q quit`))
		Expect(t.Raw()).To(MatchRegexp(`\x1b\[[0-9;]*32[0-9;]*m● Running`), "the terminal has colors")

		t.Resize(200, 50)
		Eventually(t.Screen).Should(ContainSubstring("\nReplicas     2 of 2 running" + strings.Repeat(" ", 85) + "EVENTS\n"))
		t.Type("q")
		Eventually(t.Ended).Should(Receive(Equal(0)), "the exit code")
		Eventually(t.Screen).Should(HaveLen(49), "the view was on the alternate screen, and 50 empty lines are left")
	})

	It("leaves the last state of a failed job in the terminal, without colors with NO_COLOR", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		t := n.terminal(ctx, 80, 24, "watch", "digits")
		Eventually(t.Screen).Should(ContainSubstring("● Running"))
		n.exit(ctx, "digits-worker-1", 0, "")
		n.exit(ctx, "digits-worker-0", 3, "the disk is full")
		Eventually(t.Ended).Should(Receive(Equal(2)), "the exit code")
		Eventually(t.Screen).Should(And(
			ContainSubstring("✗ Failed  a replica failed and is not restarted (PermanentFailure)\n"),
			ContainSubstring("\n✗ worker-0 (rank 0): exit code 3 (Error)\n│ the disk is full\n"),
			ContainSubstring("\nError: ptjob/digits failed (PermanentFailure): kubectl train why -n NAMESPACE"),
		))

		t = n.terminal(ctx, 60, 20, "watch", "digits")
		Eventually(t.Ended).Should(Receive(Equal(2)), "the job has failed before")
		Eventually(t.Screen).Should(ContainSubstring("✗ Failed  a replica failed"))
		GinkgoT().Setenv("NO_COLOR", "1")
		t = n.terminal(ctx, 80, 24, "watch", "digits")
		Eventually(t.Ended).Should(Receive(Equal(2)))
		Expect(regexp.MustCompile(`\x1b\[[0-9;]*3[0-7]m`).FindString(t.Raw())).To(BeEmpty())
	})

	It("ends with exit code 130 after Ctrl-C, and restores the terminal after SIGTERM", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		t := n.terminal(ctx, 80, 24, "watch", "digits")
		Eventually(t.Screen).Should(ContainSubstring("○ Pending"))
		t.Type("\x03")
		Eventually(t.Ended).Should(Receive(Equal(130)))

		t = n.terminal(ctx, 80, 24, "watch", "digits")
		Eventually(t.Screen).Should(ContainSubstring("○ Pending"))
		Expect(t.process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(t.Ended).Should(Receive(Equal(130)))
		Expect(t.Raw()).To(ContainSubstring(ansi.ResetModeAltScreenSaveCursor))
	})

	It("folds 200 replicas, and scrolls to all of them", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, strings.Replace(plain("PyTorchTrainingJob", "large"), "replicas: 2", "replicas: 200", 1))
		t := n.terminal(ctx, 80, 24, "watch", "large")
		var pods []string
		for i := range 200 {
			pods = append(pods, fmt.Sprintf("large-worker-%d", i))
		}
		n.run(ctx, pods[:199]...)
		Eventually(t.Screen).Should(And(
			ContainSubstring("\nReplicas     199 of 200 running, 1 pending\n"),
			ContainSubstring("\n                    150 ●●●●●●●●●● ●●●●●●●●●● ●●●●●●●●●● ●●●●●●●●●● ●●●●●●●●●○\n"),
			ContainSubstring("\nworker-199  ○ Pending  -     0\n"),
		))
		Expect(t.Screen()).NotTo(ContainSubstring("worker-198"))
		t.Type("G")
		Eventually(t.Screen).Should(ContainSubstring("\nworker-198  ● Running  -     0\n"))
		t.Type("q")
		Eventually(t.Ended).Should(Receive(Equal(0)))
		AddReportEntry("the CPU time", t.used().String())
		Expect(t.used()).To(BeNumerically("<", 15*time.Second), "the CPU time")
	})

	It("shows all jobs as a table that changes", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.create(ctx, plain("DeepSpeedJob", "words"))
		t := n.terminal(ctx, 80, 24, "watch")
		Eventually(t.Screen).Should(ContainSubstring("Jobs  0 running, 2 waiting, 0 finished"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		Eventually(t.Screen).Should(And(
			ContainSubstring("Jobs  1 running, 1 waiting, 0 finished"),
			ContainSubstring("\nJOB           PHASE      READY  PROGRESS  RESTARTS  NOTE\n"),
			ContainSubstring("\nptjob/digits  ● Running  2/2    -         0/3\n"),
		))
		t.Type("q")
		Eventually(t.Ended).Should(Receive(Equal(0)))
	})

	It("connects again when the connection breaks", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		line := newConnection(ctx)
		w := n.watch(ctx, "watch", "digits", "--until=running", "--server=https://"+line.Addr())
		Eventually(w.Text).Should(ContainSubstring(" phase: Pending (Pending)"))
		line.Break()
		Eventually(w.Text).Should(ContainSubstring(" ptjob/digits trouble: not up to date: "))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		line.Repair()
		Eventually(w.Ended).Should(Receive(BeNil()))
		Expect(w.Text()).To(And(
			ContainSubstring(" ptjob/digits trouble: over\n"), ContainSubstring(" ptjob/digits phase: Running ")))
	})
})

var _ = Describe("kubectl train run in a terminal", func() {
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		It("leaves the job alone after the signal "+sent.String()+" during the question", func(ctx context.Context) {
			n := newNamespace(ctx)
			t := n.terminal(ctx, 80, 24, n.digits()...)
			before, err := term.GetState(int(t.file.Fd()))
			Expect(err).NotTo(HaveOccurred())
			Eventually(t.Screen).Should(ContainSubstring("ptjob/digits waits"))
			questions := func() int { return strings.Count(t.Raw(), "[c]ontinue here? ") }
			t.Type("\x03")
			Eventually(questions).Should(Equal(1))
			t.Type("c")
			Eventually(t.Raw).Should(ContainSubstring("here? continue"))
			Expect(t.process.Signal(syscall.SIGINT)).To(Succeed())
			Eventually(questions).Should(Equal(2))
			Expect(t.process.Signal(sent)).To(Succeed())
			Eventually(t.Ended).Should(Receive(Equal(130)), "the exit code")
			Expect(t.Screen()).To(And(ContainSubstring("ptjob/digits goes on"), ContainSubstring("\nError: interrupted\n")))
			Expect(term.GetState(int(t.file.Fd()))).To(Equal(before), "the terminal is restored")
			Expect(n.job(ctx, "digits").Spec().RunMode.Pausing()).To(BeFalse())
		})
	}

	It("does not ask after SIGTERM", func(ctx context.Context) {
		n := newNamespace(ctx)
		t := n.terminal(ctx, 80, 24, n.digits()...)
		Eventually(t.Screen).Should(ContainSubstring("ptjob/digits waits"))
		Expect(t.process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(t.Ended).Should(Receive(Equal(130)), "the exit code")
		Expect(t.Raw()).NotTo(ContainSubstring("[d]etach"))
	})
})

// terminal is a terminal in which a program runs.
type terminal struct {
	// Ended receives the exit code of the program.
	Ended chan int

	namespace namespace
	process   *os.Process
	used      func() time.Duration
	file      *os.File
	emulator  *vt.SafeEmulator

	mu     sync.Mutex
	height int
	width  int
	raw    bytes.Buffer
}

// terminal runs kubectl train in a terminal of the given size, in the namespace.
func (n namespace) terminal(ctx context.Context, width, height int, args ...string) *terminal {
	GinkgoHelper()
	cmd := program(ctx, append([]string{"--kubeconfig", kubeconfig, "--namespace", string(n)}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	Expect(err).NotTo(HaveOccurred())
	t := &terminal{
		Ended: make(chan int, 1), namespace: n, process: cmd.Process, file: file,
		emulator: vt.NewSafeEmulator(width, height), width: width, height: height,
		used: func() time.Duration { return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() },
	}
	go func() { _, _ = io.Copy(file, t.emulator) }() // the emulator answers queries of the program
	go func() {
		_, _ = io.Copy(t, file) // fails when the program has closed the terminal
		_ = cmd.Wait()
		t.Ended <- cmd.ProcessState.ExitCode()
	}()
	DeferCleanup(func() {
		_ = cmd.Process.Kill()
		_ = file.Close()
	})
	return t
}

// Write receives the output of the program.
func (t *terminal) Write(output []byte) (int, error) {
	t.mu.Lock()
	t.raw.Write(output)
	t.mu.Unlock()
	return t.emulator.Write(output)
}

// Raw returns the output of the program with its escape sequences.
func (t *terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raw.String()
}

// Screen returns the text on the screen. The name of the namespace, durations and the clock are replaced, since they
// differ in each run.
func (t *terminal) Screen() string {
	t.mu.Lock()
	width, height := t.width, t.height
	t.mu.Unlock()
	lines := make([]string, height)
	for y := range height {
		var line strings.Builder
		for x := range width {
			if cell := t.emulator.CellAt(x, y); cell == nil || cell.Content == "" {
				line.WriteByte(' ')
			} else {
				line.WriteString(cell.Content)
			}
		}
		lines[y] = strings.TrimRight(line.String(), " ")
	}
	return masked(strings.Join(lines, "\n"), string(t.namespace))
}

// masked replaces the parts of a text that differ in each run: the namespace, durations and the clock.
func masked(text, namespace string) string {
	text = strings.ReplaceAll(text, namespace, "NAMESPACE")
	text = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `).ReplaceAllString(text, "CLOCK ")
	text = regexp.MustCompile(`(?m) +(waits|runs) for \w+, age \w+$`).ReplaceAllString(text, "      $1 for TIME, age TIME")
	text = regexp.MustCompile(`(?m)^\d+[smh]\w* +`).ReplaceAllString(text, "TIME  ")
	return regexp.MustCompile(`quit +kubectl`).ReplaceAllString(text, "quit   kubectl")
}

// Type types keys.
func (t *terminal) Type(keys string) {
	GinkgoHelper()
	_, err := io.WriteString(t.file, keys)
	Expect(err).NotTo(HaveOccurred())
}

// Resize changes the size of the terminal.
func (t *terminal) Resize(width, height int) {
	GinkgoHelper()
	t.mu.Lock()
	t.width, t.height = width, height
	t.mu.Unlock()
	t.emulator.Resize(width, height)
	Expect(pty.Setsize(t.file, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})).To(Succeed())
}

// connection is a proxy for TCP connections to the API server. Tests can break and repair it.
type connection struct {
	address, server string

	mu       sync.Mutex
	listener net.Listener
	open     []net.Conn
}

// newConnection returns a connection that is not broken.
func newConnection(ctx context.Context) *connection {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	c := &connection{address: listener.Addr().String(), server: strings.TrimPrefix(config.Host, "https://")}
	Expect(listener.Close()).To(Succeed())
	c.Repair()
	DeferCleanup(c.Break)
	return c
}

// Addr returns the address that a client connects to.
func (c *connection) Addr() string { return c.address }

// Repair makes the proxy accept connections.
func (c *connection) Repair() {
	GinkgoHelper()
	listener, err := net.Listen("tcp", c.address)
	Expect(err).NotTo(HaveOccurred())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener = listener
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", c.server)
			if err != nil {
				_ = in.Close()
				continue
			}
			c.mu.Lock()
			c.open = append(c.open, in, out)
			c.mu.Unlock()
			go func() { _, _ = io.Copy(in, out) }()
			go func() { _, _ = io.Copy(out, in) }()
		}
	}()
}

// Break closes all connections, and refuses new ones.
func (c *connection) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.listener.Close()
	for _, open := range c.open {
		_ = open.Close()
	}
	c.open = nil
}
