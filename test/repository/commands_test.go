package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// runElsewhere is a command of a document, with a file that runs the command. The file has its own copy of the
// command, and does not read the document.
type runElsewhere struct {
	Command string `json:"command"`
	// File is the file that runs the command or a similar one. Text is a part of the file that proves that the file
	// still runs the command.
	File string `json:"file"`
	Text string `json:"text"`
}

// TestCommandsOfDocumentsAreRun checks that a test runs each command that a document shows. The end-to-end tests run
// the commands in console blocks. For the other commands, testdata/commands.yaml lists the files that run them.
func TestCommandsOfDocumentsAreRun(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/commands.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var others []runElsewhere
	if err := yaml.UnmarshalStrict(content, &others); err != nil {
		t.Fatal(err)
	}
	elsewhere := map[string]bool{} // maps each command of others to whether a document shows it
	for _, other := range others {
		if _, twice := elsewhere[other.Command]; twice {
			t.Errorf("testdata/commands.yaml has %q twice", other.Command)
		}
		elsewhere[other.Command] = false
		file, err := os.ReadFile(filepath.Join("../..", other.File))
		if err != nil || other.Text == "" || !strings.Contains(string(file), other.Text) {
			t.Errorf("%q is not run in %s, which has no %q (%v)", other.Command, other.File, other.Text, err)
		}
	}
	followed := followedSections(t)
	for _, document := range documents(t) {
		content, err := os.ReadFile(filepath.Join("../..", document))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commandsOf(string(content)) {
			if c.console && followed[document+" "+c.section] {
				continue
			}
			if _, known := elsewhere[c.text]; !known {
				t.Errorf("%s, section %q: no test runs %q. Show it in a console block of a section that an end-to-end test "+
					"follows, or add the place where it is run to testdata/commands.yaml", document, c.section, c.text)
			}
			elsewhere[c.text] = true
		}
	}
	for command, isShown := range elsewhere {
		if !isShown {
			t.Errorf("testdata/commands.yaml: remove %q: no document shows it, or a test follows its section", command)
		}
	}
}

// documents returns the documents whose commands and links are checked. Generated documents and changelogs are omitted.
func documents(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/[toc]*/*.md", "*/README.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name, err := filepath.Rel("../..", file)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(name))
		}
	}
	if len(names) < 10 {
		t.Fatalf("found only %q, want at least 10 documents", names)
	}
	return names
}

// command is a command in a document.
type command struct {
	section, text string
	// console is true if the command is in a console block, which also shows output.
	console bool
}

// comment matches a comment after a command.
var comment = regexp.MustCompile(`\s+# .*$`)

// commandsOf returns the commands in the code blocks of a document, each on one line.
func commandsOf(document string) []command {
	var commands []command
	section, language, continued := "", "", false
	inBlock := false
	for line := range strings.Lines(document) {
		line = strings.TrimRight(line, "\n")
		text, isPrompted := strings.CutPrefix(line, "$ ")
		switch fence, isFence := strings.CutPrefix(line, "```"); {
		case isFence:
			inBlock, language, continued = !inBlock, fence, false
			continue
		case !inBlock:
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				section = heading
			}
			continue
		case language != "console" && !slices.Contains([]string{"sh", "bash", "shell"}, language):
			continue
		}
		text = strings.TrimSpace(comment.ReplaceAllString(text, ""))
		isConsole := language == "console"
		switch {
		case continued:
			last := &commands[len(commands)-1]
			last.text += " " + strings.TrimSpace(strings.TrimSuffix(text, `\`))
		case text == "" || isConsole && !isPrompted:
			continue
		default:
			commands = append(commands, command{section, strings.TrimSpace(strings.TrimSuffix(text, `\`)), isConsole})
		}
		continued = strings.HasSuffix(text, `\`)
	}
	return commands
}

// followedSections returns the sections whose commands a test runs, each as "document heading". The test passes the
// document and the heading to a function named follow. In a table of Ginkgo, the heading can be an argument of an
// Entry instead.
func followedSections(t *testing.T) map[string]bool {
	t.Helper()
	followed := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		var tables []*ast.CallExpr
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch called(call) {
			case "DescribeTable":
				tables = append(tables, call)
			case "follow", "followAs":
				texts := literals(call)
				if len(texts) == 2 {
					followed[texts[0]+" "+texts[1]] = true
				} else if len(texts) == 1 && len(tables) > 0 { // the innermost table is the last one
					ast.Inspect(tables[len(tables)-1], func(node ast.Node) bool {
						if entry, ok := node.(*ast.CallExpr); ok && called(entry) == "Entry" {
							for _, text := range literals(entry)[1:] {
								followed[texts[0]+" "+text] = true
							}
						}
						return true
					})
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return followed
}

// literals returns the string literals among the arguments of a call.
func literals(call *ast.CallExpr) []string {
	var texts []string
	for _, argument := range call.Args {
		if literal, ok := argument.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
