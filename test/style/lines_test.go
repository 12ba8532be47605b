package style

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLine is the length of a line of Go, in characters.
const maxLine = 120

// marker begins a comment that controller-gen reads, which must be on one line.
const marker = "// +"

func TestLinesOfGoAreShort(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for file, content := range files(t, "*.go") {
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			if strings.HasPrefix(strings.TrimSpace(line), marker) {
				continue
			}
			if length := utf8.RuneCountInString(strings.TrimRight(line, "\n")); length > maxLine {
				found[file] = append(found[file], fmt.Sprintf("%d: %d characters, and %d are allowed", number, length, maxLine))
			}
		}
	}
	checkNotMore(t, "testdata/longlines.yaml", found)
}
