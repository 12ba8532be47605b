package why

import (
	"fmt"
	"strings"

	"tensorstack.dev/jobs/cli/printable"
)

// width is the maximum length, in characters, of a line of a paragraph. Commands and output are not wrapped.
const width = 80

// String returns the explanation as text for a terminal: the paragraph in e.Text, the last output of the replica that
// failed, the next commands, and where to read more. The text ends with a newline.
func (e Explanation) String() string {
	var text strings.Builder
	text.WriteString(strings.Join(printable.Wrapped(e.Text, "", "", width), "\n") + "\n")
	if len(e.Output) > 0 {
		text.WriteString("\nIts last output:\n")
		for _, line := range e.Output {
			fmt.Fprintf(&text, "  | %s\n", line)
		}
	}
	text.WriteString("\nNext:\n")
	for _, command := range e.Next {
		fmt.Fprintf(&text, "  # %s\n  %s\n", command.Purpose, command.Line)
	}
	for i, page := range e.See {
		if i == 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "Read more: kubectl train docs %s\n", strings.ReplaceAll(page, "#", " "))
	}
	return text.String()
}
