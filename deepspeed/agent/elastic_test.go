package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/common/progress"
)

// training is a script for the launcher. When all hosts train, it writes the number of hosts to $STARTED. Each host
// trains until it reads a line from $RELEASE.
var training = `
(` + pdsh(`echo >$UP; read go <$RELEASE`) + `exit $code) &
for host in $(cut -d" " -f1 $HOSTFILE); do read up <$UP; done
wc -l <$HOSTFILE >$STARTED
wait $!
exit $?
`

func newElasticJob(t *testing.T, workers int) *job {
	t.Helper()
	j := newJob(t, 1)
	up := j.fifo("up")
	j.environment = append(j.environment, "UP="+up.Name())
	for i := 1; i < workers; i++ {
		j.start(i)
	}
	j.min, j.max = 1, 3
	return j
}

func (j *job) launchInBackground(script string) <-chan error {
	launched := make(chan error, 1)
	go func() { launched <- launch(j.t.Context(), j.options, j.launcher(script)) }()
	return launched
}

func (j *job) wantStarted(hosts string) {
	j.t.Helper()
	if got := j.waitStarted(); got != hosts {
		j.t.Errorf("the training started with %s hosts, want %s", got, hosts)
	}
}

func TestElasticLaunchRestartsWhenTheWorkersChange(t *testing.T) {
	j := newElasticJob(t, 2)
	reports := j.reportsStarts()
	launched := j.launchInBackground(training)
	j.wantStarted("2")
	j.wantStarts(reports, 0)
	j.start(2)
	j.wantStarted("3")
	j.wantStarts(reports, 1)
	j.servers[1].stop()
	j.wantStarted("2")
	hostfile, err := os.ReadFile(j.hostfile)
	if want := "127.0.0.1 slots=1\n127.0.2.1 slots=1\n"; err != nil || string(hostfile) != want {
		t.Errorf("got the hostfile %q, want %q", hostfile, want)
	}
	_, _ = j.release.WriteString(strings.Repeat("go\n", 2))
	if err := <-launched; err != nil {
		t.Error(err)
	}
	j.wantStarts(reports, 2)
}

// reportsStarts makes the agent write its reports about starts to a file, as in a pod with a receiver of progress. It
// returns the path of the file.
func (j *job) reportsStarts() string {
	j.t.Helper()
	file := filepath.Join(j.folder, "reports")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	j.t.Setenv(progress.EnvFile, file)
	return file
}

// wantStarts checks that the file has the wanted number of reports about a new start of the training, and nothing
// else.
func (j *job) wantStarts(file string, want int) {
	j.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		j.t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Repeat("\n{\"starting\": true}\n", want), string(content)); diff != "" {
		j.t.Errorf("unexpected reports (-want +got):\n%s", diff)
	}
}

func TestElasticLaunchContinuesWithoutALostWorker(t *testing.T) {
	j := newElasticJob(t, 2)
	j.timing.probe, j.grace = time.Hour, 0 // the agent notices the failure before the change of the workers
	launched := j.launchInBackground(training)
	j.wantStarted("2")
	j.lines[1].cut()
	j.wantStarted("1")
	_, _ = j.release.WriteString("go\n")
	if err := <-launched; err != nil {
		t.Error(err)
	}
}

func TestElasticLaunchWaitsForEnoughWorkers(t *testing.T) {
	j := newElasticJob(t, 1)
	j.min, j.timing.remind = 2, time.Millisecond
	launched := j.launchInBackground(training)
	for !strings.Contains(j.logged.String(),
		"still waiting for at least 2 workers, including 127.0.0.1; 1 are available: 127.0.0.1") {
		select {
		case err := <-launched:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	j.start(2)
	j.wantStarted("2")
	_, _ = j.release.WriteString(strings.Repeat("go\n", 2))
	if err := <-launched; err != nil {
		t.Error(err)
	}
}

func TestElasticLaunchExitsWithTheCodeOfTheTraining(t *testing.T) {
	j := newElasticJob(t, 2)
	if code := codeOf(<-j.launchInBackground(pdsh("exit 3") + "exit $code")); code != 3 {
		t.Errorf("got exit code %d, want 3", code)
	}
}
