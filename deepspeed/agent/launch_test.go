package agent

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// codeOf returns what the agent would exit with.
func codeOf(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	return exitSoftware
}

func TestLaunchExitsAsTheTrainingDid(t *testing.T) {
	worker1Fails := func(code string) string { return `[ "$WORKER" != 1 ] || exit ` + code + `; ` }
	tests := map[string]struct {
		launcher string
		grace    time.Duration
		trust    bool
		need     []string
		want     int
		wantLog  string
		wantErr  string
	}{
		"with 0 if all is well": {
			launcher: pdsh("exit 0") + "exit $code",
		},
		"with the code of a rank": {
			launcher: pdsh(worker1Fails("3")) + "exit $code",
			want:     3,
			wantLog:  "the training failed on 127.0.1.1: exit code 3",
		},
		"and says once more why the rank failed": {
			launcher: pdsh(`[ "$WORKER" != 1 ] || { echo no labels >&2; exit 3; }; `) + "exit $code",
			want:     3,
			wantLog:  "exit code 3 (the launcher: 3); what it printed last:\nno labels",
		},
		"with the code of a rank although the launcher says 0": {
			launcher: pdsh(worker1Fails("3")) + "exit 0",
			want:     3,
			wantLog:  "exit code 3 (the launcher: 0)",
		},
		"as a shell does of a rank that was killed": {
			launcher: pdsh(worker1Fails("247")) + "exit $code",
			want:     137,
		},
		"with the failure of which the other followed": {
			launcher: pdsh(`[ "$WORKER" = 1 ] || exit 1; read go <$RELEASE; exit 247`) + "exit $code",
			want:     137,
		},
		"although another worker would train on for ever": {
			launcher: pdsh(worker1Fails("3")+"sleep 1000") + "exit $code",
			grace:    time.Millisecond,
			want:     3,
			wantLog:  "the launcher did not end by itself",
		},
		"with a failure if the launcher ends with 0 before the ranks": {
			launcher: "(" + pdsh("echo >$STARTED; sleep 1000") + ") & read a <$STARTED; read b <$STARTED; exit 0",
			want:     1,
			wantLog:  "the training still ran on",
		},
		"with 0 if the launcher's second attempt succeeds": {
			launcher: pdsh(worker1Fails("3")) + pdsh("exit 0") + "exit $code",
		},
		"as the launcher does if that is what counts": {
			launcher: pdsh(worker1Fails("3")) + "exit 0",
			trust:    true,
		},
		"without regard to what is no node command": {
			launcher: "ssh 127.0.1.1 exit 3; ssh 127.0.1.1 ': pkill -f python3\\ -u\\ -m\\ deepspeed.launcher.launch; exit 3'; exit 0",
		},
		"as a launcher that was killed": {
			launcher: "kill -KILL $$",
			want:     137,
		},
		"with 127 if the image lacks a program": {
			launcher: "exit 0",
			need:     []string{"sh", "no-such-pdsh", "no-such-deepspeed"},
			want:     exitNotFound,
			wantErr:  "the image lacks no-such-pdsh and no-such-deepspeed, which the launcher of DeepSpeed needs",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 2)
			j.grace = cmp.Or(tc.grace, time.Minute)
			j.trust, j.need = tc.trust, tc.need
			if _, err := j.release.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
			err := launch(t.Context(), j.options, j.launcher(tc.launcher))
			if diff := gocmp.Diff(tc.want, codeOf(err)); diff != "" {
				t.Errorf("exit code (-want +got):\n%s\n%v", diff, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want %s...", err, tc.wantErr)
			}
			if !strings.Contains(j.logged.String(), tc.wantLog) {
				t.Errorf("the log does not say %q", tc.wantLog)
			}
			// All sessions have ended with launch.
			j.idle(1)
		})
	}
}

func TestLaunchOfAMissingProgramExitsAsAShellDoes(t *testing.T) {
	j := newJob(t, 1)
	if code := codeOf(launch(t.Context(), j.options, []string{"no-such-launcher"})); code != exitNotFound {
		t.Errorf("got %d, want %d", code, exitNotFound)
	}
}

func TestLaunchWithAWorkerThatIsLostExitsWith255(t *testing.T) {
	j := newJob(t, 2)
	go func() {
		j.waitStarted()
		j.lines[1].cut()
	}()
	err := launch(t.Context(), j.options,
		j.launcher(pdsh(`[ "$WORKER" != 1 ] || { echo >$STARTED; sleep 1000; }`)+"exit 0"))
	if code := codeOf(err); code != exitLost {
		t.Errorf("got %d, want %d", code, exitLost)
	}
	j.idle(1)
}

