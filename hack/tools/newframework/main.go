// Newframework writes a framework that runs, for somebody to change: the module, its installation and an example. The
// folder _template has them for a framework called zebra.
//
//	newframework -root FOLDER -name jax -kind JAXTrainingJob
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

//go:embed all:_template
var template embed.FS

const templateFolder = "_template"

// model is the framework whose go.mod and go.sum the new one gets: it needs what every framework needs.
const model = "tensorflow"

func main() {
	f := framework{}
	flag.StringVar(&f.root, "root", ".", "root of the repository")
	flag.StringVar(&f.name, "name", "", "name of the module, the controller and the main container")
	flag.StringVar(&f.kind, "kind", "", "kind of the jobs (default: the name, with TrainingJob)")
	flag.Parse()
	if err := f.write(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// framework is the one to write.
type framework struct {
	root, name, kind string
}

// write writes the files of the framework and adds its module to versions.yaml. It changes no other file. It returns an
// error if there is something of that name already.
func (f framework) write() error {
	if f.kind == "" && f.name != "" {
		f.kind = strings.ToUpper(f.name[:1]) + f.name[1:] + "TrainingJob"
	}
	if err := f.check(); err != nil {
		return err
	}
	files, err := f.files()
	if err != nil {
		return err
	}
	for name, content := range files {
		file := filepath.Join(f.root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return f.register()
}

var (
	names = regexp.MustCompile(`^[a-z][a-z0-9]{0,29}$`)
	kinds = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,59}$`)
)

// check returns an error if the framework cannot have its name or its kind.
func (f framework) check() error {
	reserved, err := reservedNames()
	if err != nil {
		return err
	}
	if !names.MatchString(f.name) || token.IsKeyword(f.name) || reserved[f.name] {
		return fmt.Errorf("NAME is %q: it must be a name for a Go package that Go and the template do not use, "+
			"of at most 30 lower case letters and digits, such as NAME=jax", f.name)
	}
	if !kinds.MatchString(f.kind) {
		return fmt.Errorf("KIND is %q: it must be the kind of an object, such as KIND=JAXTrainingJob", f.kind)
	}
	for _, folder := range []string{f.name, "deploy/" + f.name, "examples/" + f.name} {
		if _, err := os.Stat(filepath.Join(f.root, folder)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is a folder %s already: choose another NAME, or remove it", folder)
		}
	}
	return f.checkCRDs()
}

// checkCRDs returns an error if an object of another controller has a name that kubectl would take for the new kind.
func (f framework) checkCRDs() error {
	files, err := filepath.Glob(filepath.Join(f.root, "*/config/crd/*_*.yaml"))
	if err != nil {
		return err
	}
	kind := strings.ToLower(f.kind)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd struct {
			Spec struct {
				Names struct {
					Plural, Singular string
					ShortNames       []string `json:"shortNames"`
				}
			}
		}
		if err := yaml.Unmarshal(content, &crd); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		taken := slices.Concat(crd.Spec.Names.ShortNames, []string{crd.Spec.Names.Plural, crd.Spec.Names.Singular})
		for _, name := range []string{kind, kind + "s", f.name + "job"} {
			if slices.Contains(taken, name) {
				return fmt.Errorf("%s has the name %s already: choose another NAME or KIND", file, name)
			}
		}
	}
	return nil
}

// reservedNames returns the names that a package of the template cannot have: those of Go itself, and those that its
// files import.
func reservedNames() (map[string]bool, error) {
	reserved := map[string]bool{"init": true, "main": true}
	for _, name := range types.Universe.Names() {
		reserved[name] = true
	}
	err := fs.WalkDir(template, templateFolder, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" {
			return err
		}
		content, err := template.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imported := range file.Imports {
			reserved[path.Base(strings.Trim(imported.Path.Value, `"`))] = true
			if imported.Name != nil {
				reserved[imported.Name.Name] = true
			}
		}
		return nil
	})
	return reserved, err
}

// files returns the files of the framework, by their paths from the root.
func (f framework) files() (map[string][]byte, error) {
	// The longer words first: they contain the shorter ones.
	renamed := strings.NewReplacer(
		"ZebraTrainingJob", f.kind, "zebratrainingjob", strings.ToLower(f.kind), "zebra", f.name,
	)
	files := map[string][]byte{}
	err := fs.WalkDir(template, templateFolder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := template.ReadFile(name)
		if err != nil {
			return err
		}
		content = []byte(renamed.Replace(string(content)))
		if path.Ext(name) == ".go" { // the order of imports and the alignment of columns depend on names
			if content, err = format.Source(content); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		files[renamed.Replace(strings.TrimPrefix(name, templateFolder+"/"))] = content
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(f.root, model, name))
		if err != nil {
			return nil, err
		}
		module := []byte(strings.Replace(string(content), versions.Prefix+model+"\n", versions.Prefix+f.name+"\n", 1))
		files[f.name+"/"+name] = module
	}
	return files, nil
}

// register adds the module to versions.yaml, after the last framework there.
func (f framework) register() error {
	file := filepath.Join(f.root, "versions.yaml")
	modules, err := versions.Read(file)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("  %s: {version: v0.1.0, role: %s, common: %s, kit: %s}\n", f.name, versions.Framework,
		modules.Modules[model].Common, modules.Modules[model].Kit)
	frameworks := modules.Names(versions.Framework)
	last := regexp.MustCompile(`(?m)^  ` + frameworks[len(frameworks)-1] + `: .*\n`)
	at := last.FindIndex(content)
	if at == nil {
		return errors.New("versions.yaml has no framework on a line of its own")
	}
	return os.WriteFile(file, append(content[:at[1]:at[1]], append([]byte(line), content[at[1]:]...)...), 0o644)
}
