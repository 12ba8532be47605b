package agent

import (
	"bytes"
	"io"
	"time"
)

// barInterval is the minimum time between two line feeds that a bar inserts. So a bar adds at most six lines per
// minute to each output stream of a host.
const barInterval = 10 * time.Second

// bar is a writer for output that can have progress bars. A progress bar rewrites its line after each carriage
// return, and ends the line only when the bar is full. pdsh prints only lines that have ended, so the log would not
// show the bar while the training runs. So the writer inserts a line feed before the bar is rewritten, at most once
// per interval.
type bar struct {
	io.Writer
	interval time.Duration
	ended    time.Time // when the writer last ended a line
	// isReturn is whether the last byte was a carriage return. isRewritten is whether a byte of text followed a carriage
	// return in the current line.
	isReturn, isRewritten bool
}

// Write writes all bytes, and sometimes a line feed before a carriage return.
func (b *bar) Write(p []byte) (int, error) {
	var shown bytes.Buffer
	for _, c := range p {
		switch {
		case c == '\n':
			b.isRewritten = false
		case b.isReturn && c != '\r':
			b.isRewritten = true
		}
		if b.isReturn = c == '\r'; b.isReturn && b.isRewritten && time.Since(b.ended) >= b.interval {
			shown.WriteByte('\n')
			b.ended, b.isRewritten = time.Now(), false
		}
		shown.WriteByte(c)
	}
	_, err := b.Writer.Write(shown.Bytes())
	return len(p), err
}
