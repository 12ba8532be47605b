// Registry updates the lists of modules in the files of the repository. The modules are registered in versions.yaml.
//
//	registry -root FOLDER
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// list is the part of a file that lists modules.
type list struct {
	file string
	// pattern matches the list. A list must have an item to match, so an empty list is reported as missing.
	pattern string
	// many is true if the file can contain the list more than once.
	many bool
	// content returns the list for the modules.
	content func(modules versions.File) string
}

// marker is the line before a list. The list ends at the next empty line.
const marker = "# Written by make generate from versions.yaml, up to the next empty line.\n"

// lists are all lists of modules. The Makefile, the scripts and the tests read versions.yaml instead.
var lists = []list{
	{file: "go.work", pattern: `(?m)^use \(\n(?:\t\./\S+\n)+\)$`, content: usedModules},
	{file: "deploy/all/kustomization.yaml", pattern: marker + `(?:.+\n)+`, content: installedControllers},
	{file: "Dockerfile", pattern: marker + `(?:.+\n)+`, content: imageStages},
	{file: ".github/CODEOWNERS", pattern: marker + `(?:.+\n)+`, content: codeOwners},
	{file: "deploy/monitoring/dashboard.json", pattern: scrapedJobs, many: true, content: scrapeSelector},
	{file: "deploy/monitoring/prometheusrule.yaml", pattern: scrapedJobs, many: true, content: scrapeSelector},
	{file: "hack/consumer/schemes.go", pattern: `(?s)^.+$`, content: schemes},
	{file: "cli/jobs/frameworks.go", pattern: `(?s)^.+$`, content: jobKinds},
}

// write updates all lists. It returns an error if a file does not contain its list. It also returns an error if a
// file contains its list more than once, unless the field many of the list is true.
func write(root string) error {
	modules, err := versions.Read(filepath.Join(root, "versions.yaml"))
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range lists {
		file := filepath.Join(root, l.file)
		before, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pattern := regexp.MustCompile(l.pattern)
		if found := len(pattern.FindAllIndex(before, -1)); found == 0 || found > 1 && !l.many {
			errs = append(errs, fmt.Errorf("%s has %d lists of modules, want one such as:\n%s",
				l.file, found, l.content(modules)))
			continue
		}
		after := pattern.ReplaceAllLiteralString(string(before), l.content(modules))
		if after != string(before) {
			errs = append(errs, os.WriteFile(file, []byte(after), 0o644))
		}
	}
	return errors.Join(errs...)
}

// controllersOf returns the modules with a controller.
func controllersOf(modules versions.File) []string {
	return modules.Names(versions.Framework, versions.Controller)
}

// usedModules returns the use block of go.work.
func usedModules(modules versions.File) string {
	names := append(modules.Names(), "test")
	slices.Sort(names)
	return "use (\n\t./" + strings.Join(names, "\n\t./") + "\n)"
}

// installedControllers returns the part of deploy/all/kustomization.yaml that lists the manifests of the controllers.
func installedControllers(modules versions.File) string {
	var resources strings.Builder
	resources.WriteString(marker + "resources:\n")
	for _, name := range controllersOf(modules) {
		if name == "scheduler" { // the manifests for kube-scheduler, because every cluster has this engine
			name += "/native"
		}
		fmt.Fprintf(&resources, "  - ../%s\n", name)
	}
	return resources.String()
}

// imageStages returns the stages of the Dockerfile that set the entrypoint of a controller.
func imageStages(modules versions.File) string {
	var stages strings.Builder
	stages.WriteString(marker)
	for _, name := range controllersOf(modules) {
		fmt.Fprintf(&stages, "FROM scratch AS %[1]s\nENTRYPOINT [\"/%[1]s-controller\"]\n", name)
	}
	return stages.String()
}

// codeOwners returns the lines of CODEOWNERS, one for common, one for each controller and one for each client.
func codeOwners(modules versions.File) string {
	teams := map[string]string{versions.Common: "maintainers"}
	folders := []string{versions.Common}
	width := 0
	for _, name := range modules.Names(versions.Framework, versions.Controller, versions.Client) {
		teams[name] = name
		folders = append(folders, name)
		width = max(width, len(name)+len("//"))
	}
	var owners strings.Builder
	owners.WriteString(marker)
	for _, folder := range folders {
		fmt.Fprintf(&owners, "%-*s @tensorstack/jobs-%s\n", width, "/"+folder+"/", teams[folder])
	}
	return owners.String()
}

// scrapedJobs matches the selector of the Prometheus jobs that scrape the controllers.
const scrapedJobs = `\([a-z0-9|-]+\)-controller-metrics`

// scrapeSelector returns the selector of the Prometheus jobs that scrape the controllers.
func scrapeSelector(modules versions.File) string {
	return "(" + strings.Join(controllersOf(modules), "|") + ")-controller-metrics"
}

// schemes returns the content of hack/consumer/schemes.go, which imports all API packages. A framework has its API
// package in its module. The API packages of the other controllers are in common.
func schemes(modules versions.File) string {
	paths := map[string]string{}
	for _, name := range modules.Names(versions.Framework) {
		paths[name] = versions.Prefix + name + "/api/v1beta1"
	}
	for _, name := range modules.Names(versions.Controller) {
		paths[name] = versions.Prefix + versions.Common + "/api/" + name + "/v1beta1"
	}
	names := controllersOf(modules)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(paths[a], paths[b]) })
	var imports, calls strings.Builder
	for _, name := range names {
		fmt.Fprintf(&imports, "\t%s %q\n", name, paths[name])
		fmt.Fprintf(&calls, "\t%s.AddToScheme,\n", name)
	}
	return fmt.Sprintf(`// Written by make generate.

package main

import (
	"k8s.io/apimachinery/pkg/runtime"

%s)

// schemes are the functions that add the kinds of each API to a scheme.
var schemes = []func(*runtime.Scheme) error{
%s}
`, imports.String(), calls.String())
}

// jobKinds returns the content of cli/jobs/frameworks.go, which lists the kinds of all frameworks. Each framework has
// two imports, named after its module with the suffixes Framework and Config. The names of modules have only lower
// case letters and digits, so the names of the imports are unique.
func jobKinds(modules versions.File) string {
	var imports, kinds strings.Builder
	for _, name := range slices.Sorted(slices.Values(modules.Names(versions.Framework))) {
		path := versions.Prefix + name
		fmt.Fprintf(&imports, "\t%sFramework %q\n\t%sConfig %q\n", name, path, name, path+"/config")
	}
	for _, name := range modules.Names(versions.Framework) {
		fmt.Fprintf(&kinds, "\tkindOf(%[1]sFramework.Controller(), %[1]sConfig.CRD, %[1]sConfig.Controller),\n", name)
	}
	return fmt.Sprintf(`// Written by make generate.

package jobs

import (
%s)

// Kinds are all job kinds.
var Kinds = []*Kind{
%s}
`, imports.String(), kinds.String())
}
