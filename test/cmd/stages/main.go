// Command stages runs the checks of the repository. See package stages.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/test/internal/modules"
	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/stages"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	runner := &stages.Runner{Output: os.Stdout}
	root := &cobra.Command{
		Use:   "stages",
		Short: "Run the checks of the repository in the stages that test/stages/stages.yaml lists",
		Long: `Run the checks of the repository in the stages that test/stages/stages.yaml lists.

The records of stages that have failed or passed are in TENSORSTACK_CACHE/stages
(default: ~/.cache/tensorstack-jobs/stages).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			if runner.Root, err = localcluster.FindRepo(""); err != nil {
				return err
			}
			registry, err := modules.Read(runner.Root)
			if err != nil {
				return err
			}
			if runner.List, err = stages.Read(filepath.Join(runner.Root, "test/stages/stages.yaml"), registry); err != nil {
				return err
			}
			paths, err := localcluster.DefaultPaths()
			runner.Records.Folder = filepath.Join(paths.Cache, "stages")
			return err
		},
	}
	root.AddCommand(
		&cobra.Command{
			Use:   "once",
			Short: "Run the stages for a change: those of each run, failed and pending ones, and some in turn",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return runner.Once(cmd.Context()) },
		},
		&cobra.Command{
			Use:   "all [stage...]",
			Short: "Run the named stages, or all stages, except those that have passed on this tree",
			RunE:  func(cmd *cobra.Command, args []string) error { return runner.All(cmd.Context(), args...) },
		},
		&cobra.Command{
			Use:   "due",
			Short: "Print the stages that `stages once` would run, and why",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				due, _, err := runner.Due(cmd.Context())
				for _, d := range due {
					fmt.Println(d.Name, d.Why)
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "pending",
			Short: "Write the pending stages to test/stages/pending.yaml: those that have not passed since their files changed",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return runner.WritePending(cmd.Context()) },
		},
	)
	return root
}
