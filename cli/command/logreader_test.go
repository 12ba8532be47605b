package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
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
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"tensorstack.dev/jobs/cli/jobs"
)

func TestLineWriter(t *testing.T) {
	t.Parallel()
	const stamp = "2026-01-02T03:04:05.2Z "
	long := strings.Repeat("x", maxLine)
	fill := long[len(stamp):]
	tests := map[string]struct {
		writer  lineWriter
		streams []string
		want    string
	}{
		"lines are written as they are": {writer: lineWriter{whole: true}, streams: []string{"a\n\nb"}, want: "[a\n[\n[b\n"},
		"a long line is written in pieces": {
			writer: lineWriter{whole: true}, streams: []string{long + "yz\nend\n"}, want: "[" + long + "\n[yz\n[end\n",
		},
		"the time is cut off": {
			writer:  lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{"2026-01-02T03:04:05.1Z a b\n2026-01-02T03:04:05.2Z \n"}, want: "[a b\n[\n",
		},
		"the time is kept": {
			writer:  lineWriter{whole: true, stamped: true},
			streams: []string{"2026-01-02T03:04:05.1Z a\n"}, want: "[2026-01-02T03:04:05.1Z a\n",
		},
		"a line without a time is written": {
			writer:  lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{"failed to read\nx y\n"}, want: "[failed to read\n[x y\n",
		},
		"a second stream continues after the last line": {
			writer: lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{
				"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z b\n",
				"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z b\n2026-01-02T03:04:05.3Z c\n",
			},
			want: "[a\n[b\n[c\n",
		},
		"an earlier long line is skipped completely": {
			writer: lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{
				"2026-01-02T03:04:05.2Z a\n",
				"2026-01-02T03:04:05.1Z " + long + "b\n2026-01-02T03:04:05.2Z a\n2026-01-02T03:04:05.3Z c\n",
			},
			want: "[a\n[c\n",
		},
		"a second stream repeats the line that the end of the first one has broken": {
			writer: lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{
				"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z loss 0.", "2026-01-02T03:04:05.2Z loss 0.25\n",
			},
			want: "[a\n[loss 0.25\n",
		},
		"a second stream repeats a line whose time is broken": {
			writer:  lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{"2026-01-02T03:0", "2026-01-02T03:04:05.2Z a\n"}, want: "[a\n",
		},
		"a second stream goes on in a long line that is broken": {
			writer: lineWriter{whole: true, stamped: true}, streams: []string{stamp + fill + "y", stamp + fill + "yz\n"},
			want: "[" + stamp + fill + "\n[yz\n",
		},
		"a broken line is written at the end": {
			writer:  lineWriter{whole: true, stamped: true, cut: true},
			streams: []string{"2026-01-02T03:04:05.1Z a\n2026-01-02T03:04:05.2Z b", ""}, want: "[a\n[b\n",
		},
		"nothing is written at the end if only the time of a line came": {
			writer: lineWriter{whole: true, stamped: true, cut: true}, streams: []string{"2026-01-02T03:0"},
		},
		"a broken message of the kubelet is written at the end, once": {
			writer:  lineWriter{stamped: true, cut: true},
			streams: []string{"unable to retrieve", "unable to retrieve"}, want: "[unable to retrieve",
		},
		"a line whose rest is gone ends before the next line": {
			writer:  lineWriter{stamped: true, cut: true},
			streams: []string{stamp + "loss 0.", "2026-01-02T03:05:00Z b\n"}, want: "[loss 0.[\nb\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			writer := test.writer
			writer.write = (&lockedWriter{writer: &out}).withPrefix("[")
			for _, stream := range test.streams {
				if _, err := writer.copy(iotest.HalfReader(strings.NewReader(stream))); err != nil {
					t.Fatal(err)
				}
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

func TestOutputIsWrittenAsItArrives(t *testing.T) {
	t.Parallel()
	const stamp = "2026-01-02T03:04:05.2Z "
	for name, test := range map[string]struct {
		writer        lineWriter
		arrives, want []string
	}{
		"a part of a line": {
			writer: lineWriter{stamped: true, cut: true}, arrives: []string{stamp + "50%", "\r100%", "\n"},
			want: []string{"50%", "\r100%", "\n"},
		},
		"a part of a line with its time": {
			writer: lineWriter{stamped: true}, arrives: []string{stamp[:9], stamp[9:] + "50%", "\r100%\n"},
			want: []string{stamp + "50%", "\r100%\n"},
		},
		"with whole lines, a bar without its last state": {
			writer:  lineWriter{whole: true, stamped: true, cut: true},
			arrives: []string{stamp, "\r", "50%", "\r60%\r70%", "\r", "80%\r", "\n"},
			want:    []string{"\r50%\r60%\r\n", "70%\r\n", "80%\r\n"},
		},
		"with whole lines, a line that ends with \\r\\n at its end": {
			writer: lineWriter{whole: true, stamped: true, cut: true}, arrives: []string{stamp + "a", "\r", "\n"},
			want: []string{"a\r\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			writer := test.writer
			writer.write = func(piece []byte) error {
				got = append(got, string(piece))
				return nil
			}
			var arrives []io.Reader
			for _, piece := range test.arrives {
				arrives = append(arrives, strings.NewReader(piece))
			}
			if _, err := writer.copy(io.MultiReader(arrives...)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected pieces (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoByteIsLostOrWrittenTwice ends the first two streams of an output early, at all pairs of positions. The third
// stream has the complete output.
func TestNoByteIsLostOrWrittenTwice(t *testing.T) {
	t.Parallel()
	const lines = "2026-01-02T03:04:05Z a\n2026-01-02T03:04:05.2Z b c\n2026-01-02T03:04:05.2Z \n" +
		"2026-01-02T03:04:05.1Z from stderr\n2026-01-02T03:04:06Z "
	const bar = "50%\r100%\r\x1b[K\xff 2026-01-02T03:04:05Z"
	times := regexp.MustCompile(`(?m)^2026\S+ `)
	for name, test := range map[string]struct {
		writer       lineWriter
		output, want string
	}{
		"without times": {
			writer: lineWriter{stamped: true, cut: true}, output: lines + bar, want: times.ReplaceAllString(lines, "") + bar,
		},
		"with times": {writer: lineWriter{stamped: true}, output: lines + bar, want: lines + bar},
		"in whole lines": {
			writer: lineWriter{stamped: true, cut: true, whole: true}, output: lines + "end",
			want: times.ReplaceAllString(lines, "") + "end\n",
		},
		"in whole lines with times": {
			writer: lineWriter{stamped: true, whole: true}, output: lines + "end", want: lines + "end\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := bufio.NewReaderSize(nil, maxLine)
			for first := range len(test.output) {
				for second := range len(test.output) {
					var out bytes.Buffer
					writer := test.writer
					writer.write = (&lockedWriter{writer: &out}).piece
					for _, size := range []int{first, second, len(test.output)} {
						stream.Reset(strings.NewReader(test.output[:size]))
						if _, err := writer.copy(stream); err != nil {
							t.Fatal(err)
						}
					}
					if err := writer.end(); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(test.want, out.String()); diff != "" {
						t.Fatalf("after %d and %d bytes (-want +got):\n%s", first, second, diff)
					}
				}
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
		// answers are the responses to the requests for the output, in order. The last one is repeated. The container ends
		// after the first response if hasEnded is true, and otherwise after the last one.
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
			hasEnded: true, want: "2 ",
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

// TestFollowedOutputIsPrintedBeforeItsLineEnds sends each piece of a line only after the previous piece has been
// printed.
func TestFollowedOutputIsPrintedBeforeItsLineEnds(t *testing.T) {
	t.Parallel()
	pieces := []string{"\r 50%", "\r\x1b[32m100%", "\x1b[0m\n"}
	printed := make(chan string)
	reader := readerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			pod := podWithUID("1")
			pod.Status.Phase = corev1.PodSucceeded
			writeJSON(t, w, pod)
			return
		}
		_, _ = io.WriteString(w, "2026-01-02T03:04:05.1Z ")
		if r.URL.Query().Get("sinceTime") != "" { // after the end of the container, respond with the complete output
			_, _ = io.WriteString(w, strings.Join(pieces, ""))
			return
		}
		for _, piece := range pieces {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			if diff := cmp.Diff(piece, <-printed); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
		}
	})
	out := logOptions{}.writer(lineChannel(printed))
	if err := reader.print(t.Context(), podWithUID("1"), "main", out.piece, true); err != nil {
		t.Fatal(err)
	}
}

func TestLogsPrintTheBytesThatTheKubeletReturns(t *testing.T) {
	t.Parallel()
	const message = "unable to retrieve container logs for containerd://1"
	long := strings.Repeat("x", 3*maxLine)
	for name, tc := range map[string]struct {
		options           logOptions
		output, want, err string
	}{
		"a line of 192 KiB without a line feed": {output: long, want: long},
		"a bar": {
			output: "\r 50%\r\x1b[32m100%\x1b[0m\nend\r\n", want: "\r 50%\r\x1b[32m100%\x1b[0m\nend\r\n",
		},
		"bytes that are not UTF-8": {output: "\xff\x00\n\n\xe2\x9c", want: "\xff\x00\n\n\xe2\x9c"},
		"no output":                {},
		"a program that prints the kubelet's words": {output: message + "\n", want: message + "\n"},
		"the message about a lost output is replaced": {
			output: message, err: "digits-worker-0 has no pod, and status.failures of ptjob/digits has no output of it: " +
				"kubectl train why ptjob/digits explains the state of the job",
		},
		"lines of several replicas do not mix": {
			options: logOptions{all: true}, output: long + "y\nend", want: strings.Repeat("[worker-0] "+long[:maxLine]+"\n", 3) +
				"[worker-0] y\n[worker-0] end\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := readerOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.output) })
			reader.follow, reader.whole = false, tc.options.all
			job := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
			job.SetName("digits")
			var out, errOut bytes.Buffer
			e := &environment{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}}
			replica := jobs.Replica{Name: "digits-worker-0", MainContainer: "main"}
			err := e.printLog(t.Context(), job, replica, podWithUID("1"), reader, tc.options.writer(&out), tc.options)
			if err == nil {
				err = errors.New("")
			}
			if diff := cmp.Diff([]string{tc.want, tc.err}, []string{out.String(), err.Error()}); diff != "" {
				t.Errorf("unexpected output and error (-want +got):\n%s", diff)
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

// readerOf returns a reader that follows the output of pods. The handler responds to its requests.
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

// lineChannel is a writer that sends each write through the channel.
type lineChannel chan string

func (c lineChannel) Write(line []byte) (int, error) {
	select {
	case c <- string(line):
	case <-time.After(time.Minute):
	}
	return len(line), nil
}
