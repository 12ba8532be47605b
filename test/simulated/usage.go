package simulated

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a component has used of the machine.
type Usage struct {
	// CPU is the time of all cores, since the component was started.
	CPU time.Duration
	// Resident and PeakResident are its memory now and at most, in bytes.
	Resident, PeakResident int64
}

// clockTick is the unit of times in /proc, which is the same on all of Linux (proc(5), USER_HZ).
const clockTick = 10 * time.Millisecond

// Usage returns what a component has used so far. It returns an error if there is none of the name or it does not run.
func (c *ControlPlane) Usage(component string) (Usage, error) {
	p, err := c.program(component)
	if err != nil {
		return Usage{}, err
	}
	if !p.running() {
		return Usage{}, fmt.Errorf("%s does not run", component)
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

// parseUsage reads the files stat and status of a process; see proc(5).
func parseUsage(stat, status string) (Usage, error) {
	// the name of the program may have spaces and parentheses
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, stime = 11, 12 // without the pid and the name
	if len(fields) <= stime {
		return Usage{}, fmt.Errorf("unexpected stat of a process: %q", stat)
	}
	var usage Usage
	for _, field := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("unexpected stat of a process: %w", err)
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
			return Usage{}, fmt.Errorf("unexpected status of a process: %w", err)
		}
		*bytes = kibibytes << 10
	}
	return usage, nil
}