func TestLaunchThatIsTerminatedEndsEverything(t *testing.T) {
	tests := map[string]struct {
		launcher string
		want     int
	}{
		"with 143":                    {launcher: pdsh("echo >$STARTED; sleep 1000"), want: exitTerminated},
		"with the code that it chose": {launcher: "trap 'exit 5' TERM\n" + pdsh("echo >$STARTED; sleep 1000"), want: 5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 2)
			ctx, terminate := context.WithCancel(t.Context())
			go func() {
				j.waitStarted()
				j.waitStarted()
				terminate()
			}()
			if code := codeOf(launch(ctx, j.options, j.launcher(tc.launcher))); code != tc.want {
				t.Errorf("got %d, want %d", code, tc.want)
			}
			j.idle(1)
		})
	}
}

func TestLaunchThatIsTerminatedBeforeItsWorkersAreThereExitsWith143(t *testing.T) {
	j := newJob(t, 1)
	j.workers = 2
	ctx, terminate := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer terminate()
	if code := codeOf(launch(ctx, j.options, []string{"true"})); code != exitTerminated {
		t.Errorf("got %d, want %d", code, exitTerminated)
	}
}

func TestLauncherPrintsNoSecretAndRanksHaveAll(t *testing.T) {
	j := newJob(t, 2)
	secrets := []string{"MLFLOW_TRACKING_TOKEN=a", "DB_PASSWORD=b", "AZUREML_RUN_TOKEN=c"}
	j.environment = append(j.environment, append(secrets, "PYTHONPATH=d", "NOT_FOR_RANKS=e")...)
	j.secretEnv, j.withoutEnv = []string{"DB_PASSWORD"}, []string{"NOT_FOR_RANKS"}
	j.start(2)
	j.workers = 3
	const look = `env | grep -E "^(MLFLOW|DB_|AZUREML|PYTHONPATH|NOT_FOR|T9K_)" | cut -d= -f1 | sort | tr "\n" " "`
	err := launch(t.Context(), j.options,
		j.launcher(look+`; echo; ssh 127.0.0.1 '`+look+`'; echo; ssh 127.0.2.1 '`+look+`'`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(j.output)
	if err != nil {
		t.Fatal(err)
	}
	want := "NOT_FOR_RANKS PYTHONPATH T9K_LAUNCH_SOCKET T9K_SSH_KEY T9K_SSH_PORT \n" +
		strings.Repeat("AZUREML_RUN_TOKEN DB_PASSWORD MLFLOW_TRACKING_TOKEN PYTHONPATH \n", 2)
	if diff := gocmp.Diff(want, strings.TrimSpace(string(got))+" \n"); diff != "" {
		t.Errorf("names of the launcher, and of two workers (-want +got):\n%s", diff)
	}
}

func TestExitCode(t *testing.T) {
	ended := func(codes ...int) (failures []nodeReport) {
		for _, code := range codes {
			failures = append(failures, nodeReport{ended: true, code: code})
		}
		return failures
	}
	tests := map[string]struct {
		ending ending
		want   int
	}{
		"the launcher's":                                  {ending{launcher: 4}, 4},
		"a launcher that a signal ended":                  {ending{launcher: 139}, 139},
		"a rank that a signal ended, without pdsh":        {ending{launcher: 247}, 137},
		"what Python makes of -63 is the last signal":     {ending{launcher: 193}, 191},
		"192 is no signal":                                {ending{launcher: 192}, 192},
		"a lost worker":                                   {ending{launcher: 255}, 255},
		"a node's before the launcher's":                  {ending{launcher: 1, nodes: nodes{failures: ended(3)}}, 3},
		"the first node's":                                {ending{nodes: nodes{failures: ended(3, 4)}}, 3},
		"an exception follows from something else":        {ending{nodes: nodes{failures: ended(1, 250, 247, 3)}}, 137},
		"an abort follows from something else":            {ending{nodes: nodes{failures: ended(250, 1, 3)}}, 3},
		"exceptions only":                                 {ending{nodes: nodes{failures: ended(1, 1)}}, 1},
		"nodes that never ended":                          {ending{nodes: nodes{open: []string{"a"}}}, 1},
		"nodes that never ended do not hide the launcher": {ending{launcher: 5, nodes: nodes{open: []string{"a"}}}, 5},
		"trust in the launcher": {
			ending{trust: true, nodes: nodes{open: []string{"a"}, failures: ended(3)}}, 0,
		},
		"terminated": {ending{terminated: true, launcher: 143}, 143},
		"terminated, which DeepSpeed answers with 1": {ending{terminated: true, launcher: 1}, 143},
		"terminated, and done":                       {ending{terminated: true}, 143},
		"terminated, and a code of its own":          {ending{terminated: true, launcher: 7}, 7},
		"terminated after a failure": {
			ending{terminated: true, launcher: 1, nodes: nodes{failures: ended(3)}}, 3,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := tc.ending.exitCode(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
