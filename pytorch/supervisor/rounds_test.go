package supervisor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARoundBeginsWhenAllProcessesOfTheLastOneHaveEnded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		looks [][]int
		want  []bool
	}{
		"the first round is not another one": {
			looks: [][]int{{}, {}, {10}, {10, 11}, {10, 11}}, want: []bool{false, false, false, false, false},
		},
		"the start of the next round is seen, and not the end of a round": {
			looks: [][]int{{10, 11}, {}, {}, {20, 21}, {20, 21}, {}}, want: []bool{false, false, false, true, false, false},
		},
		"the next round is seen if its predecessor is not seen to end": {
			looks: [][]int{{10, 11}, {20, 21}, {30}}, want: []bool{false, true, true},
		},
		"a round goes on with some of its processes": {
			looks: [][]int{{10, 11}, {11}, {11, 12}, {12}}, want: []bool{false, false, false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r rounds
			var got []bool
			for _, now := range tc.looks {
				got = append(got, r.startAgain(now))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected rounds (-want +got):\n%s", diff)
			}
		})
	}
}
