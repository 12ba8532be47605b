package versions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes a versions.yaml with the given modules and returns its path.
func write(t *testing.T, modules string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "versions.yaml")
	if err := os.WriteFile(file, []byte("modules:\n"+modules), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const client = "  common: {version: v0.2.0, role: library}\n" +
	"  pytorch: {version: v0.1.0, role: framework, common: v0.2.0}\n" +
	"  scheduler: {version: v0.3.0, role: controller, common: v0.1.0}\n" +
	"  cli: {version: v0.1.0, role: client, pytorch: v0.1.0, common: v0.2.0}\n"

func TestReadReturnsTheModulesInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	file, err := Read(write(t, client))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"common", "pytorch", "scheduler", "cli"}, file.Names()); diff != "" {
		t.Errorf("unexpected modules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pytorch", "scheduler"}, file.Names(Framework, Controller)); diff != "" {
		t.Errorf("unexpected controllers (-want +got):\n%s", diff)
	}
	want := Module{
		Version: "v0.1.0", Role: Client, Requires: map[string]string{"common": "v0.2.0", "pytorch": "v0.1.0"},
	}
	if diff := cmp.Diff(want, file.Modules["cli"]); diff != "" {
		t.Errorf("unexpected module (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"common", "pytorch"}, file.RequiredBy("cli")); diff != "" {
		t.Errorf("the required modules are not in the order of their release (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ modules, want string }{
		"a module without a role": {"  common: {version: v0.1.0}\n", `the role of common is ""`},
		"an unknown role":         {"  common: {version: v0.1.0, role: lib}\n", `the role of common is "lib"`},
		"a requirement of a module that does not exist": {
			client + "  jax: {version: v0.1.0, role: framework, comon: v0.1.0}\n", "jax requires comon",
		},
		"a requirement of a module that is released later": {
			"  kit: {version: v0.1.0, role: library, common: v0.1.0}\n" + client, "kit requires common",
		},
		"a file that is not YAML": {"{", "reading"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Read(write(t, tc.modules)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}
