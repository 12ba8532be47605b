package trainlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The files in testdata are real outputs, truncated as the kubelet does: to the last 80 lines, and to 2048 bytes of
// these. Files named full contain the complete output. Each file is from a job with torch 1.13 or 2.9. The job has
// two replicas with two ranks each, and rank 3 ends as the file name describes. In files named plain, each replica is
// one rank, and rank 1 ends.
func TestRead(t *testing.T) {
	t.Parallel()
	noRank := int32(-1)
	for name, tc := range map[string]struct {
		file      string
		rank      int32
		exitCode  int32
		lostPeers bool
		text      string // part of the report's text
	}{
		"torch 1.13: a killed rank failed first, though torchrun names another root cause": {
			file: "torch1-signal-0", rank: 3, exitCode: -9, text: "Signal 9 (SIGKILL) received by PID",
		},
		"torch 1.13: ranks whose exceptions were cut off are not known to have lost their peers": {
			file: "torch1-signal-1", rank: 0, exitCode: 1, text: "rank      : 0 (local_rank: 0)",
		},
		"torch 1.13: a rank that exited with a code failed first": {
			file: "torch1-3-0", rank: 3, exitCode: 3, text: "exitcode  : 3",
		},
		"torch 1.13: a rank with a recorded exception failed first": {
			file: "torch1-recorded-1", rank: 3, exitCode: 1, text: "ValueError: the data has no labels",
		},
		"torch 1.13: ranks with recorded exceptions about peers lost their peers": {
			file: "torch1-recorded-0", rank: 0, exitCode: 1, lostPeers: true, text: "Connection closed by peer",
		},
		"torch 1.13: the rank is known although its exception was cut off": {
			file: "torch1-exception-0", rank: 2, exitCode: 1,
		},
		"torch 1.13: the rank of an exception in the full output is unknown": {
			file: "torch1-exception-0-full", rank: noRank, text: "ValueError: the data has no labels",
		},
		"torch 1.13: ranks with exceptions about peers in the full output lost their peers": {
			file: "torch1-exception-1-full", rank: 0, exitCode: 1, lostPeers: true,
		},

		"torch 2.9: a killed rank failed first": {
			file: "torch2-signal-1", rank: 3, exitCode: -9, text: "(SIGKILL)",
		},
		"torch 2.9: the rank that torchrun saw end first failed first": {file: "torch2-signal-0", rank: 1, exitCode: 1},
		"torch 2.9: a rank that exited with a code failed first": {
			file: "torch2-3-1", rank: 3, exitCode: 3, text: "exitcode  : 3",
		},
		"torch 2.9: a rank with a recorded exception failed first": {
			file: "torch2-recorded-0", rank: 3, exitCode: 1, text: "ValueError: the data has no labels",
		},
		"torch 2.9: a rank with a recorded exception about a peer lost its peers": {
			file: "torch2-recorded-1", rank: 1, exitCode: 1, lostPeers: true,
		},
		"torch 2.9: a rank with an exception in the full output failed first": {
			file: "torch2-exception-1-full", rank: 3, exitCode: 1, text: "[rank3]: ValueError: the data has no labels",
		},
		"torch 2.9: ranks with exceptions about peers in the full output lost their peers": {
			file: "torch2-exception-0-full", rank: 1, exitCode: 1, lostPeers: true,
		},

		"torch 1.13 without a launcher: an exception has no rank": {
			file: "plain1-exception-1", rank: noRank, text: "ValueError: the data",
		},
		"torch 1.13 without a launcher: an exception about a peer is a lost peer": {
			file: "plain1-exception-0", rank: noRank, lostPeers: true,
		},
		"torch 2.9 without a launcher: an exception has the rank of its prefix": {
			file: "plain2-exception-1", rank: 1, text: "ValueError: the data",
		},
		"torch 2.9 without a launcher: an exception about a peer is a lost peer": {
			file: "plain2-exception-0", rank: 0, lostPeers: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Read(output(t, tc.file))
			want := fmt.Sprintf("rank %d, exit code %d, lost peers: %t", tc.rank, tc.exitCode, tc.lostPeers)
			if diff := cmp.Diff(want, summary(got)); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Text, tc.text) {
				t.Errorf("the text does not contain %q:\n%s", tc.text, got.Text)
			}
			if !tc.lostPeers && tc.text != "" && strings.Contains(got.Text, "by peer") {
				t.Errorf("the text is about peers:\n%s", got.Text)
			}
		})
	}
}

func TestReadOfTheFirstFailureOfAllReplicas(t *testing.T) {
	t.Parallel()
	printed := strings.TrimSuffix(output(t, "torch2-exception-1-full"), "\n")
	want := Read(printed)
	want.IsFirst = true
	if diff := cmp.Diff(want, Read(printed+"\nsupervise: "+FirstReport+"\n")); diff != "" {
		t.Errorf("unexpected report (-want +got):\n%s", diff)
	}
}

