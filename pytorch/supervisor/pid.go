package supervisor

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// torchrunID is the process ID of torchrun in the pod. It is above the IDs of the supervisor and its threads.
//
// A rendezvous of torch knows a replica by its host name and by the process ID of its torchrun. A torchrun that joins
// first removes the replica of the same name and ID. If the ID is another one, the replica that was lost stays in the
// rendezvous for 15 s, and the others do not start their processes again before that.
const torchrunID = 300

// startTorchrun starts a program with the process ID torchrunID. If that is not possible, it starts the program with
// another ID: the pod can share a PID namespace, and gVisor does not tell the last ID.
func startTorchrun(file string, command []string) (*os.Process, error) {
	for range torchrunID {
		if id, err := lastID(); err != nil || id < os.Getpid() || id >= torchrunID-1 {
			break
		}
		// Starting a folder fails, but uses up an ID.
		_, _ = os.StartProcess("/", nil, &os.ProcAttr{})
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	return os.StartProcess(file, command, &os.ProcAttr{Files: files}) //nolint:gosec // the command of the job
}

// lastID returns the ID of the last process or thread that has started in the pod.
func lastID() (int, error) {
	load, err := os.ReadFile("/proc/loadavg") // the ID is the last field
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(load[bytes.LastIndexByte(load, ' ')+1:])))
}
