package ranks

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const zombie = ") Z 7 5 5 0 -1 4228172 110 0 0 0 0 0 0 0 20 0 1 0 12345 0 0 18446744073709551615 0 0 0 0 0 0 0 " +
		"16781312 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 "
	for name, tc := range map[string]struct {
		stat string
		want Process
		ok   bool
	}{
		"the state of a zombie is parsed": {
			stat: "9 (python3" + zombie + "9\n", want: Process{ID: 9, Parent: 7, Group: 5, state: "Z", exit: 9}, ok: true,
		},
		"the program name can contain parentheses": {
			stat: "9 (a) R 1 1 (b" + zombie + "768\n",
			want: Process{ID: 9, Parent: 7, Group: 5, state: "Z", exit: 768}, ok: true,
		},
		"a truncated line is refused":       {stat: "9 (python3) Z 7 5"},
		"an empty line is refused":          {},
		"an invalid exit status is refused": {stat: "9 (python3" + zombie + "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseStat(9, tc.stat)
			if ok != tc.ok {
				t.Fatalf("got %t, want %t", ok, tc.ok)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(Process{})); diff != "" {
				t.Errorf("unexpected process (-want +got):\n%s", diff)
			}
		})
	}
}
