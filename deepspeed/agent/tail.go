package agent

import (
	"bytes"
	"strings"
	"sync"
)

// tailLimit is the maximum number of bytes of the last output of a host that the agent prints again. The termination
// message of a container has only the last 2048 bytes of its output. Without the repetition, output of other hosts
// could displace the output that shows why a host failed.
const tailLimit = 1024

// tail keeps the last lines that the ranks of a host print.
type tail struct {
	mu    sync.Mutex
	lines bytes.Buffer // complete lines
	line  bytes.Buffer // the incomplete line
	// isReturn is whether the last byte was a carriage return, after which a progress bar rewrites its line.
	isReturn bool
}

// Write never fails. Both streams of a command can call it at the same time.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range p {
		if t.isReturn && c != '\n' && c != '\r' {
			t.line.Reset()
		}
		t.isReturn = c == '\r'
		switch {
		case c == '\n':
			t.endLine()
		case !t.isReturn && t.line.Len() < tailLimit:
			t.line.WriteByte(c)
		}
	}
	return len(p), nil
}

// endLine ends the incomplete line. It drops lines of DeepSpeed's launcher on the host, which prints a line about every
// rank that it ends.
func (t *tail) endLine() {
	if !bytes.Contains(t.line.Bytes(), []byte("[launch.py:")) {
		t.lines.Write(t.line.Bytes())
		t.lines.WriteByte('\n')
		t.lines.Next(max(0, t.lines.Len()-tailLimit))
	}
	t.line.Reset()
}

// String returns the last lines within the limit, without a line break at the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	return strings.TrimRight(strings.ToValidUTF8(t.lines.String(), ""), "\n")
}
