package repository

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tensorstack.dev/jobs/cli/docs"
)

// link matches a link, [text](target), or the definition of a target. A target can have an anchor.
var link = regexp.MustCompile(`(?m)\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$`)

// TestLinksOfDocumentsAreValid checks that the links of documents lead to files and headings that exist.
func TestLinksOfDocumentsAreValid(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		for _, target := range linksOf(t, document) {
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = path.Base(document)
			}
			file = filepath.Join("../..", path.Dir(document), file)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link to %s leads to no file", document, target)
				continue
			}
			if anchor != "" && !hasHeading(t, file, anchor) {
				t.Errorf("%s: the link to %s leads to no heading", document, target)
			}
		}
	}
}

// linksOf returns the targets of all links of a document, except URLs.
func linksOf(t *testing.T, document string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", document))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, found := range link.FindAllStringSubmatch(string(content), -1) {
		if target := found[1] + found[2]; !strings.Contains(target, "://") {
			targets = append(targets, target)
		}
	}
	return targets
}

// hasHeading reports whether a document has a heading with the anchor.
func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		heading := strings.TrimLeft(line, "#")
		if heading != line && docs.Anchor(heading) == anchor {
			return true
		}
	}
	return false
}
