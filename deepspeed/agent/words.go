package agent

import (
	"fmt"
	"regexp"
	"strings"

	"tensorstack.dev/jobs/common/shell"
)

// wordPrefix begins the names of the variables that hold words of the program. A name stands for its word in the
// command line of the launcher. DeepSpeed and pdsh join the words into one line for a shell on each host, and pdsh
// replaces %n and %h. They quote only words with a blank, and not against $ and `. So the launcher gets the name of a
// word that is not plain, and our ssh replaces the name in the line by the word, quoted.
const wordPrefix = "T9K_WORD_"

// IsPlain reports whether DeepSpeed, pdsh and a shell all leave a word as it is.
func IsPlain(word string) bool {
	return shell.Quote(word) == word && !strings.Contains(word, "%") && !strings.Contains(word, wordPrefix)
}

// hideWords replaces the words that are not plain among the last n words of a command by names. It also returns the
// variables with these names and the words.
func hideWords(command []string, n int) (hidden, environment []string) {
	hidden = append(hidden, command...)
	for i := max(0, len(hidden)-n); i < len(hidden); i++ {
		if word := hidden[i]; !IsPlain(word) {
			hidden[i] = fmt.Sprintf("%s%d", wordPrefix, i)
			environment = append(environment, hidden[i]+"="+word)
		}
	}
	return hidden, environment
}

// hiddenWord matches a word that hideWords has replaced. DeepSpeed can have quoted it.
var hiddenWord = regexp.MustCompile(`["']?\b(` + wordPrefix + `\d+)\b["']?`)

// showWords replaces the names of words in a command line by the words, quoted for a shell. get returns the value of an
// environment variable.
func showWords(line string, get func(name string) string) string {
	return hiddenWord.ReplaceAllStringFunc(line, func(name string) string {
		return shell.Quote(get(strings.Trim(name, `"'`)))
	})
}
