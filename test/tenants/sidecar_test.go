package tenants

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeSidecar is the address of the attacker's pods.
const fakeSidecar = "127.3.0.1"

// sidecarPort equals sidecar.HealthPort.
const sidecarPort = "8080"

var _ = Describe("A pod that imitates the sidecar of a TensorBoard", Label("network", "tensorboard"), func() {
	DescribeTable("does not harm others", func(ctx context.Context, answer func(net.Conn)) {
		c := attackBySidecars(ctx, tensorboard, answer)
		c.works(ctx, tensorboard, "after")
		c.expectUnharmed()
	},
		Entry("with an endless header", hugeHeader),
		Entry("with an endless body", hugeBody),
		Entry("without an answer", silence),
	)

	DescribeTable("would harm a controller that reads", func(ctx context.Context, bug string, answer func(net.Conn)) {
		attackBySidecars(ctx, tensorboard.with(bug), answer).expectHarmed(ctx)
	},
		Entry("a header of any size", "a header of any size", hugeHeader),
		Entry("a body of any size", "a body of any size", hugeBody),
	)
})

// boards is the number of the attacker's TensorBoards. It is many times the number of workers of the controller.
const boards = 400

// attackBySidecars makes the tensorboard-controller send requests to many pods of the attacker.
func attackBySidecars(ctx context.Context, s service, answer func(net.Conn)) *cluster {
	GinkgoHelper()
	c := runController(ctx, s)
	c.works(ctx, s, "before")

	asked := serve(ctx, net.JoinHostPort(fakeSidecar, sidecarPort), answer)
	c.inParallel(boards, func(i int) error {
		return create(ctx, c.attacker, attacker, s.board(name(i), false))
	})
	Eventually(ctx, func() (int, error) {
		pods := metadataOf("Pod")
		err := c.Client.List(ctx, pods, client.InNamespace(attacker))
		return len(pods.Items), c.unless(err)
	}).Should(Equal(boards))
	c.inParallel(boards, func(i int) error {
		pod := &corev1.Pod{}
		if err := c.Client.Get(ctx, client.ObjectKey{Namespace: attacker, Name: name(i) + "-tb"}, pod); err != nil {
			return err
		}
		return c.answerAt(ctx, pod, fakeSidecar)
	})
	Eventually(ctx, asked.Load).Should(BeNumerically(">=", 16))
	return c
}

// serve listens on an address of the attacker's pods and answers each request until the spec ends. It returns a
// counter of the requests.
func serve(ctx context.Context, address string, answer func(net.Conn)) *atomic.Int32 {
	GinkgoHelper()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	var asked atomic.Int32
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				if _, err := http.ReadRequest(bufio.NewReader(connection)); err == nil {
					asked.Add(1)
					answer(connection)
				}
			}()
		}
	}()
	return &asked
}

// part is sent repeatedly in an endless answer.
var part = strings.Repeat("x", 64<<10)

// endless sends one text and then repeats another text until the peer closes the connection.
func endless(to io.Writer, first, part string) {
	for _, err := io.WriteString(to, first); err == nil; {
		_, err = io.WriteString(to, part)
	}
}

func hugeHeader(c net.Conn) { endless(c, "HTTP/1.1 500 ", part) }

func hugeBody(c net.Conn) {
	endless(c, "HTTP/1.1 200 OK\r\n\r\n{\"sources\":[", fmt.Sprintf(`{"run":"r","error":%q},`, part))
}

// silence keeps the connection open until the peer closes it.
func silence(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
