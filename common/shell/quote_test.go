package shell_test

import (
	"os/exec"
	"strings"
	"testing"

	"tensorstack.dev/jobs/common/shell"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"digits": "digits", "/home/me/.kube/config": "/home/me/.kube/config", "": "''", "$(reboot)": "'$(reboot)'",
		"it's": `'it'\''s'`, "a; b": "'a; b'", "*": "'*'", "--x=a\nb": "'--x=a\nb'",
	} {
		if got := shell.Quote(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
		read, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+shell.Quote(word)).Output()
		if err != nil || string(read) != word {
			t.Errorf("a shell reads %q, want %q; error: %v", read, word, err)
		}
	}
}

// FuzzQuote checks that a shell reads the result of Quote as the original word.
func FuzzQuote(f *testing.F) {
	f.Add("it's $HOME; *\n")
	f.Fuzz(func(t *testing.T, word string) {
		parts := strings.Split(shell.Quote(word), `'\''`)
		for i, part := range parts {
			parts[i] = strings.Trim(part, "'")
		}
		if got := strings.Join(parts, "'"); got != word {
			t.Errorf("%q is another word in a shell: %q", word, got)
		}
	})
}
