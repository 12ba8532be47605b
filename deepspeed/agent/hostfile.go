package agent

import (
	"fmt"
	"os"
	"strings"
)

// validFormat reports whether fmt can format a host name from the format and an index.
func validFormat(format string) bool {
	return strings.Count(format, "%") == 1 && strings.Contains(format, "%d")
}

func (o *options) hostOf(worker int) string { return fmt.Sprintf(o.host, worker) }

// firstWorkers returns the indices of the first n workers.
func firstWorkers(n int) []int {
	workers := make([]int, n)
	for i := range workers {
		workers[i] = i
	}
	return workers
}

// writeHostfile writes the file in place, since a mounted file cannot be replaced. It truncates the file after the
// write, so that the file is never empty.
func (o *options) writeHostfile(workers []int) error {
	var content strings.Builder
	for _, w := range workers {
		fmt.Fprintf(&content, "%s slots=%d\n", o.hostOf(w), o.slots)
	}
	f, err := os.OpenFile(o.hostfile, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // all users in the pod can read it
	if err != nil {
		return fmt.Errorf("writing the hostfile: %w: it must be the file that the init container creates, and all users "+
			"must be able to write to it", err)
	}
	if _, err = f.WriteAt([]byte(content.String()), 0); err == nil {
		err = f.Truncate(int64(content.Len()))
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing the hostfile: %w", err)
	}
	return nil
}
