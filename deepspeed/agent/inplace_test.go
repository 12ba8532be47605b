package agent

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/trainlog"
)

// failing returns a script for the launcher. Its training fails on worker 1 in the first runs, and then succeeds. The
// shell commands in the parameter between come after the start of the launcher.
func failing(runs int, between string) string {
	return fmt.Sprintf(`
echo run >>$HOSTFILE.runs
runs=$(wc -l <$HOSTFILE.runs)
%s
[ $runs -gt %d ] || fails=yes
`, between, runs) + pdsh(`[ "$WORKER" != 1 ] || [ "'$fails'" != yes ] || { echo "`+
		trainlog.RankReport(3, -9)+`" >&2; exit 247; }`) + `exit $code`
}

// runs returns how often the launcher of failing has run.
func (j *job) runs() int {
	content, _ := os.ReadFile(j.hostfile + ".runs")
	return strings.Count(string(content), "run")
}

func TestLaunchRunsTheLauncherAgainUntilTheLimitOfRestartsInPlace(t *testing.T) {
	const report = "the training failed on 127.0.1.1: exit code 137"
	for name, tc := range map[string]struct {
		limit, failures int
		want, wantRuns  int
		wantLog         []string
		wantNoLog       string
	}{
		"a training that fails once continues after a restart in place": {
			limit: 2, failures: 1, wantRuns: 2,
			wantLog:   []string{"rank 3 on 127 was terminated by SIGKILL: restart in place 1 of 2 (maxRestarts)"},
			wantNoLog: report,
		},
		"the failure after the last restart in place ends the training": {
			limit: 2, failures: 3, wantRuns: 3, want: 137,
			wantLog: []string{"all restarts in place are used up (maxRestarts: 2)", report},
		},
		"without a limit, there is no restart in place": {
			failures: 1, wantRuns: 1, want: 137, wantLog: []string{report}, wantNoLog: "in place",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 2)
			j.restarts = tc.limit
			reports := j.reportsStarts()
			if code := codeOf(launch(t.Context(), j.options, j.launcher(failing(tc.failures, "")))); code != tc.want {
				t.Errorf("got exit code %d, want %d", code, tc.want)
			}
			if got := j.runs(); got != tc.wantRuns {
				t.Errorf("the launcher ran %d times, want %d", got, tc.wantRuns)
			}
			for _, want := range tc.wantLog {
				if !strings.Contains(j.logged.String(), want) {
					t.Errorf("the log does not contain %q", want)
				}
			}
			if tc.wantNoLog != "" && strings.Contains(j.logged.String(), tc.wantNoLog) {
				t.Errorf("the log contains %q", tc.wantNoLog)
			}
			j.wantStarts(reports, tc.wantRuns-1)
		})
	}
}

func TestElasticLaunchRestartsInPlace(t *testing.T) {
	j := newElasticJob(t, 2)
	j.restarts = 1
	if code := codeOf(<-j.launchInBackground(failing(2, ""))); code != 137 {
		t.Errorf("got exit code %d, want 137", code)
	}
	if got := j.runs(); got != 2 {
		t.Errorf("the launcher ran %d times, want 2", got)
	}
}

func TestALauncherThatFailsByItselfIsNotRestartedInPlace(t *testing.T) {
	j := newJob(t, 2)
	j.restarts = 1
	if code := codeOf(launch(t.Context(), j.options, j.launcher("exit 2"))); code != 2 {
		t.Errorf("got exit code %d, want 2", code)
	}
	if strings.Contains(j.logged.String(), "in place") {
		t.Error("the log contains a restart in place")
	}
}

// The controller restarts a job that has lost a worker, and does not count it. If the worker can be reached again, its
// old processes might still run.
func TestALostWorkerIsNoRestartInPlace(t *testing.T) {
	for name, isBack := range map[string]bool{"lost permanently": false, "back soon": true} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 2)
			j.restarts = 1
			go func() {
				j.waitStarted()
				lost := j.servers[1]
				j.lines[1].cut()
				if isBack {
					j.start(1)
				}
				lost.stop()
			}()
			err := launch(t.Context(), j.options,
				j.launcher(pdsh(`[ "$WORKER" != 1 ] || { echo >$STARTED; sleep 1000; }`)+"exit 0"))
			if code := codeOf(err); code != exitLost {
				t.Errorf("got exit code %d, want %d", code, exitLost)
			}
			if strings.Contains(j.logged.String(), "restart in place 1") {
				t.Error("the log contains a restart in place")
			}
		})
	}
}

func TestAWorkerThatIsAboutToEndIsNoRestartInPlace(t *testing.T) {
	j := newJob(t, 2)
	j.restarts = 1
	go func() {
		j.waitStarted()
		j.servers[1].stop() // as after SIGTERM
	}()
	err := launch(t.Context(), j.options,
		j.launcher(pdsh(`[ "$WORKER" != 1 ] || { echo >$STARTED; sleep 1000; }`)+"exit 0"))
	if code := codeOf(err); code != exitTerminated {
		t.Errorf("got exit code %d, want %d", code, exitTerminated)
	}
	if !strings.Contains(j.logged.String(), "a worker is lost, so this is no restart in place") {
		t.Error("the log does not contain the lost worker")
	}
}

func TestTheControllerReadsTheRestartsInPlace(t *testing.T) {
	j := newJob(t, 2)
	j.restarts, j.attempt = 2, "uid-0"
	j.answer = freePort(t, "127.0.0.1")
	launched := j.launchInBackground(failing(1, "[ $runs = 1 ] || { echo >$STARTED; read go <$RELEASE; }"))
	j.waitStarted() // the launcher runs for the second time
	target := progress.Target{Address: net.JoinHostPort("127.0.0.1", fmt.Sprint(j.answer)), Token: "uid-0"}
	got, err := progress.NewClient().Read(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	want := progress.Restarts{Count: 1, Last: []progress.Restart{{
		Replica: "127", Rank: new(int32(3)), Code: new(int32(-9)),
	}}}
	if diff := gocmp.Diff(want, got.Restarts, cmpopts.IgnoreFields(progress.Restart{}, "Since")); diff != "" {
		t.Errorf("unexpected restarts (-want +got):\n%s", diff)
	}
	target.Token = "uid-1"
	if _, err := progress.NewClient().Read(t.Context(), target); err == nil {
		t.Error("a client with another ID reads the restarts")
	}
	_, _ = j.release.WriteString("go\n")
	if err := <-launched; err != nil {
		t.Error(err)
	}
}
