package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// loopback is the address that board listens on. Only programs of this machine can connect to it.
const loopback = "127.0.0.1"

// boardOptions are the flags of the command board.
type boardOptions struct {
	port         uint16
	open, resume bool
}

func newBoard(e *environment) *cobra.Command {
	o := boardOptions{}
	cmd := &cobra.Command{
		Use:   "board JOB",
		Short: "Open the TensorBoard of a job",
		Long: `Open the TensorBoard of a job: forward a port of this machine to it, print the address, and open a browser.

The command waits until the TensorBoard is ready, and runs until Ctrl-C. If the pod of the TensorBoard is replaced, it
connects to the new pod. Only programs of this machine can connect to the port.

A TensorBoard that nobody uses is suspended after a time. --resume starts it again.`,
		Example: `  # Open the TensorBoard of a job in a browser
  kubectl train board digits

  # Print the address only, with a free port
  kubectl train board digits --open=false --port=0

  # Start a TensorBoard that was suspended, and open it
  kubectl train board digits --resume`,
		Args:              oneJob,
		ValidArgsFunction: e.complete(completeJobs),
		RunE:              func(cmd *cobra.Command, args []string) error { return e.board(cmd.Context(), args[0], o) },
	}
	cmd.Flags().Uint16Var(&o.port, "port", 6006, "port of this machine (0: a free port)")
	cmd.Flags().BoolVar(&o.open, "open", true, "open a browser, if this is a terminal of a machine with a browser")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "start the TensorBoard if it is suspended")
	return cmd
}

// board forwards a port to the TensorBoard of a job until the context ends.
func (e *environment) board(ctx context.Context, name string, o boardOptions) error {
	c, job, err := e.connectTo(ctx, name)
	if err != nil {
		return err
	}
	if err := jobs.CheckPods(job); err != nil {
		return err
	}
	key, err := jobs.TensorBoardOf(job)
	if err != nil {
		return err
	}
	opens := o.open && hasBrowser(e.In, e.Out)
	for {
		board, err := e.awaitBoard(ctx, c, job, key, o.resume)
		if err != nil {
			return ignoreInterrupt(ctx, err)
		}
		o.resume = false // if somebody suspends the TensorBoard later, it stays suspended
		connected := false
		err = c.forward(ctx, board, &o.port, func() {
			connected = true
			address := jobs.LocalAddress(board.Status.URL, loopback, o.port)
			_, _ = fmt.Fprintf(e.Out, "TensorBoard of %s: %s\n", job.Ref(), address)
			if opens {
				opens = false
				go e.openBrowser(address)
			}
		})
		if err != nil || ctx.Err() != nil {
			return ignoreInterrupt(ctx, err)
		}
		if connected {
			_, _ = fmt.Fprintln(e.ErrOut, "The pod of the TensorBoard is gone. Connecting to the next one.")
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// ignoreInterrupt returns the error, or nil if the user has interrupted the command.
func ignoreInterrupt(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// awaitBoard waits until the TensorBoard of a job is ready. If resume is true, it starts a suspended TensorBoard. It
// returns an error if the job is deleted or cannot have a TensorBoard, or if the TensorBoard cannot become ready by
// itself.
func (e *environment) awaitBoard(
	ctx context.Context, c *cluster, job jobs.Job, key client.ObjectKey, resume bool,
) (*tensorboardv1beta1.TensorBoard, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		err := c.observeJob(ctx, job, func(now *jobs.Job) (bool, error) {
			if now == nil {
				return false, fmt.Errorf("%s was deleted", job.Ref())
			}
			_, err := jobs.TensorBoardOf(*now)
			return false, err
		})
		if !isFinal(err) { // a job that cannot be watched does not end the wait
			stop(err)
		}
	}()
	narrator := narrate(e.ErrOut, "")
	defer narrator.end()
	var ready *tensorboardv1beta1.TensorBoard
	err := c.observe(ctx, &tensorboardv1beta1.TensorBoardList{}, func(objects map[string]client.Object) (bool, error) {
		board, ok := objects[key.Name].(*tensorboardv1beta1.TensorBoard)
		if !ok || !metav1.IsControlledBy(board, job) {
			narrator.tell("the controller creates the TensorBoard " + key.Name)
			return false, nil
		}
		if board.Spec.Suspend && resume {
			resume = false
			return false, c.Patch(ctx, board.DeepCopy(), mergePatch(board, false, "suspend"))
		}
		isReady, waitsFor, err := jobs.IsBoardReady(board)
		narrator.tell(waitsFor)
		ready = board.DeepCopy()
		return isReady, err
	}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	return ready, err
}

// forward forwards a local port to the pod of a TensorBoard until the pod or the connection is lost, or the context
// ends. If *port is 0, forward chooses a free port. Once forward listens on a port, it sets *port to the number of
// that port and calls the function listening. If there is no pod, forward returns nil.
func (c *cluster) forward(
	ctx context.Context, board *tensorboardv1beta1.TensorBoard, port *uint16, listening func(),
) error {
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: board.Namespace, Name: board.Name + "-tb"}
	if err := c.Get(ctx, key, &pod); err != nil || pod.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	target := jobs.HTTPPort(&pod)
	if target == 0 {
		return fmt.Errorf("the pod %s has no port named http: it is no TensorBoard of this version", pod.Name)
	}
	request := c.core.RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward")
	dialer, err := dialerFor(c, request.URL())
	if err != nil {
		return err
	}
	if err := checkPort(*port); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // watch the pod: without traffic, the API server does not report that the pod is lost
		defer stop()
		_ = c.awaitReplacement(ctx, &pod) // if the watch fails, the next connection reports the problem
	}()
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{loopback},
		[]string{fmt.Sprintf("%d:%d", *port, target)}, ready, io.Discard, io.Discard)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return reconnectable(err)
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	*port = ports[0].Local
	listening()
	return reconnectable(<-ended)
}

// awaitReplacement waits until a pod is being deleted or is gone.
func (c *cluster) awaitReplacement(ctx context.Context, pod *corev1.Pod) error {
	return c.observe(ctx, &corev1.PodList{}, func(objects map[string]client.Object) (bool, error) {
		now, ok := objects[pod.Name]
		return !ok || now.GetUID() != pod.UID || now.GetDeletionTimestamp() != nil, nil
	}, client.InNamespace(pod.Namespace), client.MatchingFields{"metadata.name": pod.Name})
}

// reconnectable returns nil if the connection to the pod was lost, so that the caller connects again. It returns all
// other errors.
func reconnectable(err error) error {
	if errors.Is(err, portforward.ErrLostConnectionToPod) {
		return nil
	}
	return err
}

// checkPort returns an error if the command cannot listen on a port of this machine, for example because another
// program uses the port.
func checkPort(port uint16) error {
	listener, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(int(port)))) //nolint:noctx // it is local
	if err != nil {
		return fmt.Errorf("cannot listen on port %d: %w: choose another one with --port, or a free one with --port=0",
			port, err)
	}
	return listener.Close()
}
