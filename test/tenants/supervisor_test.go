package tenants

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/test/simulated"
)

var _ = Describe("The supervisor of the leader of a job with restarts in place", Label("network"), func() {
	const keepsAll = "the launcher of a leader keeps the connections of all strangers"

	It("limits the memory for strangers and still answers its job and the controller", func(ctx context.Context) {
		c, l := startLeader(ctx, pytorch)
		c.sendLargeHeaders(ctx, l)
		Expect(l.runReplica(ctx)).To(ContainSubstring("all restarts in place are used up (maxRestarts: 0)"))
		Expect(l.read(ctx)).To(Succeed())
		c.expectUnharmed()
	})

	It("limits the memory for strangers and still answers the controller, with DeepSpeed", Label("deepspeed"),
		func(ctx context.Context) {
			c, l := startLaunchingWorker(ctx, deepspeed)
			c.sendLargeHeaders(ctx, l)
			Expect(l.read(ctx)).To(Succeed())
			c.expectUnharmed()
		})

	DescribeTable("would exceed its memory if it kept the connections of all strangers",
		func(ctx context.Context, start func(context.Context, service) (*cluster, leader), s service) {
			c, l := start(ctx, s.with(keepsAll))
			c.sendLargeHeaders(ctx, l)
			c.expectHarmed(ctx)
		},
		Entry("with torchrun", startLeader, pytorch),
		Entry("with DeepSpeed", Label("deepspeed"), startLaunchingWorker, deepspeed),
	)
})

// leader is the supervisor that runs in the pod of a leader: of a PyTorchTrainingJob, or the agent of a DeepSpeedJob.
type leader struct {
	address simulated.Address
	program string
}

// attemptID is the ID of the attempt of the leader's job.
const attemptID = "0e7f5d0a-0"

// startLeader starts the supervisor of a leader with a memory limit of 128 MiB. Its only process runs forever.
func startLeader(ctx context.Context, s service) (*cluster, leader) {
	GinkgoHelper()
	l := leader{address: must(simulated.Listen()), program: filepath.Join(GinkgoT().TempDir(), "supervise")}
	Expect(os.Symlink(build(s), l.program)).To(Succeed())
	c := start(ctx)
	c.runLimited(ctx, &controller{name: "supervisor", limit: 128 << 20},
		append(l.command("worker-0", "--is-leader"), torchrun(0, "sleep infinity")...), l.read)
	return c, l
}

// startLaunchingWorker starts the agent of worker 0 with a memory limit of 128 MiB. Its launcher runs forever.
func startLaunchingWorker(ctx context.Context, s service) (*cluster, leader) {
	GinkgoHelper()
	l := leader{address: must(simulated.Listen()), program: build(s)}
	folder := GinkgoT().TempDir()
	key, _ := newJobKey(folder)
	c := start(ctx)
	c.runLimited(ctx, &controller{name: "agent", limit: 128 << 20}, []string{
		l.program, "agent", "launch", "--host=127.%d.0.1", "--port=" + must(simulated.Listen()).Port(), "--key=" + key,
		"--hostfile=" + filepath.Join(folder, "hostfile"),
		"--max-restarts=1", "--restarts-port=" + l.address.Port(), "--attempt=" + attemptID, "--", "sleep", "infinity",
	}, l.read)
	return c, l
}

// command returns the command of the supervisor of a replica, without the command that it runs.
func (l leader) command(replica string, flags ...string) []string {
	return append([]string{
		l.program, "--restarts=0", "--id=" + attemptID, "--replica=" + replica, "--leader=" + l.address.String(),
	}, flags...)
}

// torchrun returns a command that starts a process of a job with two replicas, as torchrun does. Like torchrun, sleep
// does not wait for the process before the supervisor has seen its exit code.
func torchrun(rank int, program string) []string {
	const variables = "RANK=%d MASTER_ADDR=127.0.0.1 MASTER_PORT=1 GROUP_WORLD_SIZE=2"
	return []string{"sh", "-c", fmt.Sprintf(variables+" sh -c '%s' & exec sleep infinity", rank, program)}
}

// read reads the restarts in place, as the controller does.
func (l leader) read(ctx context.Context) error {
	_, err := progress.NewClient().Read(ctx, progress.Target{Address: l.address.String(), Token: attemptID})
	return err
}

// runReplica runs the supervisor of another replica, whose only process fails after a second. It returns the output.
func (l leader) runReplica(ctx context.Context) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	command := append(l.command("worker-1"), torchrun(1, "sleep 1; exit 7")...)
	output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	Expect(err).To(MatchError("exit status 1"), "%s", output)
	return string(output)
}

// sendLargeHeaders opens 2,000 connections that each send a header of 7 KiB, which is almost the maximum size, without
// its end. net/http allows 4 KiB more than MaxHeaderBytes.
func (c *cluster) sendLargeHeaders(ctx context.Context, l leader) {
	GinkgoHelper()
	const strangers = 2000
	header := "GET " + progress.Path + " HTTP/1.1\r\n" + strings.Repeat("a:b\r\n", 1400)
	c.inParallel(strangers, func(int) error {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.77.1")}}
		conn, err := dialer.DialContext(ctx, "tcp", l.address.String())
		if err != nil {
			return err
		}
		DeferCleanup(conn.Close)
		_, _ = conn.Write([]byte(header)) // fails if the supervisor has closed the connection
		return nil
	})
}
