package style

import (
	"regexp"
	"testing"
)

// wordsForUsers is the largest number of words in the pages that people who train and administrators read.
const wordsForUsers = 20000

var (
	// notProse matches the parts of a Markdown file that are not counted: code blocks and the targets of links.
	notProse = regexp.MustCompile("(?ms)^ *```.*?^ *```|\\]\\([^)]*\\)")
	// word matches a word between spaces.
	word = regexp.MustCompile(`\S*\w\S*`)
)

func TestThePagesForUsersAreShort(t *testing.T) {
	t.Parallel()
	pages := files(t, "README.md", "docs/train/*.md", "docs/operate/*.md", "pytorch/README.md", "tensorflow/README.md",
		"deepspeed/README.md", "tensorboard/README.md", "scheduler/README.md")
	if len(pages) < 30 {
		t.Fatalf("found %d pages, want at least 30", len(pages))
	}
	total := 0
	for _, content := range pages {
		total += len(word.FindAll(notProse.ReplaceAll(content, []byte("]")), -1))
	}
	if total > wordsForUsers {
		t.Errorf("the pages for users have %d words together, want at most %d: shorten a page", total, wordsForUsers)
	}
}
