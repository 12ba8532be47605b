// Package printable makes texts that others wrote safe to print. Other tenants can write escape sequences and control
// characters into messages, names and the output of programs. These could change a terminal or imitate other text.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Line returns a text as one line that can be printed: without escape sequences, control characters and invisible
// format characters, and with one space for each run of white space.
func Line(s string) string { return strings.Join(strings.Fields(strings.Join(Lines(s), " ")), " ") }

// Text returns a text in a form that can be printed, with its line breaks. See Lines for the changes.
func Text(s string) string { return strings.Join(Lines(s), "\n") }

// Lines returns the lines of a text in a form that can be printed: without escape sequences, control characters and
// invisible format characters, and with four spaces for each tab. If a line rewrites itself, as a progress bar does,
// Lines returns its last state.
func Lines(s string) []string {
	lines := strings.Split(ansi.Strip(strings.ToValidUTF8(s, string(unicode.ReplacementChar))), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		lines[i] = strings.Map(visible, strings.ReplaceAll(line, "\t", "    "))
	}
	return lines
}

// visible returns the given character. It returns -1 if the character can change a terminal, or the direction or
// position of text in a terminal.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) {
		return -1
	}
	return r
}

// Escaped returns a text as one line in which every character that cannot be printed is escaped as in a string of Go.
// It is for texts that must stay exact, such as the fields of a manifest.
func Escaped(s string) string { return escaped(s, unicode.IsPrint) }

// EscapedLines is like Escaped, but keeps line breaks and tabs.
func EscapedLines(s string) string {
	return escaped(s, func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) })
}

// escaped returns a text in which all characters are escaped except those that isKept accepts.
func escaped(s string, isKept func(rune) bool) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !isKept(r) }) {
		return s // most texts need no escapes, so this check saves time
	}
	var b strings.Builder
	for _, r := range s {
		if isKept(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Shortened returns a text with at most the given number of characters. The result of a longer text ends in "...".
func Shortened(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:most-3])) + "..."
}

// Wrapped breaks a text into lines with at most the given number of characters, unless a word is longer. The first line
// begins with the text in first, and all other lines begin with the text in rest.
func Wrapped(text, first, rest string, most int) []string {
	var lines []string
	line, space := first, ""
	for word := range strings.FieldsSeq(text) {
		if space != "" && utf8.RuneCountInString(line+space+word) > most {
			lines = append(lines, line)
			line, space = rest, ""
		}
		line += space + word
		space = " "
	}
	return append(lines, line)
}
