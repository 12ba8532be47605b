package why

import "tensorstack.dev/jobs/cli/printable"

// maxText is how many bytes of a text are read. The explanation shows less.
const maxText = 8192

// clean returns a text that others wrote as one line that can be printed.
func clean(text string) string { return printable.Line(text[:min(len(text), maxText)]) }

// cleanLine returns a line of the output of a program as it can be printed.
func cleanLine(line string) string { return printable.Text(line[:min(len(line), maxText)]) }

// cleaned returns the explanation with all texts cleaned.
func (e Explanation) cleaned() Explanation {
	e.Text = clean(e.Text)
	e.Reason = clean(e.Reason)
	for i := range e.Output {
		e.Output[i] = printable.Shortened(cleanLine(e.Output[i]), maxLine)
	}
	for i := range e.Next {
		e.Next[i] = Command{Purpose: clean(e.Next[i].Purpose), Line: clean(e.Next[i].Line)}
	}
	for i, f := range e.Findings {
		f.Reason, f.Text, f.Object = clean(f.Reason), clean(f.Text), clean(f.Object)
		for j := range f.Next {
			f.Next[j] = Command{Purpose: clean(f.Next[j].Purpose), Line: clean(f.Next[j].Line)}
		}
		e.Findings[i] = f
	}
	return e
}
