package command

import (
	"fmt"
	"io"
	"os"
	"sync"

	"charm.land/bubbles/v2/progress"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"tensorstack.dev/jobs/cli/printable"
)

// console prints the log of a training to out, and messages to errOut. If errOut is a terminal, a status line stays
// below everything else.
type console struct {
	out, errOut io.Writer
	// clean reports whether out is a terminal. If so, logs are made printable, so that they cannot control the terminal.
	clean bool
	// terminal is the terminal of errOut, or nil.
	terminal *os.File

	mu     sync.Mutex
	status string
}

// newConsole returns a console.
func newConsole(out, errOut io.Writer) *console {
	return &console{out: out, errOut: errOut, clean: ttyOf(out) != nil, terminal: ttyOf(errOut)}
}

// ttyOf returns the terminal that a stream belongs to, or nil.
func ttyOf(stream any) *os.File {
	if file, ok := stream.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// log prints a line of the log of a training. The parameter line has no line break.
func (s *console) log(line string) {
	if s.clean {
		line = printable.Text(line)
	}
	s.above(func() { fmt.Fprintln(s.out, line) })
}

// message prints a message. In a terminal, the message is made printable, since a part of it can come from the
// cluster.
func (s *console) message(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.terminal != nil {
		text = printable.Text(text)
	}
	s.above(func() { fmt.Fprintln(s.errOut, text) })
}

// above calls the function write, and keeps the status line below the text that this function prints.
func (s *console) above(write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	write()
	s.draw()
}

// setStatus replaces the status line. An empty text removes it. Without a terminal, setStatus does nothing.
func (s *console) setStatus(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal == nil || text == s.status {
		return
	}
	s.erase()
	s.status = text
	s.draw()
}

// hold removes the status line. It also blocks all methods of the console that print, until the caller calls the
// function release.
func (s *console) hold() (release func()) {
	s.setStatus("")
	s.mu.Lock()
	return s.mu.Unlock
}

const eraseLine = "\r\x1b[K"

func (s *console) erase() {
	if s.status != "" {
		fmt.Fprint(s.errOut, eraseLine)
	}
}

func (s *console) draw() {
	if s.status != "" {
		_, _ = lipgloss.Fprint(s.errOut, ansi.Truncate(s.status, s.statusWidth(), "…")) // omits unsupported colors
	}
}

// statusWidth returns the maximum number of columns of the status line. The columns after it are for the ^C that the
// terminal prints after Ctrl-C.
func (s *console) statusWidth() int { return s.width() - 4 }

// width returns the number of columns of the terminal, or 80 if the number is not known.
func (s *console) width() int {
	if s.terminal != nil {
		if width, _, err := term.GetSize(int(s.terminal.Fd())); err == nil && width > 4 {
			return width
		}
	}
	return 80
}

// bar returns a progress bar for the status line.
func (s *console) bar(fraction float64) string {
	width := min(40, s.width()/3)
	bar := progress.New(
		progress.WithWidth(width), progress.WithoutPercentage(), progress.WithFillCharacters('█', '░'))
	return bar.ViewAs(max(0, min(1, fraction)))
}
