package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/common/helper"
)

// codeOf returns the exit code of the agent for the error.
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

func TestLaunchExitsWithTheCodeOfTheTraining(t *testing.T) {
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
		"launch exits with 0 if every rank succeeds": {
			launcher: pdsh("exit 0") + "exit $code",
		},
		"launch exits with the code of the failed rank": {
			launcher: pdsh(worker1Fails("3")) + "exit $code",
			want:     3,
			wantLog:  "the training failed on 127.0.1.1: exit code 3",
		},
		"launch prints the last output of the failed rank again": {
			launcher: pdsh(`[ "$WORKER" != 1 ] || { echo no labels >&2; exit 3; }; `) + "exit $code",
			want:     3,
			wantLog:  "exit code 3 (the launcher: 3); what it printed last:\nno labels",
		},
		"launch exits with the code of the failed rank if the launcher exits with 0": {
			launcher: pdsh(worker1Fails("3")) + "exit 0",
			want:     3,
			wantLog:  "exit code 3 (the launcher: 0)",
		},
		"launch exits with 137 if a rank was killed": {
			launcher: pdsh(worker1Fails("247")) + "exit $code",
			want:     137,
		},
		"launch exits with the code of the root cause, not of the first failure": {
			launcher: pdsh(`[ "$WORKER" = 1 ] || exit 1; read go <$RELEASE; exit 247`) + "exit $code",
			want:     137,
		},
		"launch terminates a launcher that waits for another worker after a failure": {
			launcher: pdsh(worker1Fails("3")+"sleep 1000") + "exit $code",
			grace:    time.Millisecond,
			want:     3,
			wantLog:  "the launcher did not end by itself",
		},
		"launch exits with 1 if the launcher exits with 0 while ranks still run": {
			launcher: "(" + pdsh("echo >$STARTED; sleep 1000") + ") & read a <$STARTED; read b <$STARTED; exit 0",
			want:     1,
			wantLog:  "the training still ran on",
		},
		"launch exits with 0 if the second round of node commands succeeds": {
			launcher: pdsh(worker1Fails("3")) + pdsh("exit 0") + "exit $code",
		},
		"launch exits with the code of the launcher with --trust-launcher": {
			launcher: pdsh(worker1Fails("3")) + "exit 0",
			trust:    true,
		},
		"launch ignores the exit codes of other commands than node commands": {
			launcher: "ssh 127.0.1.1 exit 3; " +
				"ssh 127.0.1.1 ': pkill -f python3\\ -u\\ -m\\ deepspeed.launcher.launch; exit 3'; exit 0",
		},
		"launch exits with 137 if the launcher was killed": {
			launcher: "kill -KILL $$",
			want:     137,
		},
		"launch exits with 127 if the image lacks a program": {
			launcher: "exit 0",
			need:     []string{"sh", "no-such-pdsh", "no-such-deepspeed"},
			want:     helper.ExitNotFound,
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
				t.Errorf("unexpected exit code (-want +got):\n%s\nerror: %v", diff, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want %s...", err, tc.wantErr)
			}
			if !strings.Contains(j.logged.String(), tc.wantLog) {
				t.Errorf("the log does not contain %q", tc.wantLog)
			}
			// When launch has returned, all sessions have ended.
			j.idle(1)
		})
	}
}

func TestLaunchReportsThatTheLauncherStartsTheTrainingAgain(t *testing.T) {
	j := newJob(t, 2)
	reports := j.reportsStarts()
	if err := launch(t.Context(), j.options, j.launcher(pdsh("exit 3")+pdsh("exit 0")+"exit $code")); err != nil {
		t.Error(err)
	}
	j.wantStarts(reports, 1)
}

func TestLaunchOfAMissingProgramExitsWith127(t *testing.T) {
	j := newJob(t, 1)
	if code := codeOf(launch(t.Context(), j.options, []string{"no-such-launcher"})); code != helper.ExitNotFound {
		t.Errorf("got exit code %d, want %d", code, helper.ExitNotFound)
	}
}

func TestLaunchExitsWith255IfAWorkerIsLost(t *testing.T) {
	j := newJob(t, 2)
	go func() {
		j.waitStarted()
		j.lines[1].cut()
	}()
	err := launch(t.Context(), j.options,
		j.launcher(pdsh(`[ "$WORKER" != 1 ] || { echo >$STARTED; sleep 1000; }`)+"exit 0"))
	if code := codeOf(err); code != exitLost {
		t.Errorf("got exit code %d, want %d", code, exitLost)
	}
	j.idle(1)
}

