package tenants

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/kubelet"
)

// hostileOutput sets the title of a terminal, writes to its clipboard, clears its screen and imitates another replica.
const hostileOutput = "\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[H\r[worker-0] all is well\n"

var _ = Describe("The output of a program in a terminal", Label("rights", "pytorch"), func() {
	It("does not control the terminal of the user who reads it with kubectl train", func(ctx context.Context) {
		c := runController(ctx, pytorch)
		c.runWith(ctx, hostileOutput)
		Expect(c.inTerminal(ctx, "logs", "hostile", "--all")).To(Equal("[worker-0] [worker-0] all is well\r\n"))
	})

	It("would control the terminal if it was printed as the program wrote it", func(ctx context.Context) {
		c := runController(ctx, pytorch)
		c.runWith(ctx, hostileOutput)
		Expect(c.inTerminal(ctx, "logs", "hostile", "--all", "--raw")).To(ContainSubstring("\x1b]52;c;"))
	})
})

// runWith runs a job of the attacker with one replica. A server of the test imitates the kubelet, and returns the
// given output as the log of the pod.
func (c *cluster) runWith(ctx context.Context, output string) {
	GinkgoHelper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, output)
	}))
	DeferCleanup(server.Close)
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(text, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}} // the API server connects to a node by its name
	Expect(c.Client.Create(ctx, node)).To(Succeed())
	created := node.DeepCopy()
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}
	Expect(c.Client.Status().Patch(ctx, node, client.MergeFrom(created))).To(Succeed())

	template := plain()
	template.Spec.NodeName = node.Name
	Expect(create(ctx, c.attacker, attacker, pytorch.job("hostile", 1, template))).To(Succeed())
	Eventually(ctx, func() error {
		pods, err := c.podsOf(ctx, pytorch, attacker, "hostile")
		if err != nil {
			return err
		}
		if len(pods) == 0 {
			return errors.New("the job has no pod yet")
		}
		return c.report(ctx, &pods[0], func(pod *corev1.Pod) { kubelet.Run(pod, node.Name, time.Now()) })
	}).Should(Succeed())
}

// inTerminal runs kubectl train as the administrator in a terminal, and returns the output in the terminal.
func (c *cluster) inTerminal(ctx context.Context, args ...string) string {
	GinkgoHelper()
	binary, err := gexec.Build("tensorstack.dev/jobs/cli/cmd/kubectl-train")
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, binary, append(args, "--kubeconfig", c.kubeconfig, "-n", attacker)...)
	terminal, err := pty.Start(command)
	Expect(err).NotTo(HaveOccurred())
	defer terminal.Close()
	written, err := io.ReadAll(terminal)
	if !errors.Is(err, syscall.EIO) { // EIO means that no process uses the terminal anymore
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(command.Wait()).To(Succeed(), "%s", written)
	return string(written)
}
