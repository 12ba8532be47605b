package why

import "tensorstack.dev/jobs/cli/printable"

// maxText is the maximum number of bytes of a text that an explanation uses. The rest of the text is cut off.
const maxText = 8192

// clean returns a text from the cluster as one line that is safe to print.
func clean(text string) string { return printable.Line(text[:min(len(text), maxText)]) }

// cleanLine returns a line of the output of a program in a form that is safe to print.
func cleanLine(line string) string { return printable.Text(line[:min(len(line), maxText)]) }

// cleaned returns a copy of the explanation whose texts, output and commands are safe to print.
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
