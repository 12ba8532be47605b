package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHostfileIsWrittenInPlace(t *testing.T) {
	o := options{host: "digits-worker-%d.digits", slots: 4, hostfile: filepath.Join(t.TempDir(), "hostfile")}
	if err := o.writeHostfile([]int{0, 1, 10}); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(o.hostfile)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.writeHostfile([]int{0, 10}); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(o.hostfile)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced; error: %v", err)
	}
	got, _ := os.ReadFile(o.hostfile)
	if diff := cmp.Diff("digits-worker-0.digits slots=4\ndigits-worker-10.digits slots=4\n", string(got)); diff != "" {
		t.Errorf("unexpected hostfile (-want +got):\n%s", diff)
	}
}

func TestInstall(t *testing.T) {
	folder := t.TempDir()
	for range 2 { // the init container can run again
		if err := Install(folder); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, name := range []string{"agent", "ssh", "hostfile"} {
		info, err := os.Lstat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode().String()
	}
	want := map[string]string{"agent": "-rwxr-xr-x", "ssh": "Lrwxrwxrwx", "hostfile": "-rw-rw-rw-"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
	output, err := exec.Command(filepath.Join(folder, "ssh")).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(output), "ssh: usage: ") {
		t.Errorf("got output %s and error %v, want the usage of ssh", output, err)
	}
}

func TestInitExitsWithTheCodeOfTheAgent(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TEST_INIT=yes")
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != exitLost {
		t.Errorf("got exit code %d, want %d, the code of ssh without arguments", got, exitLost)
	}
}

func TestFlags(t *testing.T) {
	tests := map[string]struct {
		flags   string
		wantErr string
	}{
		"a host format without %d is refused": {
			"--host=a --workers=2", "--host must contain %d once, for the index of the worker, and no other %, got \"a\"",
		},
		"a host format with another % is refused": {
			"--host=a%d%s", "--host must contain %d once, for the index of the worker, and no other %, got \"a%d%s\"",
		},
		"a negative limit of restarts is refused": {
			"--host=a%d --max-restarts=-1", "--max-restarts must be at least 0, got -1",
		},
		"a port for restarts without an attempt is refused": {
			"--host=a%d --restarts-port=1", "--restarts-port needs --attempt",
		},
		"0 workers are refused": {"--host=a%d --workers=0", "--workers and --slots must be at least 1, got 0 and 1"},
		"a maximum below the minimum is refused": {
			"--host=a%d --min-workers=3 --max-workers=2", "--min-workers must be from 1 to --max-workers, got 3 and 2",
		},
		"a missing key is refused": {
			"--host=a%d --key=no-such-file",
			"reading the key of the job: open no-such-file: no such file or directory: " +
				"it is mounted from a Secret, and all users in the pod must be able to read it",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := Command()
			cmd.SetArgs(append([]string{"serve"}, strings.Fields(tc.flags)...))
			err := cmd.ExecuteContext(t.Context())
			if err == nil || err.Error() != tc.wantErr {
				t.Errorf("got error %v\nwant %s", err, tc.wantErr)
			}
		})
	}
}

func TestReminderNamesTheMissingWorkers(t *testing.T) {
	j := newJob(t, 1)
	j.workers, j.timing.remind = 8, time.Millisecond
	launched := make(chan error, 1)
	go func() { launched <- launch(t.Context(), j.options, []string{"true"}) }()
	for !strings.Contains(j.logged.String(),
		"still waiting for 7 workers: 127.0.1.1, 127.0.2.1, 127.0.3.1, 127.0.4.1, 127.0.5.1, ...; last error: ") {
		select {
		case err := <-launched:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	for i := 1; i < 8; i++ {
		j.start(i)
	}
	if err := <-launched; err != nil {
		t.Error(err)
	}
}