func TestTerminatedLaunchEndsAllProcesses(t *testing.T) {
	tests := map[string]struct {
		launcher string
		want     int
	}{
		"launch exits with 143": {launcher: pdsh("echo >$STARTED; sleep 1000"), want: exitTerminated},
		"launch exits with the code that the launcher chooses": {
			launcher: "trap 'exit 5' TERM\n" + pdsh("echo >$STARTED; sleep 1000"), want: 5,
		},
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
				t.Errorf("got exit code %d, want %d", code, tc.want)
			}
			j.idle(1)
		})
	}
}

// When the pods are deleted, the ranks of worker 0 have as much time to save their work as the ranks of other
// workers: the grace period of their pod.
func TestRanksOfTheLauncherHaveTheTimeOfThePodToEnd(t *testing.T) {
	j := newJob(t, 1)
	j.killAfter = time.Millisecond
	ctx, terminate := context.WithCancel(t.Context())
	const steps = 200 // the rank needs much longer than killAfter for these steps
	saves := fmt.Sprintf(`trap "for step in \$(seq %d); do echo saves >$STARTED; read go <$RELEASE; done; echo saved; `+
		`exit 0" TERM; echo runs >$STARTED; while true; do sleep 0.01; done`, steps)
	ended := make(chan error)
	go func() { ended <- launch(ctx, j.options, j.launcher(`trap "" TERM; `+pdsh(saves)+"exit $code")) }()
	j.waitStarted()
	terminate()
	for range steps {
		if got := j.waitStarted(); got != "saves" {
			t.Fatalf("the rank %s, want saves", got)
		}
		if _, err := j.release.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-ended
	if got, err := os.ReadFile(j.output); err != nil || !strings.Contains(string(got), "saved") {
		t.Errorf("the rank did not end by itself: %q, %v", got, err)
	}
}

func TestLaunchThatIsTerminatedWhileItWaitsForWorkersExitsWith143(t *testing.T) {
	j := newJob(t, 1)
	j.workers = 2
	ctx, terminate := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer terminate()
	if code := codeOf(launch(ctx, j.options, []string{"true"})); code != exitTerminated {
		t.Errorf("got exit code %d, want %d", code, exitTerminated)
	}
}

func TestSecretsAreWithheldFromTheLauncherAndNotFromRanks(t *testing.T) {
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
		t.Errorf("unexpected variables of the launcher and two workers (-want +got):\n%s", diff)
	}
}

func TestExitCode(t *testing.T) {
	ended := func(codes ...int) (failures []nodeReport) {
		for _, code := range codes {
			failures = append(failures, nodeReport{Ended: true, Code: code})
		}
		return failures
	}
	tests := map[string]struct {
		ending ending
		want   int
	}{
		"the code of the launcher is used without failures":      {ending{launcher: 4}, 4},
		"the code of a launcher that a signal ended is used":     {ending{launcher: 139}, 139},
		"247 without node commands is a rank that SIGKILL ended": {ending{launcher: 247}, 137},
		"193 is the last code of a signal":                       {ending{launcher: 193}, 191},
		"192 is not the code of a signal":                        {ending{launcher: 192}, 192},
		"255 is a lost worker":                                   {ending{launcher: 255}, 255},
		"a failed node command takes precedence over the launcher": {
			ending{launcher: 1, nodes: nodes{failures: ended(3)}}, 3,
		},
		"the first of several failures with own codes is used": {ending{nodes: nodes{failures: ended(3, 4)}}, 3},
		"an exception is not the root cause if another code exists": {
			ending{nodes: nodes{failures: ended(1, 250, 247, 3)}}, 137,
		},
		"an abort is not the root cause if another code exists": {
			ending{nodes: nodes{failures: ended(250, 1, 3)}}, 3,
		},
		"exceptions are the root cause if there are no other codes": {ending{nodes: nodes{failures: ended(1, 1)}}, 1},
		"a node command without an end is a failure":                {ending{nodes: nodes{open: []string{"a"}}}, 1},
		"a failed launcher takes precedence over commands without an end": {
			ending{launcher: 5, nodes: nodes{open: []string{"a"}}}, 5,
		},
		"only the launcher counts with --trust-launcher": {
			ending{trust: true, nodes: nodes{open: []string{"a"}, failures: ended(3)}}, 0,
		},
		"a terminated launcher that exits with 143 is 143":   {ending{terminated: true, launcher: 143}, 143},
		"a terminated launcher that exits with 1 is 143":     {ending{terminated: true, launcher: 1}, 143},
		"a terminated launcher that exits with 0 is 143":     {ending{terminated: true}, 143},
		"another exit code of a terminated launcher is used": {ending{terminated: true, launcher: 7}, 7},
		"a failure before the termination is used": {
			ending{terminated: true, launcher: 1, nodes: nodes{failures: ended(3)}}, 3,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := tc.ending.exitCode(); got != tc.want {
				t.Errorf("got exit code %d, want %d", got, tc.want)
			}
		})
	}
}
