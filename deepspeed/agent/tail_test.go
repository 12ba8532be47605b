package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", tailLimit)
	for name, tc := range map[string]struct {
		writes []string
		want   string
	}{
		"the tail of an empty output is empty":   {},
		"complete and incomplete lines are kept": {writes: []string{"a\nb", "c\nd"}, want: "a\nbc\nd"},
		"lines of the launcher are left out": {
			writes: []string{"no labels\n[INFO] [launch.py:319:sigkill_handler] Killing", " subprocess 7\n"}, want: "no labels",
		},
		"only the last state of a progress bar is kept": {
			writes: []string{"a\r\n\r 0%", "\r 1%\r", " 2%Traceback\n", "ValueError"}, want: "a\n 2%Traceback\nValueError",
		},
		"several carriage returns at the end of a line are one": {writes: []string{"a\r\r\nb\r", "\r\n"}, want: "a\nb"},
		"only the end of a long output is kept": {
			writes: []string{long + "\n", "end"}, want: long[5:] + "\nend",
		},
		"only the beginning of a long line is kept": {
			writes: []string{long + "y\n", "end"}, want: long[5:] + "\nend",
		},
		"half characters at the beginning are removed": {writes: []string{"é" + long[2:] + "\n"}, want: long[2:]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got tail
			for _, w := range tc.writes {
				_, _ = fmt.Fprint(&got, w)
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("unexpected tail (-want +got):\n%s", diff)
			}
		})
	}
}
