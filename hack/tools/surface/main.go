// Surface lists what Go packages export: constants, variables, functions, types, and the fields and methods of types.
// A reader of a change sees from the list what other modules can notice.
//
//	surface -output FILE FOLDER[:TYPE,...]...
//
// For a folder with types, only these types and their fields and methods are listed.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	output := flag.String("output", "", "file to write")
	flag.Parse()
	if err := run(*output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(output string, folders []string) error {
	var list strings.Builder
	list.WriteString("# What the public packages export, written by make generate. README.md has their promises.\n")
	for _, folder := range folders {
		path, types, _ := strings.Cut(folder, ":")
		lines, err := surfaceOf(path, types)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "\n%s\n", path)
		for _, line := range lines {
			fmt.Fprintf(&list, "\t%s\n", line)
		}
	}
	return os.WriteFile(output, []byte(list.String()), 0o644)
}

// surfaceOf returns a sorted line for each exported name of the package in a folder. The parameter types has the names
// of the types to which it is limited, separated by commas. If it is empty, there is no limit.
func surfaceOf(folder, types string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no Go files", folder)
	}
	s := surface{set: token.NewFileSet()}
	if types != "" {
		s.types = strings.Split(types, ",")
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(s.set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				s.addFunc(d)
			case *ast.GenDecl:
				s.addDecl(d)
			}
		}
	}
	slices.Sort(s.lines)
	return s.lines, nil
}

// surface has the lines about the names that were added.
type surface struct {
	set *token.FileSet
	// types are the types to list. Nil means all declarations.
	types []string
	lines []string
}

// lists reports whether a type, and its fields and methods, are listed.
func (s *surface) lists(name string) bool {
	return ast.IsExported(name) && (s.types == nil || slices.Contains(s.types, name))
}

func (s *surface) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// text returns the source of a node as one line.
func (s *surface) text(node any) string {
	var b strings.Builder
	if err := printer.Fprint(&b, s.set, node); err != nil {
		panic(err) // a syntax tree of the parser can always be printed
	}
	line := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer("( ", "(", ", )", ")").Replace(line)
}

func (s *surface) addFunc(d *ast.FuncDecl) {
	signature := strings.TrimPrefix(s.text(d.Type), "func")
	switch {
	case !d.Name.IsExported():
	case d.Recv == nil:
		if s.types == nil {
			s.add("func %s%s", d.Name, signature)
		}
	case s.lists(baseName(d.Recv.List[0].Type)):
		s.add("method (%s) %s%s", s.text(d.Recv.List[0].Type), d.Name, signature)
	}
}

func (s *surface) addDecl(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for i, name := range spec.Names {
				if !name.IsExported() || s.types != nil {
					continue
				}
				line := d.Tok.String() + " " + name.Name
				if spec.Type != nil {
					line += " " + s.text(spec.Type)
				}
				if d.Tok == token.CONST && i < len(spec.Values) {
					line += " = " + s.text(spec.Values[i])
				}
				s.add("%s", line)
			}
		case *ast.TypeSpec:
			if s.lists(spec.Name.Name) {
				s.addType(spec)
			}
		}
	}
}

func (s *surface) addType(spec *ast.TypeSpec) {
	name := spec.Name.Name
	parameters := ""
	if spec.TypeParams != nil {
		parameters = strings.TrimPrefix(s.text(&ast.FuncType{TypeParams: spec.TypeParams, Params: &ast.FieldList{}}), "func")
		parameters = strings.TrimSuffix(parameters, "()")
	}
	switch underlying := spec.Type.(type) {
	case *ast.StructType:
		s.add("type %s%s struct", name, parameters)
		s.addMembers("field", name, underlying.Fields)
	case *ast.InterfaceType:
		s.add("type %s%s interface", name, parameters)
		s.addMembers("method of", name, underlying.Methods)
	default:
		equals := ""
		if spec.Assign.IsValid() {
			equals = "= "
		}
		s.add("type %s%s %s%s", name, parameters, equals, s.text(spec.Type))
	}
}

// addMembers adds the exported fields of a struct, or the methods of an interface. An embedded type has no name.
func (s *surface) addMembers(what, of string, members *ast.FieldList) {
	for _, m := range members.List {
		if len(m.Names) == 0 {
			s.add("%s %s: %s", what, of, s.text(m.Type))
		}
		for _, name := range m.Names {
			if name.IsExported() {
				tag := ""
				if m.Tag != nil {
					tag = " " + m.Tag.Value
				}
				s.add("%s %s.%s %s%s", what, of, name, s.text(m.Type), tag)
			}
		}
	}
}

// baseName returns the name of the type of a receiver.
func baseName(receiver ast.Expr) string {
	switch x := receiver.(type) {
	case *ast.StarExpr:
		return baseName(x.X)
	case *ast.IndexExpr:
		return baseName(x.X)
	case *ast.IndexListExpr:
		return baseName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
