// Licenses writes the license and notice files of everything that is linked into a program: its modules and Go. It
// fails if it does not know the license of a package, if a license demands more than that its text is shown, or if a
// package embeds files that nobody has looked at. It does not read the comments of source files, and does not notice
// terms that somebody has added to the text of a known license. The same input gives the same bytes.
//
//	go list -deps -json=Dir,EmbedFiles,ImportPath,Module ./cmd/PROGRAM | licenses -goroot DIR -output FILE
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// embedded has the packages of others that may embed files. A person has looked at these files. The text, if there is
// one, is what must be shown besides the license of the package.
var embedded = map[string]string{
	"github.com/google/cel-go/cel":                        "",
	"google.golang.org/protobuf/internal/editiondefaults": "",
	"sigs.k8s.io/kustomize/kyaml/openapi":                 "",
	"golang.org/x/net/publicsuffix": "The Public Suffix List is available under the Mozilla Public License 2.0 " +
		"(https://mozilla.org/MPL/2.0/).\nIts source is at https://publicsuffix.org/list/.",
}

// noticeFile matches names of files that are shown besides those that go-licenses finds.
var noticeFile = regexp.MustCompile(`(?i)^(AUTHORS|COPYRIGHT|CREDITS|NOTICE|PATENTS)(\.|$)`)

// linkedPackage is a package as `go list -json` prints it.
type linkedPackage struct {
	Dir, ImportPath string
	EmbedFiles      []string
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
	module := p.Module.Path + " " + p.Module.Version
	if len(p.EmbedFiles) > 0 {
		note, known := embedded[p.ImportPath]
		if !known {
			return fmt.Errorf("%s embeds %d files, such as %s: find out under which license they are, and add the package "+
				"to the map embedded in hack/licenses", p.ImportPath, len(p.EmbedFiles), p.EmbedFiles[0])
		}
		if note != "" {
			c.texts[note] = &text{content: note, files: []string{module + " " + strings.Join(p.EmbedFiles, " ")}}
		}
	}
	files, err := filesFor(p)
	if err != nil {
		return err
	}
	licensed := false
	for _, file := range files {
		names, err := c.addFile(module, p.Module.Dir, file)
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

// filesFor returns the license and notice files that apply to a package.
func filesFor(p linkedPackage) ([]string, error) {
	files, err := licenses.FindCandidates(p.Dir, p.Module.Dir)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		name := strings.ToUpper(filepath.Base(file))
		return filepath.Ext(name) == ".GO" || strings.HasPrefix(name, "README") || noticeFile.MatchString(name)
	})
	for dir := p.Dir; strings.HasPrefix(dir, p.Module.Dir); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && noticeFile.MatchString(entry.Name()) {
				files = append(files, filepath.Join(dir, entry.Name()))
			}
		}
	}
	return files, nil
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
	if len(names) == 0 && !noticeFile.MatchString(filepath.Base(file)) {
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