func summary(r Report) string {
	rank, exitCode := int32(-1), int32(0)
	if r.Rank != nil {
		rank = *r.Rank
	}
	if r.ExitCode != nil {
		exitCode = *r.ExitCode
	}
	return fmt.Sprintf("rank %d, exit code %d, lost peers: %t", rank, exitCode, r.LostPeers)
}

func output(t testing.TB, name string) string {
	data, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReadOfText(t *testing.T) {
	t.Parallel()
	const lost = "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:1"
	raised := func(lines ...string) string {
		return traceback + "\n" + frame + "train.py\", line 1, in main\n    step()\n" + strings.Join(lines, "\n")
	}
	for name, tc := range map[string]struct {
		output string
		want   string
	}{
		"an empty output is no failure": {want: "rank -1, exit code 0, lost peers: false"},
		"an output without an exception is no failure": {
			output: "step 7\nloss 0.3", want: "rank -1, exit code 0, lost peers: false",
		},
		"a failure before the last run of the launcher has not ended the job": {
			output: "agent: " + LaunchReport("deepspeed") + "\nworker-1: agent: " + RankReport(3, -9) + "\nagent: " +
				LaunchReport("deepspeed") + "\nno such option",
			want: "rank -1, exit code 0, lost peers: false",
		},
		"a failure in the last run of the launcher has": {
			output: "worker-1: agent: " + RankReport(3, -9) + "\nagent: " + LaunchReport("deepspeed") + "\nworker-0: agent: " +
				RankReport(1, -11) + "\n",
			want: "rank 1, exit code -11, lost peers: false",
		},
		"a closed connection of a data set is not a lost peer": {
			output: raised("ConnectionResetError: [Errno 104] Connection reset by peer"),
			want:   "rank -1, exit code 0, lost peers: false",
		},
		"an exception of gloo is a lost peer": {
			output: raised(lost), want: "rank -1, exit code 0, lost peers: true",
		},
		"an exception that a lost peer caused is a lost peer": {
			output: raised(lost, "", chained[0], "", raised("app.Failed: step 7")),
			want:   "rank -1, exit code 0, lost peers: true",
		},
		"a peer that was lost while an exception was handled is not the cause": {
			output: raised("ValueError: no labels", "", chained[0], "", raised(lost)),
			want:   "rank -1, exit code 0, lost peers: false",
		},
		"a closed connection of the store is a lost peer": {
			output: raised("RuntimeError: Connection reset by peer"),
			want:   "rank -1, exit code 0, lost peers: true",
		},
		"a lost peer can be in the second line of a message": {
			output: raised("torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:3690",
				"ncclRemoteError: A call failed"),
			want: "rank -1, exit code 0, lost peers: true",
		},
		"an abort by the NCCL watchdog is a lost peer": {
			output: "terminate called after throwing an instance of 'c10::DistBackendError'\n" +
				"  what():  NCCL error: remote process exited or there was a network error, NCCL version 2.27.5",
			want: "rank -1, exit code 0, lost peers: true",
		},
		"a line of another process within a traceback is skipped": {
			output: raised("rank 1 saves step 7", lost), want: "rank -1, exit code 0, lost peers: true",
		},
		"a SignalException of torchrun is a lost peer": {
			output: raised("torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15"),
			want:   "rank -1, exit code 0, lost peers: true",
		},
		"the prefix of torchrun's option --tee determines the rank": {
			output: strings.ReplaceAll(raised("ValueError: no labels"), traceback, "[default1]:"+traceback) +
				report("rank      : 2 (local_rank: 0)", "exitcode  : 1 (pid: 7)"),
			want: "rank 2, exit code 1, lost peers: false",
		},
		"a rank that does not fit into 32 bits is dropped": {
			output: report("rank      : 99999999999 (local_rank: 0)", "exitcode  : 1 (pid: 7)"),
			want:   "rank -1, exit code 0, lost peers: false",
		},
		"DeepSpeed: the rank in the report of the worker's agent failed first": {
			output: AgentReport("train-worker-1.train", 137, 1, "step 7\n"+RankReport(3, -9)),
			want:   "rank 3, exit code -9, lost peers: false",
		},
		"DeepSpeed: the report can contain a worker without a rank": {
			output: AgentReport("train-worker-1.train", 3, 1, ""), want: "rank -1, exit code 3, lost peers: false",
		},
		"DeepSpeed: a worker whose ranks lost their peers did not fail first": {
			output: AgentReport("train-worker-1.train", 1, 1, raised(lost)),
			want:   "rank -1, exit code 1, lost peers: true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, summary(Read(tc.output))); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
		})
	}
	reported := AgentReport("train-worker-1.train", 1, 1, "step 7\nno labels\n"+RankReport(3, 1))
	before := strings.Repeat("x", kubeletBytes-len(reported)-1) + "\n"
	text := Read(before + reported).Text
	if diff := cmp.Diff("step 7\nno labels", text); diff != "" {
		t.Errorf("unexpected text of a rank that raised no exception (-want +got):\n%s", diff)
	}
	output := "rank 1 fails\n" +
		"[rank0]: Traceback (most recent call last):\n[rank0]:   File \"train.py\", line 25, in <module>\n" +
		"[rank0]:     work.wait()\n[rank0]:     ~~~~~~~~~^^\n" +
		"[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.244.0.226]:20403\n"
	text = Read(AgentReport("train-worker-0.train", 1, 1, output+RankReport(1, 3))).Text
	if diff := cmp.Diff("rank 1 fails", text); diff != "" {
		t.Errorf("unexpected text of a rank whose peer lost it (-want +got):\n%s", diff)
	}
	text = Read("node log\nagent: " + AgentReport("train-worker-1.train", 2, 2, "error: no such argument")).Text
	if diff := cmp.Diff("error: no such argument", text); diff != "" {
		t.Errorf("unexpected text of a worker whose rank is unknown (-want +got):\n%s", diff)
	}
	got := Read(AgentReport("train-worker-1.train", 3, 1, "no labels")).Host
	if diff := cmp.Diff("train-worker-1.train", got); diff != "" {
		t.Errorf("unexpected host (-want +got):\n%s", diff)
	}
}

