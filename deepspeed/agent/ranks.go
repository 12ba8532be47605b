package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tensorstack.dev/jobs/common/trainlog"
)

// lookInterval is the maximum time between two checks for ranks that have ended. The end of a rank also causes a
// check. The checks must be frequent, because a rank that has ended shows its exit code only while it is a zombie:
// DeepSpeed's launcher on the worker checks and reaps its ranks once a second. Until all ranks are found, every
// searchEvery-th check also searches all processes for ranks.
const (
	lookInterval = 50 * time.Millisecond
	searchEvery  = 10
)

// ranks finds out which of the training processes of a session fails first. The output of DeepSpeed's launcher on the
// worker does not show this: the launcher prints the command line of its last process, whichever process failed.
type ranks struct {
	group int         // process group of the session
	slots int         // number of ranks
	found map[int]int // maps the process ID of each rank to the rank
	first string      // report about the rank that failed first
	// running are the pidfds of ranks that run. It is empty on a kernel without pidfds.
	running []unix.PollFd
}

// watch checks the ranks until one has failed or the channel done is closed.
func (r *ranks) watch(done <-chan struct{}) {
	defer r.close()
	for n := 0; r.first == ""; n++ {
		if n%searchEvery == 0 && len(r.found) < r.slots {
			r.search()
		}
		r.look()
		select {
		case <-done:
			return
		default:
			r.awaitEnd(lookInterval)
		}
	}
}

// awaitEnd returns when a rank ends, or after the given time. It can return early.
func (r *ranks) awaitEnd(limit time.Duration) {
	if _, err := unix.Poll(r.running, int(limit.Milliseconds())); err != nil {
		return // a signal interrupted the wait
	}
	r.running = slices.DeleteFunc(r.running, func(rank unix.PollFd) bool {
		hasEnded := rank.Revents != 0
		if hasEnded {
			_ = unix.Close(int(rank.Fd))
		}
		return hasEnded
	})
}

func (r *ranks) close() {
	for _, rank := range r.running {
		_ = unix.Close(int(rank.Fd))
	}
	r.running = nil
}

// search finds the ranks among all processes. A rank has the variable RANK in its environment, and its parent has no
// RANK or another value of it. A process that a rank starts inherits RANK from the rank, so it is not a rank itself.
func (r *ranks) search() {
	for pid, p := range processesOf(r.group) {
		if _, known := r.found[pid]; known {
			continue
		}
		rank, has := rankOf(pid)
		if inherited, hasParent := rankOf(p.parent); has && (!hasParent || inherited != rank) {
			r.found[pid] = rank
			if fd, err := pidfdOpen(pid); err == nil {
				r.running = append(r.running, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) //nolint:gosec // a small number
			}
		}
	}
}

// processesOf returns the processes of a process group by process ID.
func processesOf(group int) map[int]process {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	found := map[int]process{}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok && p.group == group {
			found[pid] = p
		}
	}
	return found
}

// isNodeLauncher reports whether the process is DeepSpeed's launcher on the host, which starts the ranks. With
// --elastic_training, the result is false, so that the server does not kill the launcher: the ranks are then in
// sessions of their own, and only the launcher can end them.
func isNodeLauncher(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(line, []byte("\x00-m\x00deepspeed.launcher.launch\x00")) &&
		!bytes.Contains(line, []byte("\x00--enable_elastic_training"))
}

// look searches for a rank that has failed. If there is one, look sets the report about it.
func (r *ranks) look() {
	for pid, rank := range r.found {
		p, ok := readProcess(pid)
		if !ok || p.group != r.group || p.state != "Z" {
			continue
		}
		code := waitCode(syscall.WaitStatus(p.exit))
		if code == -int(syscall.SIGTERM) && len(r.found) < r.slots {
			continue // the launcher might have stopped this rank because of the failure of a rank that was never found
		}
		if code != 0 {
			r.first = trainlog.RankReport(rank, code)
			return
		}
	}
}

// waitCode returns the exit code, or the negative number of the signal that ended the process.
func waitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}

// process is the state of a process from /proc.
type process struct {
	parent, group int
	state         string
	exit          uint32 // status as wait returns it; 0 unless the process is a zombie
}

func readProcess(pid int) (process, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	return parseStat(string(data))
}

// parseStat parses the file stat of a process. The program name in it can contain spaces and parentheses.
func parseStat(stat string) (process, bool) {
	end := strings.LastIndex(stat, ") ")
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(stat[end+2:])
	if len(fields) < 50 {
		return process{}, false
	}
	parent, errParent := strconv.Atoi(fields[1])
	group, errGroup := strconv.Atoi(fields[2])
	exit, errExit := strconv.ParseUint(fields[49], 10, 32)
	if errParent != nil || errGroup != nil || errExit != nil {
		return process{}, false
	}
	return process{parent: parent, group: group, state: fields[0], exit: uint32(exit)}, true
}

// rankOf returns the rank in the environment of a process.
func rankOf(pid int) (int, bool) {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return 0, false
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte("RANK=")); ok {
			rank, err := strconv.ParseUint(string(value), 10, 31)
			return int(rank), err == nil
		}
	}
	return 0, false
}
