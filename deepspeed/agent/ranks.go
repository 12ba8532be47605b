package agent

import (
	"bytes"
	"cmp"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/ranks"
	"tensorstack.dev/jobs/common/trainlog"
)

// firstFailure returns the report about the training process of a session that fails first, or "" if none fails. The
// output of DeepSpeed's launcher on the worker does not show this: the launcher prints the command line of its last
// process, whichever process failed. The parameter slots is the number of ranks.
func firstFailure(events iter.Seq[ranks.Event], slots int) string {
	var started, ended int
	var stopped string // report about the first rank that SIGTERM ended
	for e := range events {
		if e.Ended {
			ended++
		} else {
			started++
		}
		switch code := ptr.Deref(e.Code, 0); code {
		case 0:
		case -int(syscall.SIGTERM):
			stopped = cmp.Or(stopped, trainlog.RankReport(e.Rank, code))
		default:
			return trainlog.RankReport(e.Rank, code)
		}
		// While a rank has not been found, it might have failed, so that the launcher stopped the others. After the end of
		// all ranks, a process that a rank has left behind would look like a rank.
		if started >= slots && (stopped != "" || ended >= slots) {
			return stopped
		}
	}
	return ""
}

// isNodeLauncher reports whether the process is DeepSpeed's launcher on the host, which starts the ranks. With
// --elastic_training, the result is false, so that the server does not kill the launcher: the ranks are then in
// sessions of their own, and only the launcher can end them.
func isNodeLauncher(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(line, []byte("\x00-m\x00deepspeed.launcher.launch\x00")) &&
		!bytes.Contains(line, []byte("\x00--enable_elastic_training"))
}
