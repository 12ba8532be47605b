package repository

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// maxLine is the length of a line of Go, in characters, as docs/style.md has it.
const maxLine = 120

// longLines is the file with the number of longer lines that each file had when the limit was set.
const longLines = "testdata/longlines.yaml"

// New lines of Go have at most 120 characters. Older lines are longer: their number in each file may only fall.
func TestNewLinesAreShort(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, file := range listFiles(t, "*.go") {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte("// Code generated ")) {
			continue
		}
		for line := range strings.Lines(string(content)) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > maxLine {
				found[file]++
			}
		}
	}
	content, err := os.ReadFile(longLines)
	if err != nil {
		t.Fatal(err)
	}
	var allowed map[string]int
	if err := yaml.UnmarshalStrict(content, &allowed); err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if found[file] > allowed[file] {
			t.Errorf("%s has %d lines of more than %d characters, but at most %d are allowed: break the new ones",
				file, found[file], maxLine, allowed[file])
		}
	}
	for _, file := range slices.Sorted(maps.Keys(allowed)) {
		if found[file] < allowed[file] {
			t.Errorf("%s has only %d long lines left: write so in test/repository/%s", file, found[file], longLines)
		}
	}
	if t.Failed() {
		var now strings.Builder
		for _, file := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&now, "%s: %d\n", file, found[file])
		}
		t.Logf("The file for the tree as it is:\n%s", now.String())
	}
}
