package repository

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a link to a file of the repository, with the heading that it leads to, if any: [text](target), or the
// definition of a target.
var link = regexp.MustCompile(`(?m)\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$`)

// A link leads to a file that is there, and to a heading that is in it.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		for _, target := range linksOf(t, document) {
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = path.Base(document)
			}
			file = filepath.Join("../..", path.Dir(document), file)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", document, target)
				continue
			}
			if anchor != "" && !hasHeading(t, file, anchor) {
				t.Errorf("%s: the link to %s leads to no heading", document, target)
			}
		}
	}
}

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

// hasHeading says whether a document has a heading of which the anchor is made, as GitHub does: in lower case, with
// hyphens for spaces and without other signs.
func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		heading := strings.TrimLeft(line, "#")
		if heading == line {
			continue
		}
		made := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		if strings.ReplaceAll(made, " ", "-") == anchor {
			return true
		}
	}
	return false
}
