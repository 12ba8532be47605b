package screen

import (
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"tensorstack.dev/jobs/cli/printable"
)

// outputLines returns the lines of a program's output, without blank lines.
func outputLines(output string) []string {
	return slices.DeleteFunc(printable.Lines(output), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// width returns how many columns a styled text takes.
func width(text string) int {
	if isASCII(text) {
		return len(text)
	}
	return ansi.StringWidth(text)
}

// isASCII reports whether each byte of a text is a printable ASCII character. Each such character takes one column,
// so the width of most texts is the number of their bytes. This makes a table of hundreds of rows much faster.
func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// fit cuts a styled text to a number of columns.
func fit(text string, columns int) string {
	if len(text) <= columns && isASCII(text) {
		return text
	}
	return ansi.Truncate(text, max(columns, 0), "…")
}

// pad fills a styled text with spaces to a number of columns.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-width(text), 0))
}

// spread returns a line with a text at each end. If the two texts do not fit into the line, it cuts the left text. If
// this would leave too few columns for the left text, it omits the right text.
func spread(left, right string, columns int) string {
	const least = 20 // the minimum of columns for the text at the left
	if room := columns - width(right) - 2; right != "" && room >= least {
		return pad(fit(left, room), room) + "  " + right
	}
	return fit(left, columns)
}

// wrap breaks a text without control characters into lines of at most the given columns, or of one character that is
// wider. It returns at most the given number of lines, and cuts the last one if the text is longer. It breaks only at
// spaces, unless a word is too long for a line.
func wrap(text string, columns, most int) []string {
	if columns < 1 || most < 1 {
		return nil
	}
	var words []string
	for word := range strings.FieldsSeq(text) {
		words = append(words, strings.Split(ansi.Hardwrap(word, columns, true), "\n")...)
	}
	return flow(words, " ", columns, most)
}

// flow puts texts into lines, with a separator between two texts of a line. It returns at most the given number of
// lines, and omits the texts that do not fit.
func flow(texts []string, separator string, columns, most int) []string {
	var lines []string
	for _, text := range texts {
		last := len(lines) - 1
		switch {
		case last >= 0 && width(lines[last])+len(separator)+width(text) <= columns:
			lines[last] += separator + text
		case len(lines) < most:
			lines = append(lines, text)
		default:
			lines[last] = fit(lines[last]+" …", columns)
			return lines
		}
	}
	return lines
}

// ago returns how long ago a time was, such as 2h5m. A time in the future counts as now: the clock of the cluster can
// be ahead.
func ago(t, now time.Time) string { return duration.HumanDuration(max(now.Sub(t), 0)) }
