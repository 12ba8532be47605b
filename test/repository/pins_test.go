package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestImagesAndActionsArePinnedByContent checks that images and GitHub actions are pinned by a digest or a commit. A
// tag is not enough, because its owner can move it to other content.
func TestImagesAndActionsArePinnedByContent(t *testing.T) {
	t.Parallel()
	workflows, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^\s*(?:- )?(?:uses:|image:|"image":|FROM) *(.*)`)
	pinned := regexp.MustCompile(`@(?:[0-9a-f]{40} # v\d+\.\d+\.\d+$|sha256:[0-9a-f]{64}\b)`)
	found := 0
	for _, file := range append(workflows, "../../.devcontainer/devcontainer.json", "../../Dockerfile") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			name := named.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if name == nil || strings.HasPrefix(name[1], "scratch ") || strings.HasPrefix(name[1], "$") {
				continue
			}
			found++
			if !pinned.MatchString(name[1]) {
				t.Errorf("%s: %s is not pinned by a digest, or by a commit with its version as a comment", file, name[1])
			}
		}
	}
	if found < 6 {
		t.Errorf("found %d images and actions, want at least 6", found)
	}
}
