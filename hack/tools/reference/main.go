// Reference writes the reference pages. One page lists the flags of the controllers, and another one the commands of
// kubectl train with their flags, as their --help prints them. Other pages list the phases, conditions, reasons and
// events of the objects, with the comments of the constants. The pages about API fields are those that crd-ref-docs has
// written for each controller. The types that all job kinds have get a page of their own.
//
//	reference -api FOLDER -output docs CONTROLLER...
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
	output := flag.String("output", "docs", "folder with the folders of the pages: api and reference")
	fields := flag.String("api", "", "folder with the pages that crd-ref-docs has written")
	flag.Parse()
	err := write(filepath.Join(*output, "reference"), flag.Args())
	if err == nil {
		err = writeAPI(*fields, filepath.Join(*output, "api"), flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// writeAPI reads the page of each controller from a folder, and writes the pages about API fields to another one.
func writeAPI(from, to string, controllers []string) error {
	pages := map[string]string{}
	for _, controller := range controllers {
		content, err := os.ReadFile(filepath.Join(from, controller+".md"))
		if err != nil {
			return err
		}
		pages[controller+".md"] = string(content)
	}
	shareTypes(pages)
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(to, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func write(output string, controllers []string) error {
	help := map[string]string{}
	for _, controller := range controllers {
		printed, err := helpOf(fmt.Sprintf("./%[1]s/cmd/%[1]s-controller", controller))
		if err != nil {
			return fmt.Errorf("getting the flags of the %s-controller: %w", controller, err)
		}
		help[controller+"-controller"] = printed
	}
	train, err := trainPageOf("./cli/cmd/kubectl-train")
	if err != nil {
		return fmt.Errorf("getting the commands of kubectl train: %w", err)
	}
	pages := map[string]string{"flags.md": flagsPage(help), "kubectl-train.md": train}
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

// trainPageOf returns the page of the commands of a client.
func trainPageOf(program string) (string, error) {
	printed, err := helpOf(program)
	if err != nil {
		return "", err
	}
	commands, help := commandsIn(printed), map[string]string{}
	for _, command := range commands {
		if help[command], err = helpOf(program, command); err != nil {
			return "", err
		}
	}
	return trainPage(commands, help)
}

// helpOf returns the text that a program, or a command of it, prints for --help. It builds the program with the same
// flags as the image build does, so that both builds share the build cache.
func helpOf(program string, command ...string) (string, error) {
	args := append([]string{"run", "-trimpath", "-ldflags", "-s -w", program}, command...)
	run := exec.Command("go", append(args, "--help")...)
	// The variable would be shown as the default of a flag of kubectl train.
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "KUBECTL_TRAIN_IMAGE=")
	var errors strings.Builder
	run.Stderr = &errors
	printed, err := run.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, errors.String())
	}
	return string(printed), nil
}
