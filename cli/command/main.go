package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"tensorstack.dev/jobs/cli/printable"
)

// Main runs kubectl train with the arguments of the process, and ends the process.
func Main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // the first signal cancels the context; the next one ends the program, unless the command handles it
		first := <-signals
		signal.Stop(signals)
		cancel(signaled{first})
	}()
	if err := New(streams).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", printable.Text(err.Error()))
		os.Exit(ExitCode(err))
	}
	os.Exit(0)
}

// signaled is the cause of a context that a signal has canceled.
type signaled struct{ signal os.Signal }

func (s signaled) Error() string { return s.signal.String() + " signal received" }

// Is reports whether the target is context.Canceled, so that errors.Is treats a signal as a cancellation.
func (signaled) Is(target error) bool { return target == context.Canceled }

// isByPerson reports whether a person can have sent a signal. SIGTERM comes from a program.
func isByPerson(signal os.Signal) bool { return signal != syscall.SIGTERM }
