package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAuditLog(t *testing.T) {
	t.Parallel()
	const log = `{"verb":"create","user":{"username":"controller"},"objectRef":{"resource":"pods","namespace":"ns","name":"early"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-03-01T12:00:00.000000Z","stageTimestamp":"2026-03-01T12:00:00.500000Z"}
{"verb":"create","user":{"username":"controller"},"objectRef":{"resource":"pods","namespace":"ns","name":"slow"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-03-01T12:00:01.000000Z","stageTimestamp":"2026-03-01T12:00:09.000000Z"}
{"verb":"create","user":{"username":"controller"},"objectRef":{"resource":"pods","namespace":"ns","name":"quick"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-03-01T12:00:02.000000Z","stageTimestamp":"2026-03-01T12:00:03.000000Z"}
{"verb":"create","user":{"username":"controller"},"objectRef":{"resource":"pods","namespace":"ns","name":"refused"},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-03-01T12:00:02.000000Z","stageTimestamp":"2026-03-01T12:00:03.000000Z"}
{"verb":"create","user":{"username":"controller"},"objectRef":{"resource":"events","namespace":"default","name":"leads"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-03-01T12:00:02.000000Z","stageTimestamp":"2026-03-01T12:00:03.000000Z"}
{"verb":"update","user":{"username":"controller"},"objectRef":{"resource":"leases","namespace":"default","name":"lease"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-03-01T12:00:02.000000Z","stageTimestamp":"2026-03-01T12:00:04.000000Z"}
{"verb":"create","user":{"username":"controller"},"objectRef":{"resource":"pods","namespace":"ns","name":"half a li`
	file := auditLog(filepath.Join(t.TempDir(), "audit.log"))
	if err := os.WriteFile(string(file), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	for name, tc := range map[string]struct {
		wanted func(write) bool
		want   []string
	}{
		"successful creates of pods are in the order in which they were done": {
			wanted: func(w write) bool { return w.createsPod() && w.of("controller") }, want: []string{"quick", "slow"},
		},
		"leader election writes Leases and their events": {wanted: write.elects, want: []string{"leads", "lease"}},
		"another user has no writes":                     {wanted: func(w write) bool { return w.of("somebody") }},
		"events are selected by resource":                {wanted: write.isEvent, want: []string{"leads"}},
		"Leases are selected by resource":                {wanted: write.isLease, want: []string{"lease"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes, err := file.selected(since, tc.wanted)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range writes {
				got = append(got, w.ObjectRef.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuditLogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	missing := auditLog(filepath.Join(t.TempDir(), "missing.log"))
	all := func(write) bool { return true }
	if _, err := missing.selected(time.Time{}, all); err == nil {
		t.Error("a missing log is read without an error")
	}
	broken := auditLog(filepath.Join(t.TempDir(), "audit.log"))
	if err := os.WriteFile(string(broken), []byte("not JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := broken.selected(time.Time{}, all); err == nil {
		t.Error("a line that is not JSON is read without an error")
	}
}
