package agent

import (
	"bytes"
	"strings"
	"sync"
)

// tailLimit is how much of what a host printed last is said once more, in bytes: the kubelet keeps 2048 of a
// container's output, and that of other hosts may come after what tells why one failed.
const tailLimit = 1024

// tail keeps the last lines that the ranks of a host print.
type tail struct {
	mu    sync.Mutex
	lines bytes.Buffer // whole ones
	line  bytes.Buffer // the one that is being printed
}

// Write never fails. Both streams of a command may be written at once.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range p {
		if c == '\n' {
			t.endLine()
		} else if t.line.Len() < tailLimit {
			t.line.WriteByte(c)
		}
	}
	return len(p), nil
}

// endLine leaves out what DeepSpeed's launcher on the host says of its own: it speaks of every rank that it ends.
func (t *tail) endLine() {
	if !bytes.Contains(t.line.Bytes(), []byte("[launch.py:")) {
		t.lines.Write(t.line.Bytes())
		t.lines.WriteByte('\n')
		t.lines.Next(max(0, t.lines.Len()-tailLimit))
	}
	t.line.Reset()
}

// String returns the last lines as far as they are within the limit, without a line break at the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	return strings.TrimRight(strings.ToValidUTF8(t.lines.String(), ""), "\n")
}
