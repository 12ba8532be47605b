package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
)

// terminal has the file descriptors of the terminal that a command reads from and writes to.
type terminal struct{ in, out int }

// terminalOf returns the terminal of the streams, or nil if one of them is no terminal.
func terminalOf(in io.Reader, out io.Writer) *terminal {
	input, output := ttyOf(in), ttyOf(out)
	if input == nil || output == nil {
		return nil
	}
	return &terminal{in: int(input.Fd()), out: int(output.Fd())}
}

// raw puts the terminal into raw mode while it calls the function act. In raw mode, the terminal passes every key,
// such as Ctrl-C, to the command.
func (t *terminal) raw(act func() error) error {
	before, err := term.MakeRaw(t.in)
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(t.in, before) }()
	return act()
}

// sizes are the sizes of a terminal: the current one, and a new one after each change.
type sizes struct {
	terminal *terminal
	changes  chan os.Signal
	ctx      context.Context //nolint:containedctx // the interface of client-go has no context
}

// sizes returns the sizes of the terminal until the context ends.
func (t *terminal) sizes(ctx context.Context) *sizes {
	s := &sizes{terminal: t, changes: make(chan os.Signal, 1), ctx: ctx}
	s.changes <- syscall.SIGWINCH
	signal.Notify(s.changes, syscall.SIGWINCH)
	return s
}

// Next implements remotecommand.TerminalSizeQueue.
func (s *sizes) Next() *remotecommand.TerminalSize {
	select {
	case <-s.ctx.Done():
		signal.Stop(s.changes)
		return nil
	case <-s.changes:
	}
	width, height, err := term.GetSize(s.terminal.out)
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)} //nolint:gosec // a terminal is small
}
