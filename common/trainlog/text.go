package trainlog

import (
	"regexp"
	"strings"
	"unicode"
)

// escape matches an escape sequence of a terminal: a control sequence (for example, a color), a string (for example,
// a title), or a short sequence. A string without a terminator ends with its line.
var escape = regexp.MustCompile(
	`\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)`)

// shown returns the text that a terminal shows of an output: without escape sequences and control characters, and with
// the last state of each line that rewrites itself, such as a progress bar. Tabs are kept.
func shown(output string) string {
	lines := strings.Split(escape.ReplaceAllString(strings.ToValidUTF8(output, ""), ""), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' {
				return -1
			}
			return r
		}, line[strings.LastIndexByte(line, '\r')+1:])
	}
	return strings.Join(lines, "\n")
}
