// Command bench measures the controllers. See package bench.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/test/bench"
	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var options bench.Options
	var only string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the controllers and batch/v1 Job on a real API server with simulated nodes",
		Long: `Measure the controllers and batch/v1 Job on a real API server with simulated nodes.

The command prints a line for each figure, and then a table. If all figures were measured, it writes the table into
docs/contribute/performance.md. It fails if a figure that does not depend on the machine, such as the number of writes, does not
meet its bar.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if options.Only, err = regexp.Compile(only); err != nil {
				return fmt.Errorf("--only: %w", err)
			}
			return run(cmd.Context(), options)
		},
	}
	cmd.Flags().BoolVar(&options.Quick, "quick", false,
		"measure with few jobs, and only figures that do not depend on the machine")
	cmd.Flags().StringVar(&only, "only", "",
		"regular expression for the names of the measurements to take (default: all)")
	cmd.Flags().StringVar(&options.Profiles, "profiles", "",
		"folder for profiles of the controller while it runs many jobs (default: no profiles)")
	return cmd
}

func run(ctx context.Context, options bench.Options) error {
	repo, err := localcluster.FindRepo("")
	if err != nil {
		return err
	}
	paths, err := localcluster.DefaultPaths()
	if err != nil {
		return err
	}
	progress := localcluster.NewProgress(os.Stderr)
	builder := &localcluster.Builder{
		Repo: repo, Paths: paths, Kubernetes: localcluster.DefaultKubernetes, Progress: progress,
	}
	programs, err := simulated.Build(ctx, builder, simulated.None, simulated.Native)
	if err != nil {
		return err
	}
	if err := programs.DownloadKueue(ctx, builder); err != nil {
		return err
	}
	ctrllog.SetLogger(logr.Discard()) // the libraries in this process need no log, and each controller has a log file
	dir, err := os.MkdirTemp("", "tensorstack-bench-")
	if err != nil {
		return err
	}
	controllers := filepath.Join(dir, "bin")
	err = progress.Step("build the controllers", func() error {
		build := exec.CommandContext(ctx, "go", "build", "-o", controllers+"/", "./pytorch/cmd/...", "./scheduler/cmd/...")
		build.Dir, build.Stdout, build.Stderr = repo, os.Stderr, os.Stderr
		return build.Run()
	})
	if err != nil {
		return err
	}
	if options.Profiles != "" {
		if err := os.MkdirAll(options.Profiles, 0o755); err != nil {
			return err
		}
	}
	options.Repo, options.Dir, options.Programs, options.Controllers = repo, dir, programs, controllers
	options.Document = filepath.Join(repo, "docs/contribute/performance.md")
	options.Progress, options.Out = progress, os.Stdout
	err = bench.Run(ctx, options)
	if err != nil {
		return fmt.Errorf("%w\nThe logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}
