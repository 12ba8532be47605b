package simulated

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource usage of a component.
type Usage struct {
	// CPU is the CPU time since the start of the component, summed over all cores.
	CPU time.Duration
	// Resident and PeakResident are the current and the peak resident memory, in bytes.
	Resident, PeakResident int64
}

// clockTick is the unit of times in /proc. See USER_HZ in proc(5).
const clockTick = 10 * time.Millisecond

// Usage returns the resource usage of a component. It returns an error if there is no such component or it does not
// run.
func (c *ControlPlane) Usage(component string) (Usage, error) {
	p, err := c.program(component)
	if err != nil {
		return Usage{}, err
	}
	if !p.running() {
		return Usage{}, fmt.Errorf("%s is not running", component)
	}
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return Usage{}, err
	}
	return parseUsage(string(stat), string(status))
}

// parseUsage parses the files stat and status of a process. See proc(5).
func parseUsage(stat, status string) (Usage, error) {
	// The name of the program can contain spaces and parentheses.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, stime = 11, 12 // indexes of the fields, counted after the PID and the name
	if len(fields) <= stime {
		return Usage{}, fmt.Errorf("unexpected content of /proc/<pid>/stat: %q", stat)
	}
	var usage Usage
	for _, field := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("unexpected content of /proc/<pid>/stat: %w", err)
		}
		usage.CPU += time.Duration(ticks) * clockTick
	}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		var bytes *int64
		switch key {
		case "VmRSS":
			bytes = &usage.Resident
		case "VmHWM":
			bytes = &usage.PeakResident
		default:
			continue
		}
		kibibytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("unexpected content of /proc/<pid>/status: %w", err)
		}
		*bytes = kibibytes << 10
	}
	return usage, nil
}
