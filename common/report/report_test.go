package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTruncated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message string
		most    int
		want    string
	}{
		"what fits stays":                  {message: "abcdef", most: 6, want: "abcdef"},
		"what does not says so":            {message: "abcdefg", most: 6, want: "abc..."},
		"no character is cut in two":       {message: "aééb", most: 5, want: "a..."},
		"nor is one dropped that is whole": {message: "éaaaa", most: 5, want: "é..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Truncated(tc.message, tc.most)); diff != "" {
				t.Errorf("unexpected message (-want +got):\n%s", diff)
			}
		})
	}
}
