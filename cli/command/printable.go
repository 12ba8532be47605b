package command

import (
	"strings"
	"unicode"
)

// printable returns a text of the cluster without characters that control a terminal. Other tenants can write such
// texts, for example as the output of a program. Carriage returns, which progress bars use, become ends of lines.
func printable(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
