package agent

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// shareNode gives each worker a separate port, as with hostNetwork, and starts the workers except worker 0.
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
		t.Errorf("got exit code %d, want 7, the exit code of worker 2", got)
	}
}

func TestSSHConnectsToThePortOfTheWorker(t *testing.T) {
	j := newJob(t, 1)
	j.shareNode(3)
	for name, tc := range map[string]struct {
		args       []string
		wantOutput string
		wantCode   int
	}{
		"ssh uses the port of the worker by default": {args: []string{"127.0.2.1", "echo $WORKER"}, wantOutput: "2\n"},
		"ssh uses the port of the option -p": {
			args:       []string{"-p", strconv.Itoa(j.firstPort + 1), "127.0.1.1", "echo $WORKER"},
			wantOutput: "1\n",
		},
		"ssh fails if the host is not a worker": {
			args: []string{"10.1.1.1", "true"}, wantCode: exitLost,
			wantOutput: "ssh: the port of 10.1.1.1 is unknown: with hostNetwork, use a host name from the hostfile\n",
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
				t.Errorf("got exit code %d and output %q, want %d and %q", code, output, tc.wantCode, tc.wantOutput)
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
				t.Errorf("the host is worker %d, want %d", got, want)
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
		"an unset variable has no addresses":      {},
		"a valid value is parsed":                 {value: Addresses("a-%d.b", 21414), wantHost: "a-%d.b", wantPort: 21414},
		"a value without a port is ignored":       {value: "a-%d.b"},
		"a value without %d is ignored":           {value: "a.b:21414"},
		"a value with an invalid port is ignored": {value: "a-%d.b:x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvAddresses, tc.value)
			host, port := addresses()
			if host != tc.wantHost || port != tc.wantPort {
				t.Errorf("got host %q and port %d, want %q and %d", host, port, tc.wantHost, tc.wantPort)
			}
		})
	}
}

func TestLauncherEnvironmentHasThePortsOfWorkers(t *testing.T) {
	t.Parallel()
	addressesIn := func(o options) string {
		for _, variable := range o.launcherEnvironment() {
			if value, ok := strings.CutPrefix(variable, EnvAddresses+"="); ok {
				return value
			}
		}
		return ""
	}
	if got, want := addressesIn(options{host: "a-%d.b", firstPort: 21414}), "a-%d.b:21414"; got != want {
		t.Errorf("the launcher has the addresses %q, want %q", got, want)
	}
	if got := addressesIn(options{host: "a-%d.b", environment: []string{EnvAddresses + "=x"}}); got != "" {
		t.Errorf("the launcher has the addresses %q although all workers have the same port", got)
	}
}
