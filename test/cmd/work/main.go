// Command work does the work of the controllers for objects whose lists grow, and counts the operations. It must be
// built with -cover and -covermode=atomic. It writes the counters of each case into a folder, whose name is a number,
// and prints a line with the description of the case.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/test/internal/work"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	out := flag.String("out", "", "folder for the counters")
	only := flag.String("only", "", "prefix of the cases to measure")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	if err := run(*root, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root, out, only string) error {
	subjects, err := work.Subjects(root)
	if err != nil {
		return err
	}
	n := 0
	for _, series := range work.AllSeries(subjects) {
		for _, c := range series {
			if !strings.HasPrefix(c.String(), only) {
				continue
			}
			if err := measure(c, filepath.Join(out, strconv.Itoa(n))); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
			fmt.Println(c)
			n++
		}
	}
	return nil
}

// measure writes the counters of a case into a folder.
func measure(c work.Case, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	// Rejecting an invalid object is also work. A list with one item of an example is valid in many places.
	_ = c.Do(context.Background())
	if err := coverage.WriteCountersDir(folder); err != nil {
		return err
	}
	return coverage.WriteMetaDir(folder)
}
