package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

func TestLineWriter(t *testing.T) {
	const stamp = "2026-01-02T03:04:05.2Z "
	long := strings.Repeat("x", maxLine)
	fill := long[len(stamp):]
	tests := map[string]struct {
		writer  lineWriter
		streams []string
		want    string
	}{
		"lines are written as they are": {streams: []string{"a\n\nb"}, want: "[a\n[\n[b\n"},
		"a long line is written in pieces": {
			streams: []string{long + "yz\nend\n"}, want: "[" + long + "\n[yz\n[end\n",
		},
		"the time is cut off": {
			writer:  lineWriter{stamped: true, cut: true},
			streams: []string{"2026-01-02T03:04:05.1Z a b\n2026-01-02T03:04:05.2Z \n"}, want: "[a b\n[\n",
		},
		"the time is kept": {
			writer:  lineWriter{stamped: true},
			streams: []string{"2026-01-02T03:04:05.1Z a\n"}, want: "[2026-01-02T03:04:05.1Z a\n",
		},
		"a line without a time is written": {
			writer:  lineWriter{stamped: true, cut: true},
			streams: []string{"failed to read\nx y\n"}, want: "[failed to read\n[x y\n",
		},
		"a second stream continues after the last line": {
			writer: lineWriter{stamped: true, cut: true},
			streams: []string{
				"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z b\n",
				"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z b\n2026-01-02T03:04:05.3Z c\n",
			},
			want: "[a\n[b\n[c\n",
		},
		"a long line that was written is skipped completely": {
			writer: lineWriter{stamped: true, cut: true},
			streams: []string{
				"2026-01-02T03:04:05.1Z a\n", "2026-01-02T03:04:05.1Z " + long + "a\n2026-01-02T03:04:05.3Z c\n",
			},
			want: "[a\n[c\n",
		},
		"a second stream repeats the line that the end of the first one has broken": {
			writer: lineWriter{stamped: true, cut: true, resumes: true},
			streams: []string{
				"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z loss 0.", "2026-01-02T03:04:05.2Z loss 0.25\n",
			},
			want: "[a\n[loss 0.25\n",
		},
		"a second stream repeats a line whose time is broken": {
			writer:  lineWriter{stamped: true, cut: true, resumes: true},
			streams: []string{"2026-01-02T03:0", "2026-01-02T03:04:05.2Z a\n"}, want: "[a\n",
		},
		"a second stream repeats a long line that is broken": {
			writer: lineWriter{stamped: true, resumes: true}, streams: []string{stamp + fill + "y", stamp + fill + "yz\n"},
			want: "[" + stamp + fill + "\n[y\n[" + stamp + fill + "\n[yz\n",
		},
		"a broken line is written at the end": {
			writer:  lineWriter{stamped: true, cut: true, resumes: true},
			streams: []string{"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z b", ""}, want: "[a\n[b\n",
		},
		"nothing is written at the end if only the time of a line came": {
			writer: lineWriter{stamped: true, cut: true, resumes: true}, streams: []string{"2026-01-02T03:0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			writer := test.writer
			writer.write = (&lockedWriter{writer: &out}).withPrefix("[")
			for _, stream := range test.streams {
				if _, err := writer.copy(iotest.OneByteReader(strings.NewReader(stream))); err != nil {
					t.Fatal(err)
				}
				writer.skipUntil = writer.last
			}
			if err := writer.end(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLineWriterReportsErrors(t *testing.T) {
	lost, closed := errors.New("lost"), errors.New("closed")
	writer := lineWriter{write: func([]byte) error { return nil }}
	if _, err := writer.copy(iotest.ErrReader(lost)); !errors.Is(err, lost) {
		t.Errorf("the error of the stream is lost: %v", err)
	}
	writer.write = func([]byte) error { return closed }
	if _, err := writer.copy(strings.NewReader("a\n")); !errors.As(err, &writeError{}) {
		t.Errorf("the error of stdout looks like one of the stream: %v", err)
	}
}

func TestLogsGoOnAfterALostConnection(t *testing.T) {
	t.Parallel()
	const first, second = "2026-01-02T03:04:05.1Z step 1\n", "2026-01-02T03:04:05.2Z step 2 of 10\n"
	isLost := func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, first+second[:len(second)-6])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler) // closes the connection
	}
	isUnknown := func(w http.ResponseWriter) { http.Error(w, "pod does not exist", http.StatusNotFound) }
	prints := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }
	}
	for name, test := range map[string]struct {
		// answers are the answers to the requests for the output. The container has ended after the first one if hasEnded
		// is true, and otherwise after the last one, which is repeated.
		answers  []func(http.ResponseWriter)
		hasEnded bool
		want     string
	}{
		"a line is printed whole": {answers: []func(http.ResponseWriter){isLost, prints(first + second)}, want: "2 of 10\n"},
		"the output is complete although the container ends in between": {
			answers: []func(http.ResponseWriter){isLost, prints(first + second)}, hasEnded: true, want: "2 of 10\n",
		},
		"a kubelet that does not find the pod yet is asked again": {
			answers: []func(http.ResponseWriter){isLost, isUnknown, prints(first + second)}, want: "2 of 10\n",
		},
		"the message about an output that is gone is not printed": {
			answers:  []func(http.ResponseWriter){isLost, prints("unable to retrieve container logs for containerd://1")},
			hasEnded: true, want: "2 \n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var queries []string
			reader := readerOf(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/log") {
					queries = append(queries, r.URL.Query().Get("tailLines")+r.URL.Query().Get("sinceTime"))
					test.answers[min(len(queries), len(test.answers))-1](w)
					return
				}
				pod := podWithUID("1")
				if len(queries) >= len(test.answers) || len(queries) > 0 && test.hasEnded {
					pod.Status.Phase = corev1.PodSucceeded
				}
				writeJSON(t, w, pod)
			})
			reader.tail = 7
			var out bytes.Buffer
			write := (&lockedWriter{writer: &out}).withPrefix("")
			if err := reader.print(t.Context(), podWithUID("1"), "main", write, true); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("step 1\nstep "+test.want, out.String()); diff != "" {
				t.Error(diff)
			}
			want := []string{"7"}
			for range len(test.answers) - 1 {
				want = append(want, "2026-01-02T03:04:05Z")
			}
			if diff := cmp.Diff(want, queries[:min(len(queries), len(want))]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoOutputOfAnotherPodOfTheNameIsPrinted(t *testing.T) {
	t.Parallel()
	reader := readerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			t.Error("the output of another pod is read")
		}
		writeJSON(t, w, podWithUID("2"))
	})
	write := func([]byte) error { return nil }
	if err := reader.print(t.Context(), podWithUID("1"), "main", write, true); err != nil {
		t.Fatal(err)
	}
}

