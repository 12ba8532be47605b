package tenants

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"

	"tensorstack.dev/jobs/test/simulated"
)

var _ = Describe("The ssh server of a DeepSpeedJob's worker", Label("network", "deepspeed"), func() {
	It("limits the memory for strangers and still serves the members of the job", func(ctx context.Context) {
		c, w := startWorker(ctx, deepspeed)
		c.sendLargePackets(ctx, w)
		Expect(w.runCommand(ctx)).To(Succeed())
		c.expectUnharmed()
	})

	It("would exceed its memory if it kept the connections of all strangers", func(ctx context.Context) {
		c, w := startWorker(ctx, deepspeed.with("a worker keeps the connections of all strangers"))
		c.sendLargePackets(ctx, w)
		c.expectHarmed(ctx)
	})
})

// worker is the agent that runs in the container of a worker of a DeepSpeedJob.
type worker struct {
	address simulated.Address
	key     ssh.Signer
}

// startWorker starts the agent of a worker with a memory limit of 128 MiB.
func startWorker(ctx context.Context, s service) (*cluster, worker) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	key, signer := newJobKey(folder)
	w := worker{address: must(simulated.Listen()), key: signer}
	c := start(ctx)
	c.runLimited(ctx, &controller{name: "agent", limit: 128 << 20}, []string{
		build(s), "agent", "serve", "--host=worker-%d", "--workers=2", "--port=" + w.address.Port(), "--key=" + key,
		"--hostfile=" + filepath.Join(folder, "hostfile"),
	}, w.runCommand)
	return c, w
}

// newJobKey writes the private key of a DeepSpeedJob to a file in the folder. It returns the path of the file.
func newJobKey(folder string) (file string, signer ssh.Signer) {
	GinkgoHelper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	file = filepath.Join(folder, "key")
	block := must(ssh.MarshalPrivateKey(private, ""))
	Expect(os.WriteFile(file, pem.EncodeToMemory(block), 0o600)).To(Succeed())
	return file, must(ssh.NewSignerFromKey(private))
}

// sendLargePackets opens 2,000 connections that each send a packet of the maximum size, without its last byte.
func (c *cluster) sendLargePackets(ctx context.Context, w worker) {
	GinkgoHelper()
	const strangers, largest = 2000, 256 << 10
	packet := binary.BigEndian.AppendUint32([]byte("SSH-2.0-stranger\r\n"), largest)
	packet = append(packet, make([]byte, largest-1)...)
	c.inParallel(strangers, func(int) error {
		conn, err := w.dial(ctx, "127.0.77.1")
		if err != nil {
			return err
		}
		DeferCleanup(conn.Close)
		_, _ = conn.Write(packet) // fails if the server has closed the connection
		return nil
	})
}

// dial connects to the worker from the given address.
func (w worker) dial(ctx context.Context, from string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return dialer.DialContext(ctx, "tcp", w.address.String())
}

// runCommand runs a command on the worker, as another member of its job does.
func (w worker) runCommand(ctx context.Context) error {
	tcp, err := w.dial(ctx, "127.0.0.2")
	if err != nil {
		return err
	}
	defer tcp.Close()
	conn, channels, requests, err := ssh.NewClientConn(tcp, w.address.String(), &ssh.ClientConfig{
		Auth: []ssh.AuthMethod{ssh.PublicKeys(w.key)}, HostKeyCallback: ssh.FixedHostKey(w.key.PublicKey()),
	})
	if err != nil {
		return fmt.Errorf("the worker does not serve a member of its job: %w", err)
	}
	client := ssh.NewClient(conn, channels, requests)
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	return session.Run("true")
}
