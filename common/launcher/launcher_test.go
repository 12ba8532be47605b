package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The outputs in testdata are what the kubelet keeps of real ones: the last 80 lines, and of these 2048 bytes. Those
// named full are all of it. Two replicas with two ranks each train by torch 1.13 or 2.9 until rank 3 ends as the name
// says; of those named plain each replica is one rank, and rank 1 ends.
func TestRead(t *testing.T) {
	t.Parallel()
	noRank := int32(-1)
	for name, tc := range map[string]struct {
		file      string
		rank      int32
		exitCode  int32
		lostPeers bool
		text      string // in the text
	}{
		"torch 1.13: a rank was killed, its neighbour is the root cause that torchrun names": {
			file: "torch1-signal-0", rank: 3, exitCode: -9, text: "Signal 9 (SIGKILL) received by PID",
		},
		"torch 1.13: all ranks of the other replica lost their peers, and the output shows one": {
			file: "torch1-signal-1", rank: 0, exitCode: 1, text: "rank      : 0 (local_rank: 0)",
		},
		"torch 1.13: a rank ended with an exit code": {file: "torch1-3-0", rank: 3, exitCode: 3, text: "exitcode  : 3"},
		"torch 1.13: a recorded exception of a rank": {
			file: "torch1-recorded-1", rank: 3, exitCode: 1, text: "ValueError: the data has no labels",
		},
		"torch 1.13: recorded exceptions that are about peers": {
			file: "torch1-recorded-0", rank: 0, exitCode: 1, lostPeers: true, text: "Connection closed by peer",
		},
		"torch 1.13: an exception whose text was cut off": {file: "torch1-exception-0", rank: 2, exitCode: 1},
		"torch 1.13: an exception in the full output, of one of two ranks": {
			file: "torch1-exception-0-full", rank: noRank, text: "ValueError: the data has no labels",
		},
		"torch 1.13: exceptions about peers in the full output": {
			file: "torch1-exception-1-full", rank: 0, exitCode: 1, lostPeers: true,
		},

		"torch 2.9: a rank was killed": {
			file: "torch2-signal-1", rank: 3, exitCode: -9, text: "(SIGKILL)",
		},
		"torch 2.9: a rank that torchrun saw end first": {file: "torch2-signal-0", rank: 1, exitCode: 1},
		"torch 2.9: a rank ended with an exit code": {
			file: "torch2-3-1", rank: 3, exitCode: 3, text: "exitcode  : 3",
		},
		"torch 2.9: a recorded exception of a rank": {
			file: "torch2-recorded-0", rank: 3, exitCode: 1, text: "ValueError: the data has no labels",
		},
		"torch 2.9: a recorded exception about a peer": {
			file: "torch2-recorded-1", rank: 1, exitCode: 1, lostPeers: true,
		},
		"torch 2.9: an exception in the full output": {
			file: "torch2-exception-1-full", rank: 3, exitCode: 1, text: "[rank3]: ValueError: the data has no labels",
		},
		"torch 2.9: exceptions about peers in the full output": {
			file: "torch2-exception-0-full", rank: 1, exitCode: 1, lostPeers: true,
		},

		"no launcher, torch 1.13: an exception": {
			file: "plain1-exception-1", rank: noRank, text: "ValueError: the data",
		},
		"no launcher, torch 1.13: an exception about a peer": {
			file: "plain1-exception-0", rank: noRank, lostPeers: true,
		},
		"no launcher, torch 2.9: an exception": {
			file: "plain2-exception-1", rank: 1, text: "ValueError: the data",
		},
		"no launcher, torch 2.9: an exception about a peer": {file: "plain2-exception-0", rank: 0, lostPeers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Read(output(t, tc.file))
			want := fmt.Sprintf("rank %d, exit code %d, lost peers: %t", tc.rank, tc.exitCode, tc.lostPeers)
			if diff := cmp.Diff(want, summary(got)); diff != "" {
				t.Errorf("unexpected report (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Text, tc.text) {
				t.Errorf("%q is not in the text:\n%s", tc.text, got.Text)
			}
			if !tc.lostPeers && tc.text != "" && strings.Contains(got.Text, "by peer") {
				t.Errorf("the text speaks of peers:\n%s", got.Text)
			}
		})
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
		"nothing":      {want: "rank -1, exit code 0, lost peers: false"},
		"no exception": {output: "step 7\nloss 0.3", want: "rank -1, exit code 0, lost peers: false"},
		"a data set closed": {
			output: raised("ConnectionResetError: [Errno 104] Connection reset by peer"),
			want:   "rank -1, exit code 0, lost peers: false",
		},
		"a lost peer": {output: raised(lost), want: "rank -1, exit code 0, lost peers: true"},
		"raised over a lost peer": {
			output: raised(lost, "", chained[0], "", raised("app.Failed: step 7")),
			want:   "rank -1, exit code 0, lost peers: true",
		},
		"lost while it was handled": {
			output: raised("ValueError: no labels", "", chained[0], "", raised(lost)),
			want:   "rank -1, exit code 0, lost peers: false",
		},
		"a store that closed": {
			output: raised("RuntimeError: Connection reset by peer"),
			want:   "rank -1, exit code 0, lost peers: true",
		},
		"in a further line": {
			output: raised("torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:3690",
				"ncclRemoteError: A call failed"),
			want: "rank -1, exit code 0, lost peers: true",
		},
		"a watchdog that aborts": {
			output: "terminate called after throwing an instance of 'c10::DistBackendError'\n" +
				"  what():  NCCL error: remote process exited or there was a network error, NCCL version 2.27.5",
			want: "rank -1, exit code 0, lost peers: true",
		},
		"a line of another process within the exception": {
			output: raised("rank 1 saves step 7", lost), want: "rank -1, exit code 0, lost peers: true",
		},
		"torchrun was told to end": {
			output: raised("torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15"),
			want:   "rank -1, exit code 0, lost peers: true",
		},
		"the tee of torchrun names the process": {
			output: strings.ReplaceAll(raised("ValueError: no labels"), traceback, "[default1]:"+traceback) +
				report("rank      : 2 (local_rank: 0)", "exitcode  : 1 (pid: 7)"),
			want: "rank 2, exit code 1, lost peers: false",
		},
		"numbers that are none": {
			output: report("rank      : 99999999999 (local_rank: 0)", "exitcode  : 1 (pid: 7)"),
			want:   "rank -1, exit code 0, lost peers: false",
		},
		"DeepSpeed: a worker, and the rank that its agent saw end": {
			output: AgentReport("train-worker-1.train", 137, 1, "step 7\n"+RankReport(3, -9)),
			want:   "rank 3, exit code -9, lost peers: false",
		},
		"DeepSpeed: a worker, and no rank": {
			output: AgentReport("train-worker-1.train", 3, 1, ""), want: "rank -1, exit code 3, lost peers: false",
		},
		"DeepSpeed: a worker whose ranks lost their peers": {
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
	got := Read(AgentReport("train-worker-1.train", 3, 1, "no labels")).Host
	if diff := cmp.Diff("train-worker-1.train", got); diff != "" {
		t.Errorf("unexpected host (-want +got):\n%s", diff)
	}
}

// report is one as torchrun prints it.
func report(fields ...string) string {
	return "\n" + agentError + " \n=====\ntrain.py FAILED\n-----\nFailures:\n  <NO_OTHER_FAILURES>\n-----\n" +
		"Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-25_13:26:46\n  " +
		strings.Join(fields, "\n  ") + "\n====="
}

// The log lines of torchrun since 2.3 tell more exactly than its report when it saw a failure.
func TestReadTellsWhen(t *testing.T) {
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

// The output is untrusted: whatever it says, the report stays small and well-formed.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		f.Fatal("no outputs", err)
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
		if report.Rank != nil && *report.Rank < 0 {
			t.Errorf("rank %d", *report.Rank)
		}
		if len(report.Host) > 253 {
			t.Errorf("the host has %d bytes", len(report.Host))
		}
		if report.LostPeers && Tells(report.ExitCode) {
			t.Errorf("exit code %d tells that the process did not lose its peers", *report.ExitCode)
		}
	})
}
