package agent

import (
	"fmt"
	"regexp"
	"strings"

	"tensorstack.dev/jobs/common/shell"
)

// wordPrefix is the prefix of the names of variables that hold words of the program. DeepSpeed and pdsh join the
// words of the launcher's command into one line for a shell on each host. They quote only words with a blank, and
// their quotes do not protect $ and ` from the shell. pdsh also replaces %n and %h. So the command of the launcher
// has the name of a variable in place of each word that is not plain. Our ssh replaces the name in the line by the
// word, quoted.
const wordPrefix = "T9K_WORD_"

// IsPlain reports whether DeepSpeed, pdsh and a shell all leave a word as it is.
func IsPlain(word string) bool {
	return shell.Quote(word) == word && !strings.Contains(word, "%") && !strings.Contains(word, wordPrefix)
}

// hideWords changes the last n words of a command. It replaces each word that is not plain by the name of a variable.
// It also returns these variables, whose values are the words.
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

// showWords replaces each name that hideWords has put into a command by the word, quoted for a shell. The function
// get returns the value of the variable with the name.
func showWords(line string, get func(name string) string) string {
	return hiddenWord.ReplaceAllStringFunc(line, func(name string) string {
		return shell.Quote(get(strings.Trim(name, `"'`)))
	})
}
