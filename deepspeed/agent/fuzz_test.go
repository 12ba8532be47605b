package agent

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzTail checks that a tail keeps the same output, wherever the output is split between writes.
func FuzzTail(f *testing.F) {
	f.Add("a\nb", "c\nd")
	f.Add("[launch.py:", "319]\n")
	f.Add("\xc3", "\xa9"+strings.Repeat("x", 2*tailLimit))
	f.Fuzz(func(t *testing.T, first, second string) {
		var parts, whole tail
		for _, w := range []string{first, second} {
			if n, err := parts.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%d of %d bytes were written: %v", n, len(w), err)
			}
		}
		_, _ = whole.Write([]byte(first + second))
		got, want := parts.String(), whole.String()
		if got != want || len(got) > tailLimit || !utf8.ValidString(got) {
			t.Errorf("got %q of %d bytes, want %q of at most %d bytes", got, len(got), want, tailLimit)
		}
	})
}