// The report of torchrun fills most of the bytes that the kubelet keeps of an output, so few lines of the program are
// left.
func TestTheTextHasTheErrorOfTheProgramUnderTorchrun(t *testing.T) {
	t.Parallel()
	listed := "\nE1125 13:26:46.023 7 errors.py:1] failed (exitcode: 2) local_rank: 1 (pid: 7) of binary: python3" +
		report("rank      : 1 (local_rank: 1)", "exitcode  : 2 (pid: 7)")
	raised := strings.ReplaceAll(listed, ": 2 (pid", ": 1 (pid")
	entry := "\ntime      : 2026-11-25_13:26:46\nrank      : 1 (local_rank: 1)\nexitcode  : 2 (pid: 7)"
	long := strings.Repeat("x", kubeletBytes-len(listed)-len("half a line\n")) + "half a line\n" + listed
	const spawned = traceback + "\n" + frame + "train.py\", line 1, in <module>\n    mp.spawn(work, nprocs=2)\n" +
		"torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n" +
		traceback + "\n" + frame + "train.py\", line 9, in work\n    if late: raise RuntimeError(\"planned failure\")\n" +
		"             ^^^^^^^^^^^^^^^^^^^^\nRuntimeError: planned failure"
	const loaded = traceback + "\n" + frame + "train.py\", line 1, in <module>\n    next(loader)\n" +
		"ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n" +
		frame + "data.py\", line 9, in __getitem__\n    raise ValueError(\"no labels\")\nValueError: no labels"
	for name, tc := range map[string]struct {
		output, want string
		lacks        bool
	}{
		"a message before the end": {
			output: "epoch 1\ntrain.py: error: unrecognized arguments: --bogus" + listed,
			want:   "epoch 1\ntrain.py: error: unrecognized arguments: --bogus" + entry,
		},
		"no line of the program": {output: listed[1:], want: entry[1:], lacks: true},
		"only the end of a line": {output: long[1:], want: entry[1:], lacks: true},
		"an exception of a child": {
			output: "epoch 1\n" + spawned + raised, want: strings.Replace(spawned, "\n\n", "\n", 1),
		},
		"an exception of a data loader": {output: "epoch 1\n" + loaded + raised, want: loaded},
		"a message, and lost peers": {
			output: "no labels\n[rank0]: " + traceback + "\n[rank0]: " + frame + "train.py\", line 1, in main\n" +
				"[rank0]: RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:1" + listed,
			want: "no labels" + entry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Read(tc.output)
			if diff := cmp.Diff(tc.want, strings.TrimSpace(got.Text)); diff != "" {
				t.Errorf("unexpected text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.lacks, got.LacksOutput); diff != "" {
				t.Errorf("unexpected LacksOutput (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheTextIsWhatATerminalShows(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ output, want string }{
		"plain text is kept":                       {output: "a\n\n\tb é ✓", want: "a\n\n\tb é ✓"},
		"colors are removed":                       {output: "\x1b[1;38;5;9mred\x1b[0m\x1b(B", want: "red"},
		"a title of the terminal is removed":       {output: "\x1b]0;a\x07b\x1b]0;a\x1b\\c", want: "bc"},
		"a title without an end ends its line":     {output: "a\x1b]0;b\nc", want: "a\nc"},
		"a sequence without an end is removed":     {output: "a\x1b[1;", want: "a"},
		"a sequence of one character is removed":   {output: "\x1b7a\x1b8", want: "a"},
		"other control characters are removed":     {output: "a\x00\x07\x08\x7f\u009bb\x1b", want: "ab"},
		"bytes that are not UTF-8 are removed":     {output: "a\xffb", want: "ab"},
		"a bar has its last state":                 {output: "a\n\r 50%\r100%\nb", want: "a\n100%\nb"},
		"a bar that ends with \\r keeps its state": {output: "50%\r100%\r\x1b[K", want: "100%"},
		"a line that ends with \\r\\n is kept":     {output: "a\r\nb\r\n", want: "a\nb\n"},
		"an error follows a bar on its line": {
			output: "\r 50%\x1b[0m\r\x1b[32m100%\x1b[0mTraceback", want: "100%Traceback",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Read(tc.output).Text); diff != "" {
				t.Errorf("unexpected text (-want +got):\n%s", diff)
			}
		})
	}
}

// A line of torch can follow a progress bar, and Python prints tracebacks in color if FORCE_COLOR is set.
func TestReadUnderstandsOutputForATerminal(t *testing.T) {
	t.Parallel()
	const bar = "\r\x1b[32m 50%|███   |\x1b[0m\r\x1b[32m100%|██████|\x1b[0m\r"
	const colored = bar + "[rank1]: \x1b[1mTraceback (most recent call last):\x1b[0m\r\n" +
		"[rank1]:   File \x1b[35m\"train.py\"\x1b[0m, line \x1b[35m1\x1b[0m, in \x1b[35mmain\x1b[0m\r\n" +
		"[rank1]: \x1b[1;35mRuntimeError\x1b[0m: \x1b[35mConnection reset by peer\x1b[0m\r\n"
	got := Read(colored)
	if diff := cmp.Diff("rank 1, exit code 0, lost peers: true", summary(got)); diff != "" {
		t.Errorf("unexpected report (-want +got):\n%s", diff)
	}
	listed := report("rank      : 1 (local_rank: 1)", "exitcode  : 2 (pid: 7)")
	bars := strings.Repeat(bar, kubeletBytes)
	if got := Read(bars[len(bars)-kubeletBytes+len(listed):] + listed); !got.LacksOutput {
		t.Errorf("an output that the kubelet has cut off is taken for complete, as its text is shorter: %q", got.Text)
	}
}

// report returns a report of torchrun.
func report(fields ...string) string {
	return "\n" + agentError + " \n=====\ntrain.py FAILED\n-----\nFailures:\n  <NO_OTHER_FAILURES>\n-----\n" +
		"Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-25_13:26:46\n  " +
		strings.Join(fields, "\n  ") + "\n====="
}

// Since torch 2.3, the log lines of torchrun contain the time of a failure more precisely than its report.
func TestReadReturnsTheTimeOfTheFailure(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]time.Time{
		"torch2-exception-1": time.Date(2026, time.November, 25, 13, 26, 46, 23_000_000, time.UTC),
		"torch2-exception-0": time.Date(2026, time.November, 25, 13, 26, 47, 82_000_000, time.UTC),
		"torch1-exception-0": time.Date(2026, time.November, 25, 13, 25, 49, 0, time.UTC),
		"plain1-exception-0": {},
	} {
		if got := Read(output(t, file)).Time; !got.Equal(want) {
			t.Errorf("%s: the failure was seen at %s, want %s", file, got, want)
		}
	}
}

// The output is untrusted. The report is small and well-formed for any output.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		f.Fatal("testdata has no outputs", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(AgentReport("worker-1", 137, 1, RankReport(3, -9)))
	f.Fuzz(func(t *testing.T, output string) {
		report := Read(output)
		if len(report.Text) > len(output) {
			t.Errorf("the text has %d bytes, the output %d", len(report.Text), len(output))
		}
		controls := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
		if strings.ContainsFunc(report.Text, controls) || !utf8.ValidString(report.Text) {
			t.Errorf("the text has control characters: %q", report.Text)
		}
		if report.Rank != nil && *report.Rank < 0 {
			t.Errorf("the rank is %d, want 0 or more", *report.Rank)
		}
		if len(report.Host) > 253 {
			t.Errorf("the host has %d bytes, want at most 253", len(report.Host))
		}
		if report.LostPeers && IsOwnFault(report.ExitCode) {
			t.Errorf("LostPeers is true, but exit code %d shows that the process did not only lose its peers", *report.ExitCode)
		}
	})
}
