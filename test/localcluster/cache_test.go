package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCacheSizesArePrintedAndCacheIsCleared(t *testing.T) {
	t.Parallel()
	p := Paths{Cache: t.TempDir(), State: t.TempDir()}
	for file, size := range map[string]int{
		"bin/etcd-1/etcd": 3 << 20, "images/a.tar": 1 << 20, "images/b/c.tar": 1 << 20,
	} {
		path := filepath.Join(p.Cache, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	printed := func() string {
		t.Helper()
		var out strings.Builder
		if err := p.PrintCache(&out); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(out.String(), p.Cache, "CACHE")
	}
	if diff := cmp.Diff("       3 MiB  bin\n       2 MiB  images\n       5 MiB  CACHE\n", printed()); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	if err := p.ClearCache(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("       0 MiB  CACHE\n", printed()); diff != "" {
		t.Errorf("unexpected output after ClearCache (-want +got):\n%s", diff)
	}
}

func TestMissingCacheIsEmpty(t *testing.T) {
	t.Parallel()
	p := Paths{Cache: filepath.Join(t.TempDir(), "none")}
	var out strings.Builder
	if err := p.PrintCache(&out); err != nil || !strings.HasPrefix(out.String(), "       0 MiB") {
		t.Errorf("printed %q, error %v", out.String(), err)
	}
	if err := p.ClearCache(); err != nil {
		t.Error(err)
	}
}
