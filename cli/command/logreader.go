package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// maxFailures is how often the output of a container that has ended is requested again after an error.
const maxFailures = 5

// maxLine is the longest piece of a line that is in memory, in bytes. Longer lines are printed in pieces.
const maxLine = 64 << 10

// logReader prints the output of containers.
type logReader struct {
	pods corev1client.PodInterface
	logOptions
	// whole reports whether the output is written in whole lines, and not as it arrives.
	whole bool
}

// newLogReader returns a reader of the output of pods in a namespace.
func newLogReader(c *cluster, namespace string, o logOptions) (*logReader, error) {
	core, err := corev1client.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	return &logReader{pods: core.Pods(namespace), logOptions: o, whole: o.all}, nil
}

// print prints the output of a container, and follows it until the container has ended or its pod is gone. If the
// connection is lost before, it reconnects and goes on after the last byte. --tail and --since apply if limited
// is true.
func (r *logReader) print(
	ctx context.Context, pod *corev1.Pod, container string, write func([]byte) error, limited bool,
) error {
	lines := &lineWriter{write: write, whole: r.whole, stamped: r.follow, cut: !r.timestamps}
	err := r.read(ctx, pod, container, lines, limited)
	return cmp.Or(lines.end(), err)
}

// read reads the output of a container for print.
func (r *logReader) read(
	ctx context.Context, pod *corev1.Pod, container string, lines *lineWriter, limited bool,
) error {
	if r.follow && r.isReplaced(ctx, pod) {
		return nil // the output would be the one of another pod of the name
	}
	options := &corev1.PodLogOptions{Container: container, Follow: r.follow, Timestamps: r.follow || r.timestamps}
	if limited && r.tail >= 0 {
		options.TailLines = &r.tail
	}
	if limited && r.since > 0 {
		seconds := int64((r.since + time.Second - 1) / time.Second)
		options.SinceSeconds = &seconds
	}
	delays := reconnectDelays()
	isOver, failures := false, 0 // isOver reports whether the container had ended when the stream began
	for {
		stream, err := r.pods.GetLogs(pod.Name, options).Stream(ctx)
		if err == nil {
			var printed bool
			reader := bufio.NewReaderSize(stream, maxLine)
			if !r.follow && isLost(reader) {
				err = errLogLost
			} else {
				printed, err = lines.copy(reader)
			}
			_ = stream.Close()
			if printed {
				delays = reconnectDelays()
			}
		}
		var broken writeError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &broken):
			return broken.error
		case !r.follow:
			return err
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case isOver && (err == nil || failures == maxFailures):
			return err
		}
		isGone, hasEnded := r.lookUp(ctx, pod, container)
		switch {
		case isGone:
			return nil
		case hasEnded && !isOver: // the stream might have ended before the container
			isOver, lines.onlyStamped = true, true
		default: // a kubelet that has just started does not find its pods
			if isOver {
				failures++
			}
			select {
			case <-time.After(delays.Step()):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if !lines.last.IsZero() {
			options.TailLines, options.SinceSeconds = nil, nil
			options.SinceTime = &metav1.Time{Time: lines.last}
		}
	}
}

// lookUp reports whether a pod is gone, and whether one of its containers has ended. It reads the pod again. If the
// user may not do so, the end of the output is taken for the end of the pod.
func (r *logReader) lookUp(ctx context.Context, pod *corev1.Pod, container string) (isGone, isOver bool) {
	now, err := r.pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err) || apierrors.IsForbidden(err), false
	}
	return now.UID != pod.UID, hasEnded(now, container)
}

// hasEnded reports whether a container has ended or its pod is gone.
func (r *logReader) hasEnded(ctx context.Context, pod *corev1.Pod, container string) bool {
	isGone, isOver := r.lookUp(ctx, pod, container)
	return isGone || isOver
}

// isReplaced reports whether another pod has the name of a pod. If the user may not read pods, this is unknown, and the
// pod is taken for the same.
func (r *logReader) isReplaced(ctx context.Context, pod *corev1.Pod) bool {
	now, err := r.pods.Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && now.UID != pod.UID
}

// errLogLost means that the node has already deleted the output of a container, while its pod still exists.
var errLogLost = errors.New("the output is gone")

// maxMessage is longer than the message of the kubelet about a lost output, in bytes.
const maxMessage = 1024

// isLost reports whether a stream is what the kubelet prints instead of a lost output: a message without a line feed.
func isLost(stream *bufio.Reader) bool {
	message, err := stream.Peek(maxMessage)
	return errors.Is(err, io.EOF) && bytes.HasPrefix(message, []byte("unable to retrieve container logs for ")) &&
		!bytes.Contains(message, []byte("\n"))
}

// writeError is an error of writing to stdout.
type writeError struct{ error }

