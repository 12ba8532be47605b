package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
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
}

// newLogReader returns a reader of the output of pods in a namespace.
func newLogReader(c *cluster, namespace string, o logOptions) (*logReader, error) {
	core, err := corev1client.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	return &logReader{pods: core.Pods(namespace), logOptions: o}, nil
}

// print prints the output of a container, and follows it until the container has ended or its pod is gone. If the
// connection is lost before, it reconnects and goes on after the last whole line. --tail and --since apply if limited
// is true.
func (r *logReader) print(
	ctx context.Context, pod *corev1.Pod, container string, write func([]byte) error, limited bool,
) error {
	isStamped := r.follow || r.timestamps
	lines := &lineWriter{write: write, cut: isStamped && !r.timestamps, stamped: isStamped, resumes: r.follow}
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
	options := &corev1.PodLogOptions{Container: container, Follow: r.follow, Timestamps: lines.stamped}
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
			printed, err = lines.copy(stream)
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
			lines.skipUntil = lines.last
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

// writeError is an error of writing to stdout.
type writeError struct{ error }

// lineWriter writes the lines of a log. It remembers the time of the last line, so that a new stream can go on after
// it.
type lineWriter struct {
	write func([]byte) error
	// stamped reports whether each line begins with its time. If cut is true, the time is not written.
	stamped, cut bool
	// onlyStamped reports whether a line without a time is skipped: it is a message of the kubelet about an output that is
	// gone.
	onlyStamped bool
	// last is the time of the last whole line. Lines of a new stream are skipped until they are newer than skipUntil,
	// because the kubelet only knows whole seconds.
	last, skipUntil time.Time
	// resumes reports whether a new stream can follow, which repeats the line that the end of a stream has broken. held is
	// the text of this line, which is written only if no other line follows. The pieces of a line that is longer than
	// maxLine are not held: they are written twice.
	resumes bool
	held    []byte
}

// end writes the line that the end of the last stream has broken.
func (w *lineWriter) end() error {
	if w.held == nil {
		return nil
	}
	return w.write(w.held)
}

// copy writes the lines of a stream. It reports whether it has written any.
func (w *lineWriter) copy(stream io.Reader) (printed bool, err error) {
	reader := bufio.NewReaderSize(stream, maxLine)
	atStart, skips, before := true, false, w.last
	for {
		piece, err := reader.ReadSlice('\n')
		if len(piece) > 0 {
			isWhole := piece[len(piece)-1] == '\n'
			isBroken := w.resumes && !isWhole && !errors.Is(err, bufio.ErrBufferFull)
			isFirst := atStart
			if isFirst {
				before = w.last
				isPartOfTime := isBroken && !bytes.Contains(piece, []byte(" "))
				piece, skips = w.begin(piece)
				skips = skips || isPartOfTime
			}
			if !isWhole {
				piece = append(bytes.Clone(piece), '\n')
			}
			if isBroken {
				w.last = before
			}
			switch {
			case skips:
			case isBroken && isFirst:
				w.held = piece
			default:
				w.held = nil
				if writeErr := w.write(piece); writeErr != nil {
					return printed, writeError{writeErr}
				}
				printed = true
			}
			atStart = isWhole
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return printed, nil
		default:
			return printed, err
		}
	}
}

// begin handles the time at the begin of a line. It returns the text to write, and whether the line is skipped.
func (w *lineWriter) begin(line []byte) (text []byte, skips bool) {
	stamp, rest, found := bytes.Cut(line, []byte(" "))
	if !w.stamped || !found {
		return line, w.onlyStamped
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return line, w.onlyStamped
	}
	if !at.After(w.skipUntil) {
		return line, true
	}
	w.last = at
	if w.cut {
		return rest, false
	}
	return line, false
}
