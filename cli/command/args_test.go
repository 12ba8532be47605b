package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"tensorstack.dev/jobs/cli/jobs"
)

// runOffline runs kubectl train without a kubeconfig. It returns the output to stdout and the text of the error.
func runOffline(t *testing.T, args ...string) (out, problem string) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/nowhere")
	var stdout bytes.Buffer
	cmd := New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &bytes.Buffer{}})
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		problem = err.Error()
	}
	return stdout.String(), problem
}

func TestArguments(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"a missing job is named": {
			args: "logs", want: "name a job, as in: kubectl train logs digits. kubectl train list shows the jobs",
		},
		"a kind and a name are joined": {
			args: "why ptjob digits", want: "join the kind and the name of the job: ptjob/digits",
		},
		"only one job is possible": {
			args: "delete digits words", want: "kubectl train delete takes one job, and not 2",
		},
		"watch needs no job, but takes only one": {
			args: "watch digits words", want: "kubectl train watch takes one job, and not 2",
		},
		"the arguments of a training follow --": {
			args: "resume digits epochs=3",
			want: "kubectl train resume takes one job, and not 2: the arguments of the training follow --",
		},
		"the command of debug follows --": {
			args: "debug digits ls", want: "kubectl train debug takes one job, and not 2: the command to run follows --",
		},
		"scale needs a number": {
			args: "scale digits", want: "name a job and its number of replicas, as in: kubectl train scale digits 4",
		},
		"scale refuses a negative number": {args: "scale digits -1", want: `"-1" is no number of replicas`},
		"scale refuses unknown flags":     {args: "scale digits -x", want: "unknown shorthand flag: 'x' in -x"},
		"logs prints the replicas of one flag": {
			args: "logs digits --all --failed", want: "use only one of --all and --failed",
		},
		"logs follows no failed replica": {args: "logs digits --failed -f", want: "use only one of --failed and --follow"},
		"debug opens one replica": {
			args: "debug digits --rank=1 --replica=a", want: "use only one of --rank and --replica",
		},
		"list takes kinds":              {args: "list digits", want: jobs.NoKindError("digits").Error()},
		"plan reads files of -f":        {args: "plan job.yaml", want: "the flag -f names the manifests: -f job.yaml"},
		"convert reads files of -f":     {args: "convert job.yaml", want: "the flag -f names the manifests: -f job.yaml"},
		"plan needs a manifest":         {args: "plan", want: "plan needs a manifest: add -f FILE, or -f - for stdin"},
		"run explains a missing folder": {args: "run nowhere -- train.py", want: "there is no folder nowhere"},
		"run lists problems in one order": {
			args: "run testdata/run/digits --image=a --nodes=-1 --procs=-1 --gpus=-1 --retries=-1 --dry-run=client -- train.py",
			want: "--nodes is negative\n--procs is negative\n--gpus is negative\n--retries is negative",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := runOffline(t, strings.Fields(tc.args)...)
			if diff := cmp.Diff(tc.want, problem); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListKnowsItsFormats(t *testing.T) {
	err := (&environment{}).printJobs(nil, "table", false, time.Time{})
	const want = `--output is "table": use wide, name, json, yaml, jsonpath=TEMPLATE or go-template=TEMPLATE`
	if err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
}

func TestHelpListsOnlyCommandsOfUsers(t *testing.T) {
	help, _ := runOffline(t, "--help")
	if strings.Contains(help, "  completion ") {
		t.Errorf("the help lists the command completion, which completes kubectl-train and not kubectl train:\n%s", help)
	}
}

// TestUsageHasFlagsBeforeTheProgram checks commands that pass all words after -- to another program.
func TestUsageHasFlagsBeforeTheProgram(t *testing.T) {
	for command, want := range map[string]string{
		"run":    "kubectl train run DIR [flags] -- PROGRAM [ARGS...]",
		"resume": "kubectl train resume JOB [flags] [-- ARGS...]",
		"debug":  "kubectl train debug JOB [flags] [-- COMMAND [ARGS...]]",
	} {
		help, _ := runOffline(t, command, "--help")
		if !strings.Contains(help, "Usage:\n  "+want+"\n") {
			t.Errorf("the help of %s does not have the usage %q:\n%s", command, want, help)
		}
	}
}
