package agent

import (
	"bytes"
	"io"
	"time"
)

// barInterval is how often a line that is rewritten is passed on. A host then prints at most six such lines per minute
// and stream.
const barInterval = 10 * time.Second

// bar is a writer that ends a line before it is rewritten again, at most once in the interval. A progress bar rewrites
// its line after each carriage return and ends it when it is full. pdsh prints only lines that have ended, so the bar
// would not be in the log while the training runs.
type bar struct {
	io.Writer
	interval time.Duration
	ended    time.Time // when the writer last ended a line
	// isReturn is whether the last byte was a carriage return, and isRewritten whether another byte than a line feed
	// followed a carriage return in the current line.
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
