package preview

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"tensorstack.dev/jobs/cli/printable"
	"tensorstack.dev/jobs/common/shell"
)

// style describes how the summary of a pod is written. A number of 0 means no limit.
type style struct {
	// width is the width at which command lines are broken, in characters.
	width int
	// word is the maximum number of characters of a word. The summary leaves out the middle of a longer word. line is
	// the maximum number of bytes of a command line. The summary leaves out the end of a longer command line.
	word, line int
	// without is the name of a pod. Command lines leave out the host name of this pod.
	without string
}

var (
	// short is the style of the pods in the summary of a job.
	short = style{width: 100, word: 300, line: 1500}
	// full is the style of the summary of one pod.
	full = style{width: 100}
)

// shellLine returns words as a command line. Long lines are broken as in a shell script.
func (s style) shellLine(words []string) string {
	var b strings.Builder
	width := 0
	for _, word := range words {
		if s.without != "" && strings.HasPrefix(word, s.without+".") {
			continue
		}
		if s.line > 0 && b.Len() > s.line {
			return b.String() + " " + cut
		}
		word = s.shortened(shell.Quote(shown(word)))
		n := utf8.RuneCountInString(word)
		switch {
		case b.Len() == 0:
		case s.width > 0 && width+1+n > s.width:
			b.WriteString(" \\\n")
			width = 0
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}

// shown returns a text of a manifest as a summary shows it: characters that cannot be printed are escaped.
func shown(text string) string { return printable.EscapedLines(text) }

// cut stands for the part of a long text that is left out.
const cut = "[...]"

// shortened returns a word without its middle if it is too long.
func (s style) shortened(word string) string {
	if s.word == 0 || utf8.RuneCountInString(word) <= s.word {
		return word
	}
	runes := []rune(word)
	end := s.word / 3
	return string(runes[:s.word-end]) + cut + string(runes[len(runes)-end:])
}

// countsUp reports whether the texts a and b are equal, except that numbers in b can be greater by the given
// difference.
func countsUp(a, b string, difference int) bool {
	for a != b {
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		for same > 0 && a[same-1] >= '0' && a[same-1] <= '9' {
			same-- // go back to the first digit of the number
		}
		var numberA, numberB string
		numberA, a = leadingNumber(a[same:])
		numberB, b = leadingNumber(b[same:])
		x, errA := strconv.Atoi(numberA)
		y, errB := strconv.Atoi(numberB)
		if errA != nil || errB != nil || y-x != difference {
			return false
		}
	}
	return true
}

// leadingNumber returns the digits at the beginning of a text, and the rest.
func leadingNumber(text string) (digits, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	return text[:len(text)-len(rest)], rest
}
