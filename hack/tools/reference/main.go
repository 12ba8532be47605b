// Reference writes the reference of what is no field of an API: the flags of the controllers, as they print them, and
// the phases, conditions, reasons and events of their objects, as the comments of the constants have it.
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

// header begins each page.
const header = "<!-- Written by `make generate`. -->\n\n"

// api is a package whose constants get a page.
type api struct {
	page, title, folder string
}

var apis = []api{
	{"jobs.md", "What the status of a job says", "common/api/batch/v1beta1"},
	{"tensorboard.md", "What the status of a TensorBoard says", "common/api/tensorboard/v1beta1"},
	{"scheduler.md", "What the status of a Queue or a PodGroup says", "common/api/scheduler/v1beta1"},
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
			return fmt.Errorf("asking the %s-controller for its flags: %w", controller, err)
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

// helpOf returns what a controller prints of its flags. It is built as for its image, so that this costs the build of
// that nothing.
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
