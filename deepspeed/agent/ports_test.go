package agent

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// shareNode gives each worker a port of its own, as hostNetwork needs it, and starts those that do not launch.
func (j *job) shareNode(workers int) {
	j.t.Helper()
	j.firstPort, j.workers = j.port, workers
	for i := 1; i < workers; i++ {
		j.start(i)
	}
}

func TestLaunchReachesWorkersOnDifferentPorts(t *testing.T) {
	j := newJob(t, 1)
	j.shareNode(3)
	script := pdsh(`test $WORKER != 2 || exit 7`)
	if got := codeOf(launch(t.Context(), j.options, j.launcher(script))); got != 7 {
		t.Errorf("got %d, want 7, as worker 2 ended", got)
	}
}

func TestSSHKnowsThePortsOfWorkers(t *testing.T) {
	j := newJob(t, 1)
	j.shareNode(3)
	for name, tc := range map[string]struct {
		args       []string
		wantOutput string
		wantCode   int
	}{
		"each worker has its port": {args: []string{"127.0.2.1", "echo $WORKER"}, wantOutput: "2\n"},
		"a port that is given wins": {
			args:       []string{"-p", strconv.Itoa(j.firstPort + 1), "127.0.1.1", "echo $WORKER"},
			wantOutput: "1\n",
		},
		"the port of another host is not guessed": {
			args: []string{"10.1.1.1", "true"}, wantCode: exitLost,
			wantOutput: "ssh: the port of 10.1.1.1 is not known: with hostNetwork, name a worker as the hostfile does\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := j.ssh(tc.args...)
			cmd.Env = append(cmd.Env, EnvAddresses+"="+Addresses(j.host, j.firstPort))
			output, err := cmd.CombinedOutput()
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			}
			if code != tc.wantCode || string(output) != tc.wantOutput {
				t.Errorf("got %d, %q, want %d, %q", code, output, tc.wantCode, tc.wantOutput)
			}
		})
	}
}

func TestWorkerAt(t *testing.T) {
	t.Parallel()
	o := options{host: "digits-worker-%d.digits.team.svc.cluster.local"}
	for host, want := range map[string]int{
		"digits-worker-0.digits.team.svc.cluster.local":    0,
		"digits-worker-1999.digits.team.svc.cluster.local": 1999,
		"digits-worker-3.digits.team.svc.cluster.local.":   3,
		"digits-worker-3.digits":                           3,
		"digits-worker-3":                                  3,
		"digits-worker-3.digi":                             -1,
		"digits-worker-3.other":                            -1,
		"digits-worker-":                                   -1,
		"digits-worker-x":                                  -1,
		"digits-ps-0":                                      -1,
		"10.1.1.1":                                         -1,
		"localhost":                                        -1,
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			got, ok := o.workerAt(host)
			if !ok {
				got = -1
			}
			if got != want {
				t.Errorf("the worker is %d, want %d", got, want)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		value    string
		wantHost string
		wantPort int
	}{
		"unset":             {},
		"as the job has it": {value: Addresses("a-%d.b", 21414), wantHost: "a-%d.b", wantPort: 21414},
		"without a port":    {value: "a-%d.b"},
		"without an index":  {value: "a.b:21414"},
		"not a port":        {value: "a-%d.b:x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvAddresses, tc.value)
			host, port := addresses()
			if host != tc.wantHost || port != tc.wantPort {
				t.Errorf("got %q, %d, want %q, %d", host, port, tc.wantHost, tc.wantPort)
			}
		})
	}
}

func TestLauncherIsToldThePortsOfWorkers(t *testing.T) {
	t.Parallel()
	told := func(o options) string {
		for _, variable := range o.launcherEnvironment() {
			if value, ok := strings.CutPrefix(variable, EnvAddresses+"="); ok {
				return value
			}
		}
		return ""
	}
	if got, want := told(options{host: "a-%d.b", firstPort: 21414}), "a-%d.b:21414"; got != want {
		t.Errorf("the launcher has %q, want %q", got, want)
	}
	if got := told(options{host: "a-%d.b", environment: []string{EnvAddresses + "=x"}}); got != "" {
		t.Errorf("the launcher has %q although all workers have the same port", got)
	}
}
