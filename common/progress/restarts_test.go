package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func TestParseStateWithRestarts(t *testing.T) {
	t.Parallel()
	const (
		limits  = `the field "restarts" of the state must have a count from 0 to 1000000 and the last 3 restarts`
		invalid = `the field "restarts" of the state has an invalid restart`
	)
	// one returns a state with one restart.
	one := func(restart string) string { return `{"restarts": {"count": 1, "last": [` + restart + `]}}` }
	for name, tc := range map[string]struct {
		body    string
		want    Restarts
		wantErr string
	}{
		"a state without restarts has none": {body: `{}`},
		"all fields are read": {
			body: `{"restarts": {"count": 7, "last": [{"replica": "bert-worker-1", "rank": 3, "code": -9, ` +
				`"sinceMilliseconds": 1500}, {"sinceMilliseconds": 0}, {}]}}`,
			want: Restarts{Count: 7, Last: []Restart{
				{Replica: "bert-worker-1", Rank: ptr.To[int32](3), Code: ptr.To[int32](-9), Since: 1500}, {}, {},
			}},
		},
		"a negative count is an error":          {body: `{"restarts": {"count": -1}}`, wantErr: limits},
		"a count that is too large is an error": {body: `{"restarts": {"count": 1000001}}`, wantErr: limits},
		"more restarts than the count are an error": {
			body: `{"restarts": {"count": 1, "last": [{}, {}]}}`, wantErr: limits,
		},
		"a count without its restarts is an error": {body: `{"restarts": {"count": 1}}`, wantErr: limits},
		"more restarts than a state describes are an error": {
			body: `{"restarts": {"count": 9, "last": [{}, {}, {}, {}]}}`, wantErr: limits,
		},
		"a replica that is no name is an error": {body: one(`{"replica": "<b>"}`), wantErr: invalid},
		"a replica with a long name is an error": {
			body: one(fmt.Sprintf(`{"replica": %q}`, strings.Repeat("x", 254))), wantErr: invalid,
		},
		"a negative rank is an error":             {body: one(`{"rank": -1}`), wantErr: invalid},
		"the exit code 0 is an error":             {body: one(`{"code": 0}`), wantErr: invalid},
		"an exit code of more than a byte is one": {body: one(`{"code": 256}`), wantErr: invalid},
		"a signal that does not exist is an error": {
			body: one(`{"code": -65}`), wantErr: invalid,
		},
		"a negative age is an error": {body: one(`{"sinceMilliseconds": -1}`), wantErr: invalid},
		"an absurd age is an error":  {body: one(`{"sinceMilliseconds": 315360000001}`), wantErr: invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseState([]byte(tc.body))
			if diff := cmp.Diff(tc.wantErr, message(err)); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(State{Restarts: tc.want}, got); diff != "" {
				t.Errorf("unexpected state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestartsInTheStatusOfAJob(t *testing.T) {
	t.Parallel()
	second := func(before time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-before)) }
	restarts := Restarts{Count: 3, Last: []Restart{
		Restart{Replica: "bert-worker-1", Rank: ptr.To[int32](3), Code: ptr.To[int32](-9)}.At(noon.Add(-time.Second), noon),
		Restart{Replica: "bert-worker-0", Rank: ptr.To[int32](0), Code: ptr.To[int32](1)}.At(noon.Add(-time.Minute), noon),
		Restart{}.At(noon.Add(-time.Hour), noon),
	}}
	want := []batchv1beta1.RestartInPlace{
		{Replica: "bert-worker-1", Rank: ptr.To[int32](3), Signal: "SIGKILL", Time: second(time.Second)},
		{Replica: "bert-worker-0", Rank: ptr.To[int32](0), ExitCode: ptr.To[int32](1), Time: second(time.Minute)},
		{Time: second(time.Hour)},
	}
	got := restarts.Status(noon)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected restarts (-want +got):\n%s", diff)
	}
	var texts []string
	for _, r := range got {
		texts = append(texts, r.String())
	}
	wantTexts := []string{
		"rank 3 on bert-worker-1 was terminated by SIGKILL", "rank 0 on bert-worker-0 ended with exit code 1",
		"a process failed",
	}
	if diff := cmp.Diff(wantTexts, texts); diff != "" {
		t.Errorf("unexpected texts (-want +got):\n%s", diff)
	}
}

func TestARestartDescribesTheProcessThatFailedFirst(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Restart{
		"a process failed": {},
		"rank 3 on job-worker-1 ended with exit code 5": {
			Replica: "job-worker-1", Rank: ptr.To[int32](3), Code: ptr.To[int32](5),
		},
		"rank 3 on job-worker-1 was terminated by SIGKILL": {
			Replica: "job-worker-1", Rank: ptr.To[int32](3), Code: ptr.To[int32](-9),
		},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
