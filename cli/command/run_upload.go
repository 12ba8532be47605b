package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/run"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/report"
)

// upload brings the code into the claim, through a pod that mounts the claim.
func (p *preparation) upload(ctx context.Context) error {
	pod := p.objects.Upload
	if err := p.createOwned(ctx, pod); err != nil {
		return err
	}
	if p.objects.UploadGroup != nil {
		if err := p.createOwned(ctx, p.objects.UploadGroup); err != nil {
			return err
		}
	}
	if err := p.waitForPod(ctx, pod); err != nil {
		return err
	}
	p.uploaded = true
	if err := p.send(ctx, pod); err != nil {
		return err
	}
	p.deletePod(ctx, pod)
	return nil
}

// waitForPod waits until the pod runs. It prints the reasons why the pod does not run yet.
func (p *preparation) waitForPod(ctx context.Context, pod *corev1.Pod) error {
	defer p.screen.setStatus("")
	last, start := "", time.Now()
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var reason string
		switch err := p.Get(ctx, client.ObjectKeyFromObject(pod), pod); {
		case isFinal(err), ctx.Err() != nil:
			return false, err
		case err != nil:
			reason = fmt.Sprintf("the pod cannot be read: %v", err)
		case pod.Status.Phase == corev1.PodRunning:
			return true, nil
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
			return false, fmt.Errorf("the pod %s of the upload has ended: %s", pod.Name, endOf(pod))
		case lacksLocalQueue(pod):
			switch err := p.addToLocalQueue(ctx, pod); {
			case errors.Is(err, errNoLocalQueue):
				return false, err
			case isRejected(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err):
				return false, fmt.Errorf("the pod %s of the upload cannot enter a queue of Kueue: %w", pod.Name, err)
			case err != nil:
				reason = fmt.Sprintf("the pod cannot enter a queue of Kueue: %v", err)
			}
		case p.objects.Claim != nil && time.Since(start) < bindingDelay: // it is normal that the claim is not bound yet
		default:
			reason = cmp.Or(p.problemOfClaim(ctx), waitsFor(pod))
		}
		p.screen.setStatus(fmt.Sprintf("Waiting for the pod %s, which receives the code", pod.Name))
		if reason != last && reason != "" {
			p.screen.message("Waiting for the pod %s, which receives the code: %s", pod.Name, reason)
			last = reason
		}
		return false, nil
	})
}

// kueueGate is the scheduling gate of the pods that Kueue has not admitted yet.
const kueueGate = "kueue.x-k8s.io/admission"

// lacksLocalQueue reports whether Kueue holds a pod that has no LocalQueue, so that the pod never starts. Kueue does so
// if its configuration has manageJobsWithoutQueueName. By default, the upload is in no queue, because it needs no GPUs.
func lacksLocalQueue(pod *corev1.Pod) bool {
	return pod.Labels[kueuev1beta2.LabelQueueName] == "" &&
		slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: kueueGate})
}

// errNoLocalQueue means that Kueue holds the pod of the upload, and that the job has no LocalQueue.
var errNoLocalQueue = errors.New("in this namespace, Kueue starts no pod without a queue, and so not the pod of the " +
	"upload. Start the job again with a LocalQueue, such as --local-queue=NAME")

// setLocalQueue gives the pod of an upload the label with the LocalQueue of its job.
func setLocalQueue(pod *corev1.Pod, job jobs.Job) error {
	queue := job.GetLabels()[kueuev1beta2.LabelQueueName]
	if queue == "" {
		return errNoLocalQueue
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, kueuev1beta2.LabelQueueName, queue)
	return nil
}

// addToLocalQueue puts the pod of the upload into the LocalQueue of the job.
func (p *preparation) addToLocalQueue(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := write(ctx)
	defer cancel()
	changed := pod.DeepCopy()
	if err := setLocalQueue(changed, p.objects.Job); err != nil {
		return err
	}
	return p.Patch(ctx, changed, client.MergeFrom(pod))
}

// waitsFor returns the reason why a pod does not run yet, and the message that explains this reason. Without a
// message, it returns "".
func waitsFor(pod *corev1.Pod) string {
	reason, message := jobs.WhyPending(pod)
	if message == "" {
		return ""
	}
	return reason + ": " + message + hintAboutRoot(message)
}

