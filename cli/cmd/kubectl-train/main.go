// Kubectl-train is a kubectl plugin for the people who train.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"tensorstack.dev/jobs/cli/command"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	// The first signal cancels the context. The next one ends the program, unless the command handles it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := command.New(streams).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", command.Message(err))
		os.Exit(command.ExitCode(err))
	}
}
