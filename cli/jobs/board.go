package jobs

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// ownBoard is the format of the error about a job that cannot get a TensorBoard.
const ownBoard = "%s has no TensorBoard of its own: create a TensorBoard for the volume with its logs, and " +
	"forward a port to it with kubectl port-forward service/NAME-tb 6006:80"

// TensorBoardOf returns the key of the TensorBoard of a job, or an error if the job has none.
func TensorBoardOf(job Job) (client.ObjectKey, error) {
	key := client.ObjectKeyFromObject(job)
	owner, ok := job.Job.(framework.TensorBoardJob)
	if !ok {
		return key, fmt.Errorf(ownBoard, "a "+job.Kind.Kind)
	}
	status := owner.TensorBoardStatus()
	switch {
	case status != nil && status.Dependent != nil:
		key.Name = status.Dependent.Name
	case status != nil && status.Type == corev1.EventTypeWarning:
		return key, fmt.Errorf("the TensorBoard of %s does not exist: %s: %s", job.Ref(), status.Reason, status.Note)
	case owner.TensorBoardSpec() == nil && job.JobStatus().Decided():
		return key, fmt.Errorf(ownBoard, job.Ref())
	case owner.TensorBoardSpec() == nil:
		return key, fmt.Errorf("%s has no TensorBoard: pause the job, add spec.tensorboardSpec with the folder of its "+
			"logs, and resume it", job.Ref())
	}
	return key, nil
}

// ReadTensorBoard returns the TensorBoard of a job. It returns nil without an error if the job has no TensorBoard, or
// if a TensorBoard with the same name belongs to another owner.
func ReadTensorBoard(ctx context.Context, from client.Reader, job Job) (*tensorboardv1beta1.TensorBoard, error) {
	key, err := TensorBoardOf(job)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the job has none
	}
	var board tensorboardv1beta1.TensorBoard
	if err := from.Get(ctx, key, &board); err != nil || !metav1.IsControlledBy(&board, job) {
		return nil, client.IgnoreNotFound(err)
	}
	return &board, nil
}

// IsBoardReady reports whether a TensorBoard is ready. If not, waitsFor describes the reason for the wait, or err
// explains why the TensorBoard cannot become ready by itself.
func IsBoardReady(board *tensorboardv1beta1.TensorBoard) (isReady bool, waitsFor string, err error) {
	i := slices.IndexFunc(board.Status.Conditions, func(c tensorboardv1beta1.TensorBoardCondition) bool {
		return c.Type == tensorboardv1beta1.ConditionReady
	})
	switch {
	case board.Spec.Suspend:
		return false, "", fmt.Errorf("the TensorBoard %s is suspended: start it again with --resume", board.Name)
	case board.Status.ObservedGeneration < board.Generation || i < 0:
		return false, "the controller has not seen the TensorBoard " + board.Name + " yet", nil
	}
	ready := board.Status.Conditions[i]
	switch {
	case ready.Status == metav1.ConditionTrue:
		return true, "", nil
	case board.Status.Phase == tensorboardv1beta1.TensorBoardFailed:
		return false, "", fmt.Errorf("the TensorBoard %s cannot start: %s: %s", board.Name, ready.Reason, ready.Message)
	default:
		return false, fmt.Sprintf("the TensorBoard %s is not ready: %s: %s", board.Name, ready.Reason, ready.Message), nil
	}
}

// HTTPPort returns the number of the container port that is named http, or 0 if the pod has none. The Service of a
// TensorBoard targets the same port.
func HTTPPort(pod *corev1.Pod) int32 {
	for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for _, port := range container.Ports {
			if port.Name == "http" {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// LocalAddress returns the URL that reaches a TensorBoard through a port of this machine. The URL has the path of the
// given address, since the TensorBoard expects this path.
func LocalAddress(address string, host string, port uint16) string {
	path := "/"
	// The path must begin with a slash. With the path "@example.com", a browser would open example.com, since the text
	// before an "@" is not part of the host.
	if parsed, err := url.Parse(address); err == nil && strings.HasPrefix(parsed.Path, "/") {
		path = parsed.EscapedPath()
	}
	return "http://" + host + ":" + strconv.Itoa(int(port)) + path
}
