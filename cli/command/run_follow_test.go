package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPrintLines(t *testing.T) {
	t.Parallel()
	const first, second = "2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.2Z"
	long := strings.Repeat("x", 2*maxLine)
	for _, test := range []struct{ name, stream, last, want string }{
		{"times are not printed", first + " a\n" + second + " b  c\n", "", "a\nb  c\n"},
		{"after a lost connection, lines are not printed again", first + " a\n" + second + " b\n", first, "b\n"},
		{"the last line can lack a line break", first + " a", "", "a\n"},
		{"an empty line is printed", first + " \n", "", "\n"},
		{"a line without a time is printed", "no time\n", first, "no time\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			f := &runFollower{screen: newConsole(&out, &out)}
			last, _ := time.Parse(time.RFC3339Nano, test.last) // the zero time before the first line
			f.printLines(strings.NewReader(test.stream), last)
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a long line is printed in parts", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		f := &runFollower{screen: newConsole(&out, &out)}
		f.printLines(strings.NewReader(first+" "+long+"\n"), time.Time{})
		if got := strings.ReplaceAll(out.String(), "\n", ""); got != long {
			t.Errorf("%d characters are printed, want %d", len(got), len(long))
		}
	})
}
