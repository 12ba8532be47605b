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

// maxFailures is how often a logReader repeats a failed request for the output of a container that has ended.
const maxFailures = 5

// maxLine is how many bytes of a line are kept in memory. A longer line is printed in pieces.
const maxLine = 64 << 10

// logReader prints the output of containers.
type logReader struct {
	pods corev1client.PodInterface
	logOptions
	// whole reports whether the output is written in whole lines, and not as it arrives.
	whole bool
}

// newLogReader returns a reader of the output of pods in a namespace.
func newLogReader(c *cluster, namespace string, o logOptions) *logReader {
	return &logReader{pods: c.core.Pods(namespace), logOptions: o, whole: o.all}
}

// print prints the output of a container. With --follow, it continues until the container has ended or its pod is
// gone. If the connection is lost before that, print reconnects and continues after the last byte that it has
// written. The flags --tail and --since apply only if the parameter limited is true.
func (r *logReader) print(
	ctx context.Context, pod *corev1.Pod, container string, write func([]byte) error, limited bool,
) error {
	lines := &lineWriter{write: write, whole: r.whole, stamped: r.follow, cut: !r.timestamps}
	err := r.read(ctx, pod, container, lines, limited)
	return cmp.Or(lines.end(), err)
}

// read does the work of print: it copies the output of a container to the lineWriter.
func (r *logReader) read(
	ctx context.Context, pod *corev1.Pod, container string, lines *lineWriter, limited bool,
) error {
	if r.follow && r.isReplaced(ctx, pod) {
		return nil // the output would come from another pod with the same name
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
		case hasEnded && !isOver: // the stream might have ended before the container, so read once more
			isOver, lines.onlyStamped = true, true
		default: // wait and try again: a kubelet that has just started does not find its pods
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

// lookUp reads a pod again. It reports whether the pod is gone, and whether a container of the pod has ended. If the
// user may not read the pod, lookUp reports that the pod is gone, so that print does not wait for the end of the
// container.
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

// isReplaced reports whether another pod has the name of this pod now. If the pod cannot be read, isReplaced reports
// false.
func (r *logReader) isReplaced(ctx context.Context, pod *corev1.Pod) bool {
	now, err := r.pods.Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && now.UID != pod.UID
}

// errLogLost means that the node has already deleted the output of a container, while its pod still exists.
var errLogLost = errors.New("the output is gone")

// maxMessage is an upper limit, in bytes, of the length of the kubelet's message about a lost output.
const maxMessage = 1024

// isLost reports whether a stream has only the message that the kubelet sends instead of a lost output. This message
// has no line feed.
func isLost(stream *bufio.Reader) bool {
	message, err := stream.Peek(maxMessage)
	return errors.Is(err, io.EOF) && bytes.HasPrefix(message, []byte("unable to retrieve container logs for ")) &&
		!bytes.Contains(message, []byte("\n"))
}

// writeError is an error of writing to stdout, and not of reading the stream.
type writeError struct{ error }

// lineWriter writes the output of a container. It remembers its position in the output, so that it can continue there
// with a new stream.
type lineWriter struct {
	write func([]byte) error
	// whole reports whether the function write gets whole lines, and not the output as it arrives. A whole line always
	// ends with a line feed, which is added to the last line if necessary. A line that is longer than maxLine is split
	// into several lines. If stamped is true, a line that a program rewrites with carriage returns is split at the
	// carriage returns.
	whole bool
	// stamped reports whether the output is followed. If so, each line of a stream begins with its time, and a new
	// stream can repeat lines of earlier streams. The field cut reports whether the times of the lines are not written.
	stamped, cut bool
	// onlyStamped reports whether lines without a time are skipped. After the end of the container, such a line is the
	// kubelet's message about an output that is gone.
	onlyStamped bool
	// The field last is the latest time of a line. The field size is the number of bytes of the stream from the start of
	// that line to the last written byte. A new stream repeats these bytes, and the lineWriter skips them. The field
	// isOpen reports whether the last written byte is within a line.
	last   time.Time
	size   int
	isOpen bool
	// held is the beginning of a line whose rest is missing, because a stream has ended within the line. Usually, a new
	// stream repeats the line. So this beginning is written only after the last stream, and only if nothing else has
	// been written since.
	held []byte
}

// end writes w.held after the last stream, unless this field is nil.
func (w *lineWriter) end() error {
	if w.held == nil {
		return nil
	}
	return w.write(w.held)
}

// copy writes the output in a stream, without the bytes that earlier streams had. printed reports whether it has
// written anything.
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
		_, _ = reader.Discard(len(piece)) // cannot fail: the piece is in the buffer
		atStart = isWhole
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return printed, err
}

// begin returns the text to write for the beginning of a line. If the time of the line is later than w.last, begin
// updates w.last. The parameter isBroken reports whether the stream has ended within the line. The result isMessage
// reports whether the line lacks a complete time at its beginning. Such a line is usually a message of the kubelet.
func (w *lineWriter) begin(line []byte, isBroken bool) (text []byte, isMessage bool) {
	at, length := timeOf(line)
	switch {
	case length > 0:
	case w.onlyStamped, isBroken && !bytes.Contains(line, []byte(" ")): // second case: the stream ends within the time
		return nil, true
	default:
		return line, true
	}
	text = line
	if w.cut {
		text = line[length:]
	}
	if at.After(w.last) {
		if w.isOpen && !w.whole { // end the previous line, whose rest is lost
			text = slices.Concat([]byte("\n"), text)
		}
		w.last, w.size, w.isOpen = at, 0, false
	}
	return text, false
}

// resume skips the bytes that earlier streams had. atStart reports whether the rest of the stream begins at the start
// of a line.
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

// peek waits for the next piece of a stream and returns it without consuming it. The piece ends at the end of a line.
// It ends earlier if a part of the line can be written already, if the buffer is full, or if the stream ends. At the
// start of a line, the piece includes the time.
func (w *lineWriter) peek(reader *bufio.Reader, atStart bool) (piece []byte, err error) {
	for err == nil {
		seen := len(piece)
		_, err = reader.Peek(seen + 1) // waits for at least one more byte
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
		case w.stamped: // if a line rewrites itself, write all its states except the last one
			end := bytes.LastIndexByte(piece[:len(piece)-1], '\r') + 1 // a last \r can be the first half of \r\n
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

// timeOf returns the time at the start of a line, and the length of the time with the space after it. The length is 0
// if the line does not begin with a time.
func timeOf(line []byte) (at time.Time, length int) {
	stamp, _, found := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !found || err != nil {
		return time.Time{}, 0
	}
	return at, len(stamp) + 1
}
