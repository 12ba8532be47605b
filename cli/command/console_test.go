package command

import (
	"bytes"
	"testing"
)

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
