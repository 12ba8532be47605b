package localcluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress prints lines with the time since the start.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

// NewProgress returns a Progress that starts now.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, start: time.Now()}
}

// Printf prints one line.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// Step runs a step and returns its error. It prints a line when the step begins, every 30 seconds while the step
// runs, and when the step ends. The last line has the duration of the step.
func (p *Progress) Step(name string, run func() error) error {
	p.Printf("%s ...", name)
	began := time.Now()
	stillRunning := time.NewTicker(30 * time.Second)
	defer stillRunning.Stop()
	done := make(chan error, 1)
	go func() { done <- run() }()
	var err error
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-stillRunning.C:
			p.Printf("%s: still running after %.0fs", name, time.Since(began).Seconds())
		}
	}
	if err != nil {
		p.Printf("%s: FAILED after %.1fs", name, time.Since(began).Seconds())
		return fmt.Errorf("%s: %w", name, err)
	}
	p.Printf("%s: done in %.1fs", name, time.Since(began).Seconds())
	return nil
}
