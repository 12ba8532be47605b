package agent

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBar(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		writes   []string
		interval time.Duration
		want     string
	}{
		"lines without carriage returns are unchanged": {writes: []string{"a\nb", "c\n"}, want: "a\nbc\n"},
		"lines that end with both characters are unchanged": {
			writes: []string{"a\r\nb\r", "\nc\r\n"}, want: "a\r\nb\r\nc\r\n",
		},
		"several carriage returns are one": {writes: []string{"a\r", "\r\nb\r\r\n"}, want: "a\r\r\nb\r\r\n"},
		"a line ends before it is rewritten again": {
			writes: []string{"\r 0%", "\r 1%\r", " 2%\n", "done\n"}, want: "\r 0%\n\r 1%\n\r 2%\ndone\n",
		},
		"a line that has just been shown is not ended": {
			writes: []string{"\r 0%\r 1%\r 2%\r 3%"}, interval: time.Hour, want: "\r 0%\n\r 1%\r 2%\r 3%",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			b := bar{Writer: &got, interval: tc.interval}
			for _, w := range tc.writes {
				if n, err := fmt.Fprint(&b, w); n != len(w) || err != nil {
					t.Errorf("%d of %d bytes were written: %v", n, len(w), err)
				}
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
		})
	}
}
