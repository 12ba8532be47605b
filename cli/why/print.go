package why

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// width is the maximum length, in characters, of a line of a paragraph. Commands and output are not wrapped.
const width = 80

// String returns the explanation as text for a terminal: the paragraph in e.Text, the last output of the replica that
// failed, the next commands, and where to read more. The text ends with a newline.
func (e Explanation) String() string {
	var text strings.Builder
	text.WriteString(wrapped(e.Text))
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
	if len(e.See) > 0 {
		fmt.Fprintf(&text, "\nRead more: %s\n", strings.Join(e.See, ", "))
	}
	return text.String()
}

// wrapped breaks a paragraph into lines.
func wrapped(paragraph string) string {
	var text strings.Builder
	column := 0
	for word := range strings.FieldsSeq(paragraph) {
		length := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+length > width:
			text.WriteByte('\n')
			column = 0
		default:
			text.WriteByte(' ')
			column++
		}
		text.WriteString(word)
		column += length
	}
	text.WriteByte('\n')
	return text.String()
}
