package printable_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/printable"
)

func TestTextsArePrintable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, printable, line string }{
		"plain text stays":          {"epoch  1 loss 0.5 ✓", "epoch  1 loss 0.5 ✓", "epoch 1 loss 0.5 ✓"},
		"letters of all languages":  {"Bücher 書籍 كتب", "Bücher 書籍 كتب", "Bücher 書籍 كتب"},
		"the indentation remains":   {"a:\n    b\n\tc\n", "a:\n    b\n    c\n", "a: b c"},
		"blank lines remain":        {"a\n\nb", "a\n\nb", "a b"},
		"colors are removed":        {"\x1b[1;31mred\x1b[0m", "red", "red"},
		"a title of the terminal":   {"a\x1b]0;title\x07b", "ab", "ab"},
		"a title that does not end": {"a\x1b]0;title", "a", "a"},
		"a write to the clipboard":  {"a\x1b]52;c;YQ==\x1b\\b", "ab", "ab"},
		"control characters":        {"a\x00\x07\x08\x7fb", "ab", "ab"},
		"8-bit control characters":  {"a\u009b2Jb", "a2Jb", "a2Jb"},
		"a change of the direction": {"a\u202eb\u2066c", "abc", "abc"},
		"line breaks of Unicode":    {"a\u2028b\u2029c", "abc", "abc"},
		"text that is not UTF-8":    {"a\xffb", "a\uFFFDb", "a\uFFFDb"},
		"a progress bar":            {"10%\r50%\r100%\r\ndone", "100%\ndone", "100% done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.printable, printable.Text(test.text)); diff != "" {
				t.Errorf("unexpected lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.line, printable.Line(test.text)); diff != "" {
				t.Errorf("unexpected line (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.printable, streamed(test.text, 1)); diff != "" {
				t.Errorf("unexpected output that arrives byte by byte (-want +got):\n%s", diff)
			}
		})
	}
}

// streamed returns the text that a terminal shows if an output arrives in pieces of the given size.
func streamed(output string, size int) string {
	var stream printable.Stream
	var shown []byte
	for piece := range slices.Chunk([]byte(output), size) {
		shown = append(shown, stream.Printable(piece)...)
	}
	lines := strings.Split(string(shown), "\n")
	for i, line := range lines {
		lines[i] = line[strings.LastIndex("\r\x1b[K"+line, "\r\x1b[K"):]
	}
	return strings.Join(lines, "\n")
}

func TestOutputIsPrintableWhileItArrives(t *testing.T) {
	t.Parallel()
	const stamp = "2026-01-02T03:04:05Z "
	for name, test := range map[string]struct {
		isStamped    bool
		pieces, want []string
	}{
		"text is returned before its line ends": {
			pieces: []string{"a", "b\nc", "\n"}, want: []string{"a", "b\nc", "\n"},
		},
		"a bar is erased and written again": {
			pieces: []string{"\r 50%", "\r100%", "\ndone"}, want: []string{" 50%", "\r\x1b[K100%", "\ndone"},
		},
		"a bar that ends with \\r stays until its next state": {
			pieces: []string{"100%\r", "1%\r", "\x1b[K", "\n2%"}, want: []string{"100%", "\r\x1b[K1%", "", "\n2%"},
		},
		"only the last state in a piece is returned": {
			pieces: []string{"a\n1%\r2%\r3%", "4%\r5%\r6%\r"}, want: []string{"a\n3%", "\r\x1b[K6%"},
		},
		"a line that ends with \\r\\n is kept": {pieces: []string{"a\r", "\nb\r\n"}, want: []string{"a", "\nb\n"}},
		"an escape sequence can arrive in pieces": {
			pieces: []string{"a\x1b", "[1;3", "1mb\x1b]0;ti", "tle\x07c"}, want: []string{"a", "", "b", "c"},
		},
		"a character can arrive in pieces": {pieces: []string{"\xe2", "\x9c", "\x93"}, want: []string{"", "", "✓"}},
		"a title that does not end is no longer than its line": {
			pieces: []string{"a\x1b]0;b", "c\nd\x1b]0;e\rf"}, want: []string{"a", "\nf"},
		},
		"a bar keeps its time": {
			isStamped: true, pieces: []string{stamp[:9], stamp[9:] + "\r50%", "\r100%", "\n" + stamp + "\r1%\r2%"},
			want: []string{stamp[:9], "\r\x1b[K" + stamp + "50%", "\r\x1b[K" + stamp + "100%", "\n" + stamp + "2%"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := printable.Stream{Stamped: test.isStamped}
			var got []string
			for _, piece := range test.pieces {
				got = append(got, string(stream.Printable([]byte(piece))))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextsAreEscaped(t *testing.T) {
	t.Parallel()
	const original = "a 'é'\n\tb\x1b[2J\u202e\xff"
	if diff := cmp.Diff(`a 'é'\n\tb\x1b[2J\u202e`+"\uFFFD", printable.Escaped(original)); diff != "" {
		t.Errorf("unexpected line (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("a 'é'\n\tb\\x1b[2J\\u202e\uFFFD", printable.EscapedLines(original)); diff != "" {
		t.Errorf("unexpected lines (-want +got):\n%s", diff)
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	for original, want := range map[string]string{"éééé": "éééé", "ééééé": "é..."} {
		if got := printable.Shortened(original, 4); got != want {
			t.Errorf("%q is shortened to %q, want %q", original, got, want)
		}
	}
}

// FuzzTexts checks that no text can control a terminal after this package has made the text printable, and that a
// line stays one line. A Stream must also return the same text if the output arrives byte by byte.
func FuzzTexts(f *testing.F) {
	f.Add("a\x1b]0;title\x07b\r\n\x1b\x1b[2J\u202e\u2028\xff'")
	f.Fuzz(func(t *testing.T, original string) {
		controls := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
		for name, result := range map[string]string{
			"line": printable.Line(original), "escaped": printable.Escaped(original),
			"text":          strings.ReplaceAll(printable.Text(original), "\n", ""),
			"escaped lines": strings.NewReplacer("\n", "", "\t", "").Replace(printable.EscapedLines(original)),
			"output":        strings.ReplaceAll(streamed(original, 3), "\n", ""),
		} {
			if strings.ContainsFunc(result, controls) || !utf8.ValidString(result) {
				t.Errorf("the %s of %q has control characters: %q", name, original, result)
			}
		}
		if diff := cmp.Diff(streamed(original, len(original)+1), streamed(original, 1)); diff != "" {
			t.Errorf("the pieces of %q make a difference (-as a whole +byte by byte):\n%s", original, diff)
		}
	})
}

func TestWrapped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"a text that fits is one line":           {text: "12345 78", want: []string{"# 12345 78"}},
		"a word that does not fit begins a line": {text: "12345  789\n5", want: []string{"# 12345", "#   789 5"}},
		"a longer word has a line of its own":    {text: "a 123456789 b", want: []string{"# a", "#   123456789", "#   b"}},
		"characters count, and not their bytes":  {text: "äöüäö üä", want: []string{"# äöüäö üä"}},
		"a text without words is an empty line":  {want: []string{"# "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := printable.Wrapped(test.text, "# ", "#   ", 10); !slices.Equal(got, test.want) {
				t.Errorf("the lines are %q, want %q", got, test.want)
			}
		})
	}
}
