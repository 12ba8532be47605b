// Licenses writes the texts of the licenses and notices of everything that is linked into a program: the modules and
// the standard library of Go. It fails if it knows no license of a package, or if a license demands more than its own
// text. The same input gives the same bytes.
//
//	go list -deps -json=Dir,ImportPath,Module ./cmd/PROGRAM | licenses -goroot DIR -output FILE
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-licenses/v2/licenses"
)

func main() {
	goroot := flag.String("goroot", "", "folder of Go, as the program is built with it")
	output := flag.String("output", "", "file to write")
	flag.Parse()
	if err := run(os.Stdin, *goroot, *output); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// own is the prefix of the modules of this repository. The license of the repository applies to them.
const own = "tensorstack.dev/jobs/"

// allowed lists the types of licenses, as go-licenses defines them, that demand at most that a program shows their
// texts. Other types also demand, for example, an offer of the source code.
var allowed = []licenses.Type{licenses.Notice, licenses.Permissive, licenses.Unencumbered}

// linkedPackage is a package as `go list -json` prints it.
type linkedPackage struct {
	Dir, ImportPath string
	// Module is nil in a package of the standard library.
	Module *struct{ Path, Version, Dir string }
}

// text is the content of one or more files of licenses and notices.
type text struct {
	content string
	// names are the licenses in the content, as SPDX identifiers. A notice has none.
	names []string
	// files are the files that have the content, each as MODULE VERSION FILE.
	files []string
}

func run(packages io.Reader, goroot, output string) error {
	classifier, err := licenses.NewClassifier()
	if err != nil {
		return err
	}
	c := collection{classifier: classifier, texts: map[string]*text{}, read: map[string][]string{}}
	if _, err := c.addFile("Go", goroot, filepath.Join(goroot, "LICENSE")); err != nil {
		return err
	}
	for decoder := json.NewDecoder(packages); ; {
		var p linkedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading the packages: %w", err)
		}
		if err := c.add(p); err != nil {
			return err
		}
	}
	return os.WriteFile(output, []byte(c.String()), 0o644)
}

// collection has the texts of the packages that were added.
type collection struct {
	classifier licenses.Classifier
	// texts maps the content of each text to the text.
	texts map[string]*text
	// read maps the path of each file that was read to the names of the licenses in the file.
	read map[string][]string
}

// add adds the license and notice files of a package: those in its folder and in the folders above, up to the root of
// its module. It skips packages of the standard library and of this repository.
func (c *collection) add(p linkedPackage) error {
	if p.Module == nil || strings.HasPrefix(p.Module.Path, own) {
		return nil
	}
	files, err := licenses.FindCandidates(p.Dir, p.Module.Dir)
	if err != nil {
		return err
	}
	licensed := false
	for _, file := range files {
		if hasPrefix(file, "README") || filepath.Ext(file) == ".go" {
			continue
		}
		names, err := c.addFile(p.Module.Path+" "+p.Module.Version, p.Module.Dir, file)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		licensed = licensed || len(names) > 0
	}
	if !licensed {
		return fmt.Errorf("%s: no known license is in its folder %s or above it", p.ImportPath, p.Dir)
	}
	return nil
}

// hasPrefix reports whether the base name of a file begins with a prefix, after a conversion of the name to upper
// case.
func hasPrefix(file, prefix string) bool {
	return strings.HasPrefix(strings.ToUpper(filepath.Base(file)), prefix)
}

// addFile adds a license or notice file of a module and returns the names of the licenses in the file. A file that
// was added before is not added again.
func (c *collection) addFile(module, root, file string) (names []string, err error) {
	if names, known := c.read[file]; known {
		return names, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found, err := c.classifier.Identify(file)
	if err != nil {
		return nil, err
	}
	for _, license := range found {
		if !slices.Contains(allowed, license.Type) {
			return nil, fmt.Errorf("%s has the license %s, which is of the type %q: only the types %q are allowed",
				file, license.Name, license.Type, allowed)
		}
		names = append(names, license.Name)
	}
	if len(names) == 0 && !hasPrefix(file, "NOTICE") {
		return nil, fmt.Errorf("%s is no license that go-licenses knows", file)
	}
	slices.Sort(names)
	c.read[file] = names
	key := strings.TrimSpace(string(content))
	if c.texts[key] == nil {
		c.texts[key] = &text{content: key, names: names}
	}
	relative, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	c.texts[key].files = append(c.texts[key].files, module+" "+filepath.ToSlash(relative))
	return names, nil
}

// String returns all texts. Above each text, it lists the files that contain the text.
func (c *collection) String() string {
	var texts []*text
	for _, t := range c.texts {
		slices.Sort(t.files)
		texts = append(texts, t)
	}
	slices.SortFunc(texts, func(a, b *text) int { return strings.Compare(a.files[0], b.files[0]) })
	var b strings.Builder
	b.WriteString("This program contains the following software of others, under the licenses below.\n")
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("=", 80))
		for _, file := range t.files {
			fmt.Fprintln(&b, file)
		}
		if len(t.names) > 0 {
			fmt.Fprintln(&b, "License:", strings.Join(t.names, ", "))
		}
		fmt.Fprintf(&b, "%s\n\n%s\n", strings.Repeat("-", 80), t.content)
	}
	return b.String()
}
