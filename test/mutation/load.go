package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// pkg is a package of Go with its types.
type pkg struct {
	// name is the name of the package, and dir its absolute directory.
	name, dir string
	fset      *token.FileSet
	info      *types.Info
	own       *types.Package
	// files are the files of the package except tests, in the order of their names.
	files []*source
}

// source is a file of a package.
type source struct {
	path    string
	content []byte
	syntax  *ast.File
}

// loadPackage reads the package in a directory that is relative to the root of a workspace.
func loadPackage(root, dir string) (*pkg, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=Dir,Name,ImportPath,Export,GoFiles", "./"+dir)
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing package %s: %w: %s", dir, err, stderr.String())
	}
	type listed struct {
		Dir, Name, ImportPath, Export string
		GoFiles                       []string
	}
	exports := map[string]string{}
	var last listed // the package itself, which go list prints after its dependencies
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var next listed
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		last = next
		exports[last.ImportPath] = last.Export
	}
	p := &pkg{name: last.Name, dir: last.Dir, fset: token.NewFileSet()}
	for _, name := range last.GoFiles {
		path := filepath.Join(last.Dir, name)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := p.parse(path, content); err != nil {
			return nil, err
		}
	}
	return p, p.check(last.ImportPath, func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

func (p *pkg) parse(path string, content []byte) error {
	syntax, err := parser.ParseFile(p.fset, path, content, parser.ParseComments|parser.SkipObjectResolution)
	p.files = append(p.files, &source{path: path, content: content, syntax: syntax})
	return err
}

// check determines the types of all expressions.
func (p *pkg) check(path string, lookup importer.Lookup) error {
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
	}
	files := make([]*ast.File, 0, len(p.files))
	for _, f := range p.files {
		files = append(files, f.syntax)
	}
	config := types.Config{Importer: importer.ForCompiler(p.fset, "gc", lookup)}
	var err error
	p.own, err = config.Check(path, p.fset, files, p.info)
	return err
}
