package progress

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadPodReadsTheReceiverOfThePod(t *testing.T) {
	server := httptest.NewServer(receiver())
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvURL, server.URL)
	t.Setenv(EnvToken, file)
	got, err := readPod(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someState, got); diff != "" {
		t.Errorf("unexpected state (-want +got):\n%s", diff)
	}
	for variable, value := range map[string]string{EnvURL: "http://[::", EnvToken: file + ".missing"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			if _, err := readPod(t.Context()); err == nil {
				t.Error("got no error")
			}
		})
	}
	for _, variable := range []string{EnvURL, EnvToken} {
		t.Setenv(variable, "")
	}
	if _, err := readPod(t.Context()); err == nil {
		t.Error("a pod without a receiver: got no error")
	}
}

func TestReportStart(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "reports")
	if err := os.WriteFile(file, []byte("{\"step\": 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvFile, file)
	if err := ReportStart(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("{\"step\": 1}\n\n{\"starting\": true}\n", string(got)); diff != "" {
		t.Errorf("unexpected reports (-want +got):\n%s", diff)
	}
	report, err := Parse([]byte(`{"starting": true}`))
	if want := (Report{IsStart: true}); err != nil || !cmp.Equal(want, report) {
		t.Errorf("got the report %+v and error %v, want %+v", report, err, want)
	}

	link, fifo := filepath.Join(folder, "link"), filepath.Join(folder, "fifo")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a missing file": filepath.Join(folder, "missing"), "a symbolic link": link, "a FIFO without a reader": fifo,
	} {
		t.Setenv(EnvFile, path)
		if err := ReportStart(); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	t.Setenv(EnvFile, "")
	if err := ReportStart(); err != nil {
		t.Errorf("a pod without a receiver: %v", err)
	}
}