// lineWriter writes the output of a container. It remembers how far it is, so that a new stream can go on there.
type lineWriter struct {
	write func([]byte) error
	// whole reports whether write gets whole lines. Otherwise it gets the output as it arrives. Whole lines always end
	// with a line feed: also the last one, and the pieces of a line that is longer than maxLine or, if stamped, rewrites
	// itself.
	whole bool
	// stamped reports whether each line begins with its time, and whether a new stream can follow, which repeats lines. If
	// cut is true, the time is not written.
	stamped, cut bool
	// onlyStamped reports whether a line without a time is skipped: it is a message of the kubelet about an output that is
	// gone.
	onlyStamped bool
	// last is the latest time of a line. size is how many bytes have been written since this line began. A new stream
	// repeats them. isOpen reports whether they end within a line.
	last   time.Time
	size   int
	isOpen bool
	// held is the end of a line that the end of a stream has broken. It is written only if nothing follows.
	held []byte
}

// end writes the line that the end of the last stream has broken.
func (w *lineWriter) end() error {
	if w.held == nil {
		return nil
	}
	return w.write(w.held)
}

// copy writes what a stream has. It reports whether it has written anything.
func (w *lineWriter) copy(stream io.Reader) (printed bool, err error) {
	reader := bufio.NewReaderSize(stream, maxLine)
	atStart, err := w.resume(reader)
	for err == nil {
		var piece []byte
		piece, err = w.peek(reader, atStart)
		isWhole, isBroken := bytes.HasSuffix(piece, []byte("\n")), w.stamped && err != nil
		text, isMessage := piece, false
		if w.stamped && atStart {
			text, isMessage = w.begin(piece, isBroken)
		}
		if w.whole && !isWhole && len(text) > 0 {
			text = slices.Concat(text, []byte("\n"))
		}
		isHeld := isBroken && (w.whole || isMessage)
		switch {
		case len(text) == 0:
		case isHeld:
			w.held = bytes.Clone(text)
		default:
			w.held = nil
			if writeErr := w.write(text); writeErr != nil {
				return printed, writeError{writeErr}
			}
			printed = true
		}
		if !isHeld && !isMessage {
			w.size += len(piece)
			w.isOpen = !isWhole
		}
		_, _ = reader.Discard(len(piece)) // it is in the buffer
		atStart = isWhole
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return printed, err
}

// begin handles the time at the start of a line. It returns the text to write. It reports whether the line is a message
// of the kubelet, which has no time.
func (w *lineWriter) begin(line []byte, isBroken bool) (text []byte, isMessage bool) {
	at, length := timeOf(line)
	switch {
	case length > 0:
	case w.onlyStamped, isBroken && !bytes.Contains(line, []byte(" ")): // the second is a part of a time
		return nil, true
	default:
		return line, true
	}
	text = line
	if w.cut {
		text = line[length:]
	}
	if at.After(w.last) {
		if w.isOpen && !w.whole { // the rest of the line before is gone
			text = slices.Concat([]byte("\n"), text)
		}
		w.last, w.size, w.isOpen = at, 0, false
	}
	return text, false
}

// resume skips what earlier streams had. It reports whether the stream is then at the start of a line.
func (w *lineWriter) resume(reader *bufio.Reader) (atStart bool, err error) {
	for w.stamped && err == nil {
		line, _ := w.peek(reader, true)
		at, _ := timeOf(line)
		if at.After(w.last) {
			break
		}
		if at.Equal(w.last) {
			_, err = reader.Discard(w.size)
			return !w.isOpen, err
		}
		for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
			_, err = reader.ReadSlice('\n')
		}
	}
	return true, err
}

// peek waits for the next piece of a stream, and returns it: up to the end of a line, or what can be written before. At
// the start of a line, the piece has the time.
func (w *lineWriter) peek(reader *bufio.Reader, atStart bool) (piece []byte, err error) {
	for err == nil {
		seen := len(piece)
		_, err = reader.Peek(seen + 1) // waits for more
		piece, _ = reader.Peek(reader.Buffered())
		if i := bytes.IndexByte(piece[seen:], '\n'); i >= 0 {
			return piece[:seen+i+1], nil
		}
		length := 0
		if w.stamped && atStart {
			_, length = timeOf(piece)
		}
		switch isTimed := length > 0 || !atStart; {
		case err != nil, w.stamped && !isTimed:
		case !w.whole:
			return piece, nil
		case w.stamped: // a line that rewrites itself is written up to its last state
			end := bytes.LastIndexByte(piece[:len(piece)-1], '\r') + 1 // the last byte can belong to the end of the line
			if len(bytes.Trim(piece[length:max(length, end)], "\r")) > 0 {
				return piece[:end], nil
			}
		}
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return piece, err
}

// timeOf returns the time at the start of a line, and its length with the space after it. The length is 0 if there is
// none.
func timeOf(line []byte) (at time.Time, length int) {
	stamp, _, found := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !found || err != nil {
		return time.Time{}, 0
	}
	return at, len(stamp) + 1
}
