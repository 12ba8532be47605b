// Command work does the work of the controllers for objects whose lists grow, and counts the operations. It must be built
// with -cover and -covermode=atomic. It writes the counters of each case into a folder, whose name is a number, and
// prints a line with the description of the case.
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
	for _, c := range work.Cases(subjects) {
		if !strings.HasPrefix(c.String(), only) {
			continue
		}
		folder := filepath.Join(out, strconv.Itoa(n))
		n++
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		_ = c.Do(context.Background()) // to find that an object is invalid is work, too
		if err := coverage.WriteCountersDir(folder); err != nil {
			return err
		}
		if err := coverage.WriteMetaDir(folder); err != nil {
			return err
		}
		fmt.Println(c)
	}
	return nil
}
