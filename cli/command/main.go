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
	// The first signal cancels the context. The next one ends the program, unless the command handles it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := New(streams).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", printable.Text(err.Error()))
		os.Exit(ExitCode(err))
	}
	os.Exit(0)
}
