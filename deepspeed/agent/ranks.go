package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tensorstack.dev/jobs/common/launcher"
)

// lookInterval is how often the ranks of a session are looked at. DeepSpeed's launcher on the worker does so once a
// second, and leaves those that have ended as zombies until then. As long as ranks are missing, all processes are
// looked at each searchEvery times.
const (
	lookInterval = 50 * time.Millisecond
	searchEvery  = 10
)

// ranks looks which of the training processes of a session fails first, since DeepSpeed's launcher on the worker does
// not tell: it names the command line of the last one, whichever failed.
type ranks struct {
	group int         // of the processes of the session
	slots int         // how many ranks there are
	found map[int]int // rank by process
	first string      // the report of the one that failed first
}

// watch looks at the ranks until one has failed or done is closed.
func (r *ranks) watch(done <-chan struct{}) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for n := 0; r.first == ""; n++ {
		if n%searchEvery == 0 && len(r.found) < r.slots {
			r.search()
		}
		r.look()
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}

// search finds ranks among all processes: they have one in their environment, which their parent has not. A process
// that a rank starts has the rank of its parent.
func (r *ranks) search() {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		p, ok := readProcess(pid)
		if _, known := r.found[pid]; !ok || known || p.group != r.group {
			continue
		}
		rank, has := rankOf(pid)
		if inherited, hasParent := rankOf(p.parent); has && (!hasParent || inherited != rank) {
			r.found[pid] = rank
		}
	}
}

// look reports the first rank that has failed.
func (r *ranks) look() {
	for pid, rank := range r.found {
		p, ok := readProcess(pid)
		if !ok || p.group != r.group || p.state != "Z" {
			continue
		}
		if code := waitCode(syscall.WaitStatus(p.exit)); code != 0 {
			r.first = launcher.RankReport(rank, code)
			return
		}
	}
}

// waitCode returns an exit code; a signal is below zero.
func waitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}

// process is what /proc has about one.
type process struct {
	parent, group int
	state         string
	exit          uint32 // as wait returns it; 0 unless the process is a zombie
}

func readProcess(pid int) (process, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	return parseStat(string(data))
}

// parseStat reads the file stat of a process. The name of its program may hold spaces and parentheses.
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
