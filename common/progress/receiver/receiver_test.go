package receiver

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/listen/listentest"
	"tensorstack.dev/jobs/common/progress"
)

const token = "the-token"

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// setup is a receiver with a fake clock and its own folder.
type setup struct {
	*receiver
	t    *testing.T
	fake *clocktesting.FakeClock
	logs bytes.Buffer
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	s := &setup{t: t, fake: clocktesting.NewFakeClock(noon)}
	folder := t.TempDir()
	o := options{reports: filepath.Join(folder, "reports"), terminationLog: filepath.Join(folder, "termination-log")}
	s.receiver = newReceiver(o, token, s.fake, log.New(&s.logs, "", 0))
	return s
}

// add appends text to the file.
func (s *setup) add(text string) {
	s.t.Helper()
	(&followed{follower: follower{path: s.follower.path}, t: s.t}).add(text)
}

// wantMessage checks the termination message.
func (s *setup) wantMessage(want progress.State) {
	s.t.Helper()
	content, err := os.ReadFile(s.terminationLog)
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := progress.ParseState(content)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("unexpected termination message (-want +got):\n%s", diff)
	}
}

// post returns a request with a report from the pod.
func post(body string) *http.Request {
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	request.RemoteAddr = "127.0.0.1:1234"
	request.Header.Set("Authorization", "Bearer "+token)
	return request
}

func TestResponses(t *testing.T) {
	t.Parallel()
	const (
		badToken = "the token is missing or wrong: send the header Authorization with Bearer and the token of the job\n"
		outside  = "send reports from the pod of the receiver, to 127.0.0.1 or localhost\n"
		badField = `the field "stepp" of the report is unknown: the fields are step, totalSteps, percent, metrics, ` +
			"silenceSeconds, starting\n"
	)
	const report = `{"step": 420}`
	for name, tc := range map[string]struct {
		body     string
		change   func(*http.Request)
		wantCode int
		want     string
	}{
		"a report is accepted": {body: report, wantCode: http.StatusOK, want: "{}\n"},
		"a report is accepted at any path": {
			body: report, change: func(r *http.Request) { r.URL.Path = progress.Path },
			wantCode: http.StatusOK, want: "{}\n",
		},
		"a report is accepted over IPv6": {
			body: report, change: func(r *http.Request) { r.RemoteAddr = "[::1]:1234" }, wantCode: http.StatusOK, want: "{}\n",
		},
		"a report is accepted from a mapped IPv4 address": {
			body: report, change: func(r *http.Request) { r.RemoteAddr = "[::ffff:127.0.0.1]:1234" },
			wantCode: http.StatusOK, want: "{}\n",
		},
		"a report from another pod is refused": {
			body: report, change: func(r *http.Request) { r.RemoteAddr = "10.0.0.7:1234" },
			wantCode: http.StatusForbidden, want: outside,
		},
		"a report from an unknown address is refused": {
			body: report, change: func(r *http.Request) { r.RemoteAddr = "@" }, wantCode: http.StatusForbidden, want: outside,
		},
		"a report without a token is refused": {
			body: report, change: func(r *http.Request) { r.Header.Del("Authorization") },
			wantCode: http.StatusUnauthorized, want: badToken,
		},
		"a report with another token is refused": {
			body: report, change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") },
			wantCode: http.StatusUnauthorized, want: badToken,
		},
		"an invalid report is refused, and the response names the field": {
			body: `{"stepp": 420}`, wantCode: http.StatusBadRequest, want: badField,
		},
		"a large report is refused": {
			body: strings.Repeat(" ", progress.MaxBody+1), wantCode: http.StatusRequestEntityTooLarge,
			want: "the report has more than 16384 bytes: send fewer metrics\n",
		},
		"a report that ends early is refused": {
			change:   func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(failing{})) },
			wantCode: http.StatusBadRequest, want: "the report is incomplete\n",
		},
		"a report with another method is refused": {
			body: report, change: func(r *http.Request) { r.Method = http.MethodPut },
			wantCode: http.StatusMethodNotAllowed, want: "send a report with POST\n",
		},
		"the state is not served without a signature": {
			change:   func(r *http.Request) { r.Method, r.URL.Path = http.MethodGet, progress.Path },
			wantCode: http.StatusUnauthorized, want: "the request is not signed with the token of the receiver\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			request := post(tc.body)
			if tc.change != nil {
				tc.change(request)
			}
			response := httptest.NewRecorder()
			s.serve(response, request)
			if response.Code != tc.wantCode {
				t.Errorf("got status %d, want %d", response.Code, tc.wantCode)
			}
			if diff := cmp.Diff(tc.want, response.Body.String()); diff != "" {
				t.Errorf("unexpected body (-want +got):\n%s", diff)
			}
			want := int64(0)
			if tc.wantCode == http.StatusOK {
				want = 1
			}
			if got := s.tracker.Reports(); got != want {
				t.Errorf("there are %d reports, want %d", got, want)
			}
		})
	}
}

