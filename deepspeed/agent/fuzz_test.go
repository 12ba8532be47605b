package agent

import (
	"strings"
	"testing"
	"unicode"
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

// FuzzReport parses arbitrary lines, because any process of the container could send them. It also checks that
// parseReport recovers the fields of every report, whatever output the report contains.
func FuzzReport(f *testing.F) {
	f.Add("start worker-0", "worker-1", 1, "RuntimeError: \"out of memory\"\n")
	f.Add("end worker-0 1 \"", "worker-0", -1, "\x00\xff")
	f.Add("end", "w", 137, "")
	f.Fuzz(func(t *testing.T, line, host string, code int, output string) {
		_, _ = parseReport(line)
		if host == "" || !utf8.ValidString(host) || strings.ContainsFunc(host, unicode.IsSpace) {
			return // not a host name
		}
		for want, text := range map[nodeReport]string{
			{host: host}:                  startReport(host),
			{host: host, printed: output}: printReport(host, output),
			{host: host, ended: true, code: code, tail: output}: endReport(host, code, output),
		} {
			got, ok := parseReport(strings.TrimSuffix(text, "\n"))
			if !ok || got != want || strings.Count(text, "\n") != 1 {
				t.Errorf("%q is parsed as %+v, want %+v", text, got, want)
			}
		}
	})
}
