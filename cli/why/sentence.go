package why

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentences joins texts into a paragraph. It omits empty texts.
func sentences(texts ...string) string {
	var full []string
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			full = append(full, text)
		}
	}
	return strings.Join(full, " ")
}

// sentence returns a message as the beginning of a sentence: cleaned, with a capital letter and without a full stop.
func sentence(message string) string {
	message = quote(message)
	if message == "" {
		return "No reason is given"
	}
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + message[size:]
}

// firstLine returns the first nonempty line of a text.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// waitingCount matches the number of replicas at the beginning of the message of the condition Running.
var waitingCount = regexp.MustCompile(`^(the replica is|[0-9]+ of [0-9]+ replicas (is|are)) not running yet: `)

// withoutCount returns the message of the condition Running without the number of replicas at its beginning.
func withoutCount(message string) string { return waitingCount.ReplaceAllString(message, "") }
