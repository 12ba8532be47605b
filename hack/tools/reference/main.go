// Reference writes the reference pages that are not about API fields. One page lists the flags of the controllers, as
// their --help prints them. The other pages list the phases, conditions, reasons and events of the objects, with the
// comments of the constants.
//
//	reference -output docs/reference CONTROLLER...
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// header is the beginning of each page.
const header = "<!-- Written by `make generate`. -->\n\n"

// api is a package with constants that are listed on a page.
type api struct {
	page, title, folder string
}

var apis = []api{
	{"jobs.md", "Job status", "common/api/batch/v1beta1"},
	{"tensorboard.md", "TensorBoard status", "common/api/tensorboard/v1beta1"},
	{"scheduler.md", "Queue and PodGroup status", "common/api/scheduler/v1beta1"},
}

func main() {
	output := flag.String("output", "docs/reference", "folder of the pages")
	flag.Parse()
	if err := write(*output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func write(output string, controllers []string) error {
	help := map[string]string{}
	for _, controller := range controllers {
		printed, err := helpOf(controller)
		if err != nil {
			return fmt.Errorf("getting the flags of the %s-controller: %w", controller, err)
		}
		help[controller+"-controller"] = printed
	}
	pages := map[string]string{"flags.md": flagsPage(help)}
	for _, a := range apis {
		page, err := constantsPage(a.title, a.folder)
		if err != nil {
			return err
		}
		pages[a.page] = page
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(output, name), []byte(header+page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// helpOf returns the text that a controller prints for --help. It builds the controller with the same flags as the
// image build does, so that both builds share the build cache.
func helpOf(controller string) (string, error) {
	command := exec.Command("go", "run", "-trimpath", "-ldflags", "-s -w",
		fmt.Sprintf("./%[1]s/cmd/%[1]s-controller", controller), "--help")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errors strings.Builder
	command.Stderr = &errors
	printed, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, errors.String())
	}
	return string(printed), nil
}
