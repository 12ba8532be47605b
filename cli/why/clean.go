package why

import "tensorstack.dev/jobs/cli/printable"

// maxText is the maximum number of bytes of a text that an explanation uses. The rest of the text is cut off.
const maxText = 8192

// clean returns a text from the cluster as one line that is safe to print.
func clean(text string) string { return printable.Line(text[:min(len(text), maxText)]) }

// cleanLine returns a line of the output of a program in a form that is safe to print.
func cleanLine(line string) string { return printable.Text(line[:min(len(line), maxText)]) }
