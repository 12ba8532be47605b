// Command mutation runs mutation tests of the packages in test/mutation/record.yaml. See package mutation.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/mutation"
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
	var record, behind bool
	var files []string
	root := &cobra.Command{
		Use:   "mutation [PACKAGE...]",
		Short: "Put small bugs into packages, one at a time, and print those that no unit test detects",
		Long: `Put small bugs into packages, one at a time, and print those that no unit test detects.

test/mutation/record.yaml lists the packages and the results of the last run. Without arguments, all these packages
are tested.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, packages []string) error {
			return run(cmd.Context(), packages, files, record, behind)
		},
	}
	root.Flags().BoolVar(&record, "record", false,
		"write the results into the record and into docs/contribute/reliability.md")
	root.Flags().StringSliceVar(&files, "files", nil, "files of the packages, such as choose.go (default: all)")
	root.MarkFlagsMutuallyExclusive("record", "files")
	root.Flags().BoolVar(&behind, "conformance", false,
		"run the short conformance tests on the bugs that survive, which takes an hour")
	return root
}

func run(ctx context.Context, packages, files []string, record, behind bool) error {
	root, err := localcluster.FindRepo("")
	if err != nil {
		return err
	}
	file := filepath.Join(root, "test/mutation/record.yaml")
	list, err := mutation.ReadRecord(file)
	if err != nil {
		return err
	}
	runner := &mutation.Runner{Root: root, Output: os.Stdout, Behind: behind, Parallel: runtime.GOMAXPROCS(0)}
	var errs []error
	for i := range list.Packages {
		p := &list.Packages[i]
		if len(packages) > 0 && !slices.Contains(packages, p.Path) {
			continue
		}
		if len(files) > 0 {
			p.Files, p.Mutants, p.Killed = files, 0, 0 // the recorded score is for all files together
		}
		score, err := runner.Run(ctx, *p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Path, err))
		}
		if score.Mutants > 0 {
			p.Score = score
		}
	}
	for _, path := range packages {
		if !slices.ContainsFunc(list.Packages, func(p mutation.Package) bool { return p.Path == path }) {
			errs = append(errs, fmt.Errorf("package %s is not in %s", path, file))
		}
	}
	if !record {
		return errors.Join(errs...)
	}
	return writeRecord(root, file, list)
}

// writeRecord writes the results into the record and into docs/contribute/reliability.md.
func writeRecord(root, file string, list mutation.Record) error {
	if err := list.Write(file); err != nil {
		return err
	}
	document := filepath.Join(root, "docs/contribute/reliability.md")
	content, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	changed, err := list.InDocument(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(changed), 0o644)
}
