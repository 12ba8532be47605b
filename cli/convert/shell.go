package convert

import (
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"tensorstack.dev/jobs/common/shell"
)

// shells matches the names of shells.
var shells = regexp.MustCompile(`^(ba|da|z|k)?sh$`)

// scriptOf returns the script of a command line such as sh -c "torchrun train.py". It returns false if the command line
// does not run a shell with a script, or passes arguments to the script.
func scriptOf(words []string) (script string, ok bool) {
	if len(words) < 3 || !shells.MatchString(path.Base(words[0])) {
		return "", false
	}
	options, script := words[1:len(words)-1], words[len(words)-1]
	last := options[len(options)-1]
	isScript := strings.HasPrefix(last, "-") && !strings.HasPrefix(last, "--") && strings.HasSuffix(last, "c")
	return script, isScript
}

// shellReference matches a reference to a variable at the beginning of a text. $(NAME) is a reference too, and not a
// command, because the kubelet replaces it before the shell runs.
var shellReference = regexp.MustCompile(`^\$([A-Za-z_]\w*|\{[A-Za-z_]\w*\}|\([A-Za-z_]\w*\))`)

// plainWords returns the words of a script that is one command and does not need a shell. It returns false for all
// other scripts. In the words, references to variables have the form $(NAME).
func plainWords(script string) ([]string, bool) {
	script = strings.TrimSpace(strings.ReplaceAll(script, "\\\n", " "))
	var words []string
	var word strings.Builder
	inWord := false
	var quote rune
	for i := 0; i < len(script); {
		r, size := utf8.DecodeRuneInString(script[i:])
		variable := shellReference.FindString(script[i:])
		i += max(size, len(variable))
		switch {
		case variable != "" && quote != '\'':
			word.WriteString("$(" + strings.Trim(variable, "${}()") + ")")
			inWord = true
		case quote != 0 && r == quote:
			quote = 0
		case r == '$' || r == '`' || r == '\\' || r == '!':
			return nil, false
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_@%+=:,./-", r):
			word.WriteRune(r)
			inWord = true
		default:
			return nil, false
		}
	}
	if quote != 0 {
		return nil, false
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) > 0 && words[0] == "exec" {
		words = words[1:]
	}
	return words, len(words) > 0
}

// quoted returns words as a command of a shell.
func quoted(words []string) string {
	list := make([]string, 0, len(words))
	for _, word := range words {
		list = append(list, shell.Quote(word))
	}
	return strings.Join(list, " ")
}
