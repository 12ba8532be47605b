// Command work runs the code of the controllers for objects with short and long lists, and counts the operations. It
// must be built with -cover and -covermode=atomic. For each case, it creates a folder with the coverage counters, and
// prints the description of the case as one line. The folders are named 0, 1, 2 and so on.
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
	// The error is ignored, because rejecting an invalid object is also work.
	_ = c.Do(context.Background())
	if err := coverage.WriteCountersDir(folder); err != nil {
		return err
	}
	return coverage.WriteMetaDir(folder)
}
