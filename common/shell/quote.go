// Package shell quotes words for a shell.
package shell

import "strings"

// Quote returns the text that a shell reads as the given word, whatever characters the word contains.
func Quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, isSpecial) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// isSpecial reports whether a character can mean something to a shell.
func isSpecial(r rune) bool {
	isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return !isLetter && (r < '0' || r > '9') && !strings.ContainsRune("._/:=@%+,-", r)
}
