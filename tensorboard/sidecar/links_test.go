package sidecar

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree returns the entries of a folder: the content of files, the targets of links as "-> target", and "/" for empty
// folders.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == folder {
			return err
		}
		relative, _ := filepath.Rel(folder, name)
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(name)
			got[relative] = "-> " + target
		case entry.IsDir():
			if inside, _ := os.ReadDir(name); len(inside) == 0 {
				got[relative] = "/"
			}
		default:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			got[relative] = string(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// put creates files, links and folders in a folder. The argument files has the same form as the result of tree.
func put(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(folder, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		switch {
		case err != nil:
		case content == "/":
			err = os.MkdirAll(name, 0o755)
		case len(content) > 3 && content[:3] == "-> ":
			err = os.Symlink(content[3:], name)
		default:
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheFolderOfLogsHasALinkOrFolderForEachSource(t *testing.T) {
	sources := []Source{
		{Run: "linked", Link: "/claims/c/not/there/yet"},
		{Run: "fetched", S3: &S3Source{Bucket: "b", Secret: "/secrets/s"}},
	}
	tests := map[string]struct {
		before, want map[string]string
	}{
		"an empty folder of logs is filled": {
			want: map[string]string{"linked": "-> /claims/c/not/there/yet", "fetched": "/"},
		},
		"fetched files are kept after a restart": {
			before: map[string]string{"linked": "-> /claims/c/not/there/yet", "fetched/a.tfevents": "1"},
			want:   map[string]string{"linked": "-> /claims/c/not/there/yet", "fetched/a.tfevents": "1"},
		},
		"links and folders change with the sources": {
			before: map[string]string{
				"linked": "-> /claims/other", "fetched": "-> /claims/other", "gone/a.tfevents": "1", "away": "-> /claims/other",
			},
			want: map[string]string{"linked": "-> /claims/c/not/there/yet", "fetched": "/"},
		},
		"a folder and a file are replaced by a link and a folder": {
			before: map[string]string{"linked/a/b.tfevents": "1", "fetched": "a file"},
			want:   map[string]string{"linked": "-> /claims/c/not/there/yet", "fetched": "/"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			put(t, folder, tc.before)
			logs, err := layOut(folder, sources)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = logs.Close() })
			if diff := cmp.Diff(tc.want, tree(t, folder)); diff != "" {
				t.Errorf("unexpected logs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheTargetOfALinkIsNeverRemoved(t *testing.T) {
	claim, folder := t.TempDir(), t.TempDir()
	put(t, claim, map[string]string{"a.tfevents": "1"})
	put(t, folder, map[string]string{"old": "-> " + claim, "now-fetched": "-> " + claim})
	logs, err := layOut(folder, []Source{{Run: "now-fetched", HTTP: &HTTPSource{URL: "http://host/file"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	if diff := cmp.Diff(map[string]string{"a.tfevents": "1"}, tree(t, claim)); diff != "" {
		t.Errorf("unexpected claim (-want +got):\n%s", diff)
	}
}