// failing is a body that ends early.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// start runs the receiver. The returned function stops the receiver and waits until it has returned.
func (s *setup) start() (address string, stop func()) {
	s.t.Helper()
	listener, err := listen.TCP(s.t.Context(), "127.0.0.1:0", maxConnections)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, listener) }()
	stop = func() {
		s.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(cancel)
	return listener.Addr().String(), stop
}

func TestTheControllerReadsTheReports(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	address, stop := s.start()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address,
		strings.NewReader(`{"step": 420, "totalSteps": 1000}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	want := progress.State{
		Reports: 1, Percent: ptr.To[int32](42), Step: ptr.To[int64](420), TotalSteps: ptr.To[int64](1000),
	}
	got, err := progress.NewClient().Read(t.Context(), progress.Target{Address: address, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected state (-want +got):\n%s", diff)
	}
	// The receiver reads the last report after its context has ended, and writes the step into the termination message.
	s.add("{\"step\": 500}\n")
	stop()
	want.Reports, want.Step, want.Percent = 2, ptr.To[int64](500), ptr.To[int32](50)
	s.wantMessage(want)
}

func TestManyConnectionsOfTheProgramDoNotLockOutTheController(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	address, stop := s.start()
	listentest.Crowd(t, address, maxConnections)
	if _, err := progress.NewClient().Read(t.Context(), progress.Target{Address: address, Token: token}); err != nil {
		t.Error(err)
	}
	stop()
}

func TestARequestWithALargeHeaderIsRefused(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	address, stop := s.start()
	status := listentest.Ask(t, listentest.Dial(t, "127.0.0.1", address), listentest.Large(listen.MaxHeader))
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got status %d, want %d", status, http.StatusRequestHeaderFieldsTooLarge)
	}
	stop()
}

func TestAReceiverWhoseListenerFailsEnds(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := s.run(t.Context(), listener); err == nil {
		t.Error("there is no error")
	}
}

func TestTheTerminationMessageIsWrittenWhenThereAreNewReportsOrItIsOld(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.poll()
	s.wantMessage(progress.State{})
	s.add("{\"step\": 1}\n")
	s.poll()
	want := progress.State{Reports: 1, Step: ptr.To[int64](1)}
	s.wantMessage(want)
	s.fake.Step(maxMessageAge - time.Millisecond)
	s.poll()
	s.wantMessage(want)
	s.fake.Step(time.Minute - maxMessageAge + time.Millisecond)
	s.poll()
	want.SinceReport, want.SinceProgress = time.Minute, time.Minute
	s.wantMessage(want)
	s.serve(httptest.NewRecorder(), post(`{"metrics": {"loss": 1}}`))
	s.poll()
	want.Reports, want.SinceReport = 2, 0
	want.Metrics = s.tracker.State().Metrics
	s.wantMessage(want)
}

func TestATerminationMessageIsWrittenAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if err := os.Mkdir(s.terminationLog, 0o700); err != nil {
		t.Fatal(err)
	}
	s.poll()
	if got := s.logs.String(); !strings.Contains(got, "writing the termination message: ") {
		t.Errorf("the log is %q, want the failure", got)
	}
	if err := os.Remove(s.terminationLog); err != nil {
		t.Fatal(err)
	}
	s.poll()
	s.wantMessage(progress.State{})
}

func TestInvalidLinesAreLoggedOncePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		s.poll()
		s.add("secret\n{\"step\": \"secret\"}\n{\"step\": 1}\n")
		s.poll()
		s.add("secret\n")
		time.Sleep(quiet - 1)
		s.poll()
		s.add("{\"step\": \"secret\"}\n")
		time.Sleep(time.Nanosecond)
		s.poll()
		want := "ignoring a line of " + s.follower.path + `: the report is not a JSON object such as {"step": 420}` + "\n" +
			"ignoring a line of " + s.follower.path +
			`: the field "step" of the report must be an integer from 0 to 9007199254740992` + "\n"
		if diff := cmp.Diff(want, s.logs.String()); diff != "" {
			t.Errorf("unexpected log (-want +got):\n%s", diff)
		}
		if got := s.tracker.Reports(); got != 1 {
			t.Errorf("there are %d reports, want 1", got)
		}
	})
}

func TestRefusedRequestsAreLoggedOncePerInterval(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for range 3 {
		s.serve(httptest.NewRecorder(), post(`{"secret": 1}`))
		s.serve(httptest.NewRecorder(), post(`secret`))
	}
	want := `refusing a request: the field "secret" of the report is unknown: the fields are step, totalSteps, percent, ` +
		"metrics, silenceSeconds, starting\n"
	if diff := cmp.Diff(want, s.logs.String()); diff != "" {
		t.Errorf("unexpected log (-want +got):\n%s", diff)
	}
}

func TestAnInvalidFileIsLoggedAndRequestsAreStillAccepted(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if err := os.Symlink("/etc/passwd", s.follower.path); err != nil {
		t.Fatal(err)
	}
	s.poll()
	want := s.follower.path + " must be a regular file, but is a symbolic link: remove it\n"
	if diff := cmp.Diff(want, s.logs.String()); diff != "" {
		t.Errorf("unexpected log (-want +got):\n%s", diff)
	}
	s.serve(httptest.NewRecorder(), post(`{"step": 1}`))
	if got := s.tracker.Reports(); got != 1 {
		t.Errorf("there are %d reports, want 1", got)
	}
}

func TestInvalidFlagsAreErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"the port is necessary": {nil, "--port must be from 1 to 65535, got 0"},
		"the file of the reports is necessary": {
			[]string{"--port=8090"}, "--reports must be set to the file with the reports of the program",
		},
		"the file of the termination message is necessary": {
			[]string{"--port=8090", "--reports=r", "--termination-log="},
			"--termination-log must be set to the terminationMessagePath of the container",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := Command()
			cmd.SetArgs(tc.args)
			cmd.SetErr(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("there is no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}

// A receiver without a token must not end, because the training does not start if a sidecar ends immediately.
func TestWithoutATokenOnlyTheFileIsRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token string
		want  string
	}{
		"the token is missing": {want: "reading --token-file: "},
		"the token is empty": {
			token: " \n", want: "is empty: the controller sets the token when it creates a pod, so delete the pod",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			o := options{
				port: 8090, tokenFile: filepath.Join(folder, "token"), reports: filepath.Join(folder, "reports"),
				terminationLog: filepath.Join(folder, "termination-log"),
			}
			if tc.token != "" {
				if err := os.WriteFile(o.tokenFile, []byte(tc.token), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(o.reports, []byte(`{"step": 7}`+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var logged strings.Builder
			if err := start(ctx, o, log.New(io.MultiWriter(&logged, cancelingWriter{cancel}), "", 0)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(logged.String(), tc.want) {
				t.Errorf("the log is %q, want %q", logged.String(), tc.want)
			}
			message, err := os.ReadFile(o.terminationLog)
			if err != nil || !strings.Contains(string(message), `"step":7`) {
				t.Errorf("the termination message is %q (%v), want step 7", message, err)
			}
		})
	}
}

func TestTheCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokenFile, message := filepath.Join(folder, "token"), filepath.Join(folder, "termination-log")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := Command()
	cmd.SetErr(cancelingWriter{cancel}) // the command logs when it begins to receive
	cmd.SetArgs([]string{
		"--port=" + freePort(t), "--token-file=" + tokenFile, "--reports=" + filepath.Join(folder, "reports"),
		"--termination-log=" + message,
	})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(message)
	if err != nil {
		t.Fatal(err)
	}
	state, err := progress.ParseState(content)
	if err != nil || state.Reports != 0 {
		t.Errorf("the termination message is %q (%v), want a state without reports", content, err)
	}
}

// freePort returns a port that is free at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	return port
}

// cancelingWriter cancels a context when something is written.
type cancelingWriter struct{ cancel context.CancelFunc }

func (w cancelingWriter) Write(b []byte) (int, error) {
	w.cancel()
	return len(b), nil
}
