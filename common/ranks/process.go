package ranks

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Process is the state of a process from /proc.
type Process struct {
	ID, Parent, Group int

	state string
	exit  syscall.WaitStatus // 0 unless the process is a zombie
}

// InGroup returns a function that reports whether a process is in the process group.
func InGroup(group int) func(Process) bool {
	return func(p Process) bool { return p.Group == group }
}

// ChildOf returns a function that reports whether a process is a child of the parent.
func ChildOf(parent int) func(Process) bool {
	return func(p Process) bool { return p.Parent == parent }
}

// Processes returns the processes that the function selects.
func Processes(selects func(Process) bool) (found []Process) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok && selects(p) {
			found = append(found, p)
		}
	}
	return found
}

func readProcess(pid int) (Process, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, string(data))
}

// parseStat parses the file stat of a process. The program name in it can contain spaces and parentheses.
func parseStat(pid int, stat string) (Process, bool) {
	end := strings.LastIndex(stat, ") ")
	if end < 0 {
		return Process{}, false
	}
	fields := strings.Fields(stat[end+2:])
	if len(fields) < 50 {
		return Process{}, false
	}
	parent, errParent := strconv.Atoi(fields[1])
	group, errGroup := strconv.Atoi(fields[2])
	exit, errExit := strconv.ParseUint(fields[49], 10, 32)
	if errParent != nil || errGroup != nil || errExit != nil {
		return Process{}, false
	}
	return Process{ID: pid, Parent: parent, Group: group, state: fields[0], exit: syscall.WaitStatus(exit)}, true
}

// IsZombie reports whether the process has ended, and its parent has not reaped it. Only then has it an exit status.
func (p Process) IsZombie() bool { return p.state == "Z" }

// code returns the exit code, or the negative number of the signal that ended the process.
func (p Process) code() int {
	if p.exit.Signaled() {
		return -int(p.exit.Signal())
	}
	return p.exit.ExitStatus()
}

// variables returns the environment variables of a process that have one of the names.
func variables(pid int, names []string) map[string]string {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if name, value, _ := strings.Cut(string(variable), "="); slices.Contains(names, name) {
			found[name] = value
		}
	}
	return found
}