// hintAboutRoot returns a hint about --run-as-user if the kubelet has rejected an image because its user is root or
// is not a number. Otherwise, it returns "".
func hintAboutRoot(message string) string {
	if strings.Contains(message, "runAsNonRoot and image will run as root") ||
		strings.Contains(message, "runAsNonRoot and image has non-numeric user") {
		return ". Start the job again with another user, such as --run-as-user=1000"
	}
	return ""
}

// endOf returns how the pod of the upload has ended.
func endOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("exit code %d (%s) %s", t.ExitCode, t.Reason, t.Message)
		}
	}
	return strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
}

// bindingDelay is how long it usually takes to bind a new claim. In this time, waitForPod prints no reasons, since it
// is normal that the pod cannot be scheduled.
const bindingDelay = 5 * time.Second

// problemOfClaim returns why the new claim has no volume yet, or "" if no problem is known.
func (p *preparation) problemOfClaim(ctx context.Context) string {
	claim := p.objects.Claim
	if claim == nil || p.Get(ctx, client.ObjectKeyFromObject(claim), claim) != nil ||
		claim.Status.Phase != corev1.ClaimPending {
		return ""
	}
	mode := claim.Spec.AccessModes[0]
	if claim.Spec.StorageClassName == nil {
		return fmt.Sprintf("the claim %s (%s) has no storage class, since the cluster has no default. "+
			"Use --storage-class or --code-claim, or ask an administrator for a volume", claim.Name, mode)
	}
	var events corev1.EventList
	ofClaim := client.MatchingFields{"involvedObject.uid": string(claim.UID)}
	if p.List(ctx, &events, client.InNamespace(claim.Namespace), ofClaim) != nil {
		return "" // ignore the error: the events are needed only for an explanation
	}
	last := ""
	for _, event := range events.Items {
		if event.Type == corev1.EventTypeWarning {
			last = event.Message
		}
	}
	if last != "" && mode == corev1.ReadWriteMany {
		last += fmt.Sprintf(". The claim %s must be %s, since several nodes read the code: the storage class %s might "+
			"not support this. Use --storage-class or --code-claim", claim.Name, mode, *claim.Spec.StorageClassName)
	}
	return last
}

// send sends the code to the pod. The program in the pod verifies the checksum.
func (p *preparation) send(ctx context.Context, pod *corev1.Pod) error {
	digest := p.objects.Digest
	what := fmt.Sprintf("%s (%s) to the claim %s", report.Count(len(p.folder.Files), "file"), code.Bytes(digest.Size),
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	p.screen.message("Uploading %s", what)
	defer p.screen.setStatus("")
	reader, writer := io.Pipe()
	var sent code.Counter
	go func() { writer.CloseWithError(p.folder.Tar(writer)) }()
	shown, cancel := context.WithCancel(ctx)
	var bar sync.WaitGroup
	bar.Go(func() {
		wait.UntilWithContext(shown, func(context.Context) {
			n := sent.Load()
			p.screen.setStatus(fmt.Sprintf("%s %s of %s", p.screen.bar(float64(n)/float64(max(digest.Size, 1))),
				code.Bytes(n), code.Bytes(digest.Size)))
		}, 100*time.Millisecond)
	})
	stderr := firstOutput{do: func() { _ = writer.Close() }} // after an error message, the program needs no more input
	streams := remotecommand.StreamOptions{Stdin: io.TeeReader(reader, &sent), Stdout: io.Discard, Stderr: &stderr}
	err := p.exec(ctx, client.ObjectKeyFromObject(pod), run.UploadContainer, run.UploadCommand(digest), streams, nil)
	_ = reader.Close() // ends the goroutine that writes
	cancel()
	bar.Wait() // otherwise, its goroutine could draw the status line again
	if err != nil {
		text := bytes.TrimSpace(stderr.Bytes())
		return fmt.Errorf("the upload has failed: %w: %s", err, text[max(0, len(text)-2000):])
	}
	p.screen.message("Uploaded %s", what)
	return nil
}

// firstOutput keeps the output of a program, and calls a function at the first output.
type firstOutput struct {
	bytes.Buffer

	do func()
}

func (o *firstOutput) Write(p []byte) (int, error) {
	if o.Len() == 0 {
		o.do()
	}
	return o.Buffer.Write(p)
}
