package command

import (
	"bytes"
	"testing"
)

func TestPrintableLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, line, want string }{
		{"plain text stays", "epoch  1\tloss 0.5 ✓", "epoch  1\tloss 0.5 ✓"},
		{"colors are removed", "\x1b[31mred\x1b[0m", "red"},
		{"sequences that set the title or the clipboard are removed", "\x1b]0;title\x07a\x1b]52;c;YQ==\x1b\\b", "ab"},
		{"control characters are removed", "a\x00\x07\x08\x7f\u009bb", "ab"},
		{"characters that change the direction are removed", "a\u202eb", "ab"},
		{"of a bar that a program redraws, the last state stays", "10%\r50%\r90%\r", "90%"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := printableLine(test.line); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestScreenWithoutTerminalPrintsLogsAsTheyAre(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	s := newConsole(&out, &errOut)
	s.setStatus("a bar")
	s.log("\x1b[31mred\x1b[0m")
	s.message("a message")
	if out.String() != "\x1b[31mred\x1b[0m\n" || errOut.String() != "a message\n" {
		t.Errorf("stdout has %q, and stderr has %q", out.String(), errOut.String())
	}
}