// readerOf returns a reader that follows the output of pods, and whose requests a handler answers.
func readerOf(t *testing.T, handler http.HandlerFunc) *logReader {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	core, err := corev1client.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &logReader{pods: core.Pods("a"), logOptions: logOptions{follow: true, tail: -1}}
}

func podWithUID(uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "digits-worker-0", Namespace: "a", UID: uid},
	}
}

func writeJSON(t *testing.T, w http.ResponseWriter, object any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}

func TestLogsEndWithoutTheRightToReadThePod(t *testing.T) {
	t.Parallel()
	clientset := fake.NewClientset()
	clientset.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "" {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "digits-worker-0", nil)
	})
	reader := &logReader{pods: clientset.CoreV1().Pods("a"), logOptions: logOptions{follow: true, tail: -1}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "digits-worker-0", UID: "1"}}
	if !reader.hasEnded(t.Context(), pod, "main") {
		t.Error("the reader would connect again without end")
	}
}

func TestNarrator(t *testing.T) {
	lines := make(chan string, 10)
	n := narrate(lineChannel(lines), "Press Ctrl-C.")
	n.tell("a\x1b[2J\nb " + strings.Repeat("c", 300))
	for _, want := range []string{"Waiting: a b " + strings.Repeat("c", 293) + "...\n", "Press Ctrl-C.\n"} {
		if got := <-lines; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	n.tell("")
	n.tell("b")
	if got, want := <-lines, "Waiting: b\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	n.end()
}

func TestATimeoutWithoutAReasonHasNoColon(t *testing.T) {
	t.Parallel()
	for waitsFor, want := range map[string]string{
		"":                "the job is being paused, but timed out after 1ms",
		"pods\nto\x1b[2J": "the job is being paused, but timed out after 1ms: pods to",
	} {
		err := explainWait(errTimeout, time.Millisecond, "the job is being paused", waitsFor)
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Error(diff)
		}
	}
}

// lineChannel sends what is written to a channel.
type lineChannel chan string

func (c lineChannel) Write(line []byte) (int, error) {
	select {
	case c <- string(line):
	case <-time.After(time.Minute):
	}
	return len(line), nil
}
