package command

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrintable(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"text stays":                         {text: "epoch 1\tloss 0.5 ✓\n", want: "epoch 1\tloss 0.5 ✓\n"},
		"escape sequences cannot act":        {text: "\x1b]0;title\a", want: "\uFFFD]0;title\uFFFD"},
		"8-bit control characters, too":      {text: "\u009b2J", want: "\uFFFD2J"},
		"a progress bar becomes lines":       {text: " 50%\r100%\r\ndone", want: " 50%\n100%\ndone"},
		"text is not written from the right": {text: "a\u202eb", want: "a\uFFFDb"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, printable(test.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
