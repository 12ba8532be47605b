// Newframework creates a framework that works, as a starting point: the module, its installation and an example. The
// folder _template contains these files for a framework with the name zebra.
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

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

//go:embed all:_template
var template embed.FS

const templateFolder = "_template"

// model is the framework whose go.mod and go.sum are copied, because every framework has the same requirements.
const model = "tensorflow"

func main() {
	f := framework{}
	flag.StringVar(&f.root, "root", ".", "root of the repository")
	flag.StringVar(&f.name, "name", "", "name of the module, the controller and the main container")
	flag.StringVar(&f.kind, "kind", "", "kind of the jobs (default: the name with the suffix TrainingJob)")
	flag.Parse()
	if err := f.write(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// framework is the framework to create.
type framework struct {
	root, name, kind string
}

// write writes the files of the framework, and adds its module to versions.yaml, go.work and the go.mod of each
// client. It does not change other files. It returns an error if the name or the kind is invalid or already in use.
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

// check returns an error if the name or the kind of the framework is invalid or in use.
func (f framework) check() error {
	reserved, err := reservedNames()
	if err != nil {
		return err
	}
	if !names.MatchString(f.name) || token.IsKeyword(f.name) || reserved[f.name] {
		return fmt.Errorf("NAME is %q: it must be the name of a Go package that neither Go nor the template uses, "+
			"with at most 30 lower case letters and digits, such as NAME=jax", f.name)
	}
	if !kinds.MatchString(f.kind) {
		return fmt.Errorf("KIND is %q: it must be a valid kind of at most 60 characters, such as KIND=JAXTrainingJob", f.kind)
	}
	for _, folder := range []string{f.name, "deploy/" + f.name, "examples/" + f.name} {
		if _, err := os.Stat(filepath.Join(f.root, folder)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the folder %s already exists: choose another NAME, or remove the folder", folder)
		}
	}
	return f.checkCRDs()
}

// checkCRDs returns an error if the CRD of another controller uses a name that kubectl accepts for the new kind.
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
		for _, name := range []string{kind, kind + "s", f.name + "job", f.name} {
			if slices.Contains(taken, name) {
				return fmt.Errorf("%s already uses the name %s: choose another NAME or KIND", file, name)
			}
		}
	}
	return nil
}

// reservedNames returns the names that the package of a framework cannot have: names that have a meaning in Go, and
// names of packages that the template imports.
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

// files maps the path of each file of the framework, relative to the root, to the content of the file.
func (f framework) files() (map[string][]byte, error) {
	// The longer words come before the words that they contain, because the first word that matches is replaced.
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
		if path.Ext(name) == ".go" { // format again: the names change the order of imports and the alignment of columns
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

// register adds the module to versions.yaml, after the last framework, and to the requirements of all clients. In
// go.work, it replaces the unpublished version of the module with the folder of the module.
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
	var line strings.Builder
	fmt.Fprintf(&line, "  %s: {version: %s, role: %s", f.name, version, versions.Framework)
	for _, required := range modules.RequiredBy(model) {
		fmt.Fprintf(&line, ", %s: %s", required, modules.Modules[model].Requires[required])
	}
	line.WriteString("}\n")
	frameworks := modules.Names(versions.Framework)
	content, err = edited(content, frameworks[len(frameworks)-1], func(last string) string { return last + line.String() })
	if err != nil {
		return err
	}
	for _, client := range modules.Names(versions.Client) {
		content, err = edited(content, client, func(line string) string {
			return strings.TrimRight(line, "}\n") + ", " + f.name + ": " + version + "}\n"
		})
		if err == nil {
			err = f.requiredBy(client)
		}
		if err != nil {
			return err
		}
	}
	if err := f.replace(); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// version is the version of a new module.
const version = "v0.1.0"

// edited returns the content of versions.yaml after it has replaced the line of a module with the result of edit for
// this line.
func edited(content []byte, module string, edit func(line string) string) ([]byte, error) {
	pattern := regexp.MustCompile(`(?m)^  ` + module + `: \{.*\}\n`)
	if !pattern.Match(content) {
		return nil, fmt.Errorf("versions.yaml has no separate line for the module %s", module)
	}
	return pattern.ReplaceAllFunc(content, func(line []byte) []byte { return []byte(edit(string(line))) }), nil
}

// requiredBy adds the module to the requirements in the go.mod of another module.
func (f framework) requiredBy(name string) error {
	file := filepath.Join(f.root, name, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(file, content, nil)
	if err != nil {
		return err
	}
	required := modfile.Require{Mod: module.Version{Path: versions.Prefix + f.name, Version: version}}
	mod.SetRequireSeparateIndirect(append(mod.Require, &required))
	mod.SortBlocks()
	return os.WriteFile(file, modfile.Format(mod.Syntax), 0o644)
}

// replace adds a line to go.work that replaces the module with its folder.
func (f framework) replace() error {
	file := filepath.Join(f.root, "go.work")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(file, content, nil)
	if err != nil {
		return err
	}
	line := []string{versions.Prefix + f.name, version, "=>", "./" + f.name}
	at := slices.IndexFunc(work.Syntax.Stmt, func(s modfile.Expr) bool {
		block, ok := s.(*modfile.LineBlock)
		return ok && block.Token[0] == "replace"
	})
	if at < 0 {
		return fmt.Errorf("%s has no block of replacements", file)
	}
	block := work.Syntax.Stmt[at].(*modfile.LineBlock) //nolint:forcetypeassert // IndexFunc found a block
	block.Line = append(block.Line, &modfile.Line{Token: line, InBlock: true})
	work.SortBlocks()
	return os.WriteFile(file, modfile.Format(work.Syntax), 0o644)
}
