package why

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape matches the escape sequences of terminals: CSI, OSC and the others.
var escape = regexp.MustCompile("\x1b\\[[0-9;:<=>?]*[ -/]*[@-~]|" + // CSI
	"\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|" + // OSC, and other strings
	"\x1b[ -/]*[0-~]")

// clean returns a text that others wrote as one line without escape sequences and control characters, so that it cannot
// change the terminal or pretend to be another text.
func clean(text string) string {
	text = text[:min(len(text), maxText)]
	text = escape.ReplaceAllString(strings.ToValidUTF8(text, "?"), "")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // Cf has the characters that change the direction of the text
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// maxText is how many bytes of a text are read. The explanation shows less.
const maxText = 8192

// cleanLine is clean for a line of output: it keeps the spaces.
func cleanLine(line string) string {
	line = line[:min(len(line), maxText)]
	line = strings.ReplaceAll(line, "\t", "    ")
	if i := strings.LastIndex(strings.TrimRight(line, "\r"), "\r"); i >= 0 {
		line = line[i+1:] // a progress bar that was drawn again and again
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	line = escape.ReplaceAllString(strings.ToValidUTF8(line, "?"), "")
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.TrimSpace(line))
	return strings.Repeat(" ", indent) + line
}

// short returns a text of at most the given number of characters. It ends in "..." if it was longer.
func short(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return strings.TrimSpace(string(runes[:most-3])) + "..."
}

// cleaned returns the explanation with all texts cleaned.
func (e Explanation) cleaned() Explanation {
	e.Text = clean(e.Text)
	e.Reason = clean(e.Reason)
	for i := range e.Output {
		e.Output[i] = short(cleanLine(e.Output[i]), maxLine)
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

// sentences joins texts to a paragraph. It omits empty ones.
func sentences(texts ...string) string {
	var full []string
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			full = append(full, text)
		}
	}
	return strings.Join(full, " ")
}

// Quoted returns a word as a shell reads it.
func Quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plainWord matches words that no shell changes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9._/:=@%+,-]+$`)
