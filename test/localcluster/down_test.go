package localcluster

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestRemoveEmptyKeepsFiles(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept", "file")
	for _, d := range []string{filepath.Dir(kept), filepath.Join(dir, "empty", "deep")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	removeEmpty(dir)
	if !exists(kept) || exists(filepath.Join(dir, "empty")) {
		t.Error("removeEmpty must remove exactly the empty folders")
	}
}

func TestRemoveLinks(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"ours": "/state/log", "other": "/state-of-another/log"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	removeLinks(dir, "/state")
	if exists(filepath.Join(dir, "ours")) || !exists(filepath.Join(dir, "other")) {
		t.Error("removeLinks must remove exactly the links into the folder")
	}
}

// Users can set the state folder in the environment. If that folder has files that do not belong to a cluster, Down
// and Up must not delete them.
func TestForeignStateFolderIsSafe(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "state", "precious")
	if err := os.MkdirAll(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	c := New("", DefaultKubernetes, Paths{Cache: filepath.Join(dir, "cache"), State: filepath.Dir(precious)},
		NewProgress(io.Discard))
	if err := c.Down(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !exists(precious) {
		t.Fatal("down deleted a folder with other files")
	}
	if err := c.Up(context.Background(), UpOptions{Simulated: true, Nodes: 1}); err == nil {
		t.Fatal("up accepted a folder with other files")
	}
}

func TestRemoveCNIResults(t *testing.T) {
	dir := t.TempDir()
	ours := []string{"tsjobs-aaa-eth0", "cni-loopback-aaa-lo"}
	others := []string{"cni-loopback-bbb-lo", "other-bbb-eth0"}
	for _, name := range append(append([]string{}, ours...), others...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	removeCNIResults(dir)
	for _, name := range ours {
		if exists(filepath.Join(dir, name)) {
			t.Errorf("%s of our network was not removed", name)
		}
	}
	for _, name := range others {
		if !exists(filepath.Join(dir, name)) {
			t.Errorf("%s of another runtime was removed", name)
		}
	}
}
