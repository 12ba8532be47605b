package style

import (
	"encoding/json"
	"fmt"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withComments are the patterns of files whose comments begin with #.
var withComments = []string{"*.yaml", "*.sh", "*.py", "*.tpl", "*Makefile", "*Dockerfile", "*.ini", ".ci/run"}

// TestProseIsPlain checks all documents, comments, and strings of Go with Vale. The strings are messages, usages of
// flags, and names of tests. The rules are in hack/prose/styles.
func TestProseIsPlain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(file, text string) {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, content := range files(t, "*.md") {
		write(file, string(content))
	}
	for file, content := range files(t, "*.go") {
		write(file+".txt", proseOfGo(content))
	}
	for file, content := range files(t, withComments...) {
		write(file+".txt", comments(string(content)))
	}
	checkNone(t, alerts(t, folder))
}

// alerts runs Vale on a folder. It maps the path of each file, as it is in the repository, to the findings in that
// file.
func alerts(t *testing.T, folder string) map[string][]string {
	t.Helper()
	vale, err := filepath.Abs(filepath.Join(root, "bin/vale"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Abs(filepath.Join(root, ".vale.ini"))
	if err != nil {
		t.Fatal(err)
	}
	linter := exec.CommandContext(t.Context(), vale, "--config", config, "--no-exit", "--output=JSON", ".")
	linter.Dir = folder
	output, err := linter.Output()
	if err != nil {
		t.Fatalf("%v: make lint builds the linter: %s", err, output)
	}
	var found map[string][]struct {
		Line    int
		Message string
	}
	if err := json.Unmarshal(output, &found); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	byFile := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		file := strings.TrimSuffix(path, ".txt")
		for _, alert := range found[path] {
			byFile[file] = append(byFile[file], fmt.Sprintf("%d: %s", alert.Line, alert.Message))
		}
	}
	return byFile
}

// proseOfGo returns the comments and strings of Go source, each on the line where it is in the source. Comments that
// only tools read, such as //go:embed, are left out.
func proseOfGo(source []byte) string {
	lines := make([]string, 1+strings.Count(string(source), "\n"))
	for _, found := range tokens(source, token.COMMENT, token.STRING) {
		if strings.HasPrefix(found.text, marker) || ofTool.MatchString(found.text) {
			continue
		}
		for i, line := range strings.Split(found.text, "\n") {
			lines[found.line-1+i] += strings.Trim(line, "/\t `\"") + " "
		}
	}
	return strings.Join(lines, "\n")
}

// ofTool matches a comment that a tool reads.
var ofTool = regexp.MustCompile(`^//(go:|nolint:\S+$)`)

// comment matches a comment from its # to the end of the line.
var comment = regexp.MustCompile(`(?:^|\s)#+!?\s(.*)$`)

// comments returns the comments that begin with #, each on the line where it is in the content.
func comments(content string) string {
	lines := strings.Split(content, "\n")
	for i, line := range lines {
		text := ""
		if match := comment.FindStringSubmatch(line); match != nil {
			text = match[1]
		}
		lines[i] = text
	}
	return strings.Join(lines, "\n")
}

func TestProseOfGoIsOnItsLines(t *testing.T) {
	t.Parallel()
	const source = `package p

// A comment.
//go:embed file
var a = "a message" // of a test

// +marker
var b = 1
`
	want := "\n\nA comment. \n\na message of a test \n\n\n\n"
	if diff := cmp.Diff(want, proseOfGo([]byte(source))); diff != "" {
		t.Errorf("the prose is not what was expected (-want +got):\n%s", diff)
	}
}

func TestCommentsAreOnTheirLines(t *testing.T) {
	t.Parallel()
	got := comments("# One.\nkey: value # Two.\nurl: http://host/#part\n#!/bin/sh\n")
	if diff := cmp.Diff("One.\nTwo.\n\n\n", got); diff != "" {
		t.Errorf("the comments are not what was expected (-want +got):\n%s", diff)
	}
}
