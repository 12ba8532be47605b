package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

// copyLists copies versions.yaml and the files with lists into a folder. It returns a map from the name of each file
// to its content.
func copyLists(t *testing.T, folder string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	names := []string{"versions.yaml"}
	for _, l := range lists {
		names = append(names, l.file)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		contents[name] = string(content)
	}
	return contents
}

// addedLines returns the lines of a file that are not in its earlier content.
func addedLines(t *testing.T, file, before string) string {
	t.Helper()
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var added []string
	for line := range strings.Lines(string(after)) {
		if !strings.Contains(before, line) {
			added = append(added, line)
		}
	}
	return strings.Join(added, "")
}

func TestEveryListIsUpToDate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	before := copyLists(t, folder)
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	for name, content := range before {
		after, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(after), content); diff != "" {
			t.Errorf("%s is not up to date: run make generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestANewFrameworkIsInEveryList(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	before := copyLists(t, folder)
	const jax = "  jax: {version: v0.1.0, role: framework}\n"
	changed := strings.Replace(before["versions.yaml"], "  tensorboard:", jax+"  tensorboard:", 1)
	if err := os.WriteFile(filepath.Join(folder, "versions.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"go.work":                       "\t./jax\n",
		"deploy/all/kustomization.yaml": "  - ../jax\n",
		"Dockerfile":                    "FROM scratch AS jax\nENTRYPOINT [\"/jax-controller\"]\n",
		".github/CODEOWNERS":            "/jax/         @tensorstack/jobs-jax\n",
		"hack/consumer/schemes.go":      "\tjax \"tensorstack.dev/jobs/jax/api/v1beta1\"\n\tjax.AddToScheme,\n",
	}
	for name, lines := range want {
		if diff := cmp.Diff(lines, addedLines(t, filepath.Join(folder, name), before[name])); diff != "" {
			t.Errorf("unexpected new lines in %s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range []string{"deploy/monitoring/dashboard.json", "deploy/monitoring/prometheusrule.yaml"} {
		added := addedLines(t, filepath.Join(folder, name), before[name])
		old := strings.Count(before[name], "|deepspeed|tensorboard|")
		if got := strings.Count(added, "|deepspeed|jax|tensorboard|"); got != old || old == 0 {
			t.Errorf("%s selects the new controller %d times, want %d", name, got, old)
		}
	}
}

// A client has neither an image nor manifests, so only go.work and CODEOWNERS list it.
func TestANewClientIsInTheListsOfModulesAndOwners(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	before := copyLists(t, folder)
	const added = "  console: {version: v0.1.0, role: client, common: v0.1.0, pytorch: v0.1.0}\n"
	changed := strings.Replace(before["versions.yaml"], "kubernetes:", added+"kubernetes:", 1)
	if err := os.WriteFile(filepath.Join(folder, "versions.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"go.work": "\t./console\n", ".github/CODEOWNERS": "/console/     @tensorstack/jobs-console\n",
	}
	for _, l := range lists {
		if diff := cmp.Diff(want[l.file], addedLines(t, filepath.Join(folder, l.file), before[l.file])); diff != "" {
			t.Errorf("unexpected new lines in %s (-want +got):\n%s", l.file, diff)
		}
	}
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		edit func(before string) string
		want string
	}{
		"a file without its list": {
			"Dockerfile", func(string) string { return "FROM scratch\n" }, "Dockerfile has 0 lists of modules",
		},
		"a file with two lists": {
			".github/CODEOWNERS", func(before string) string { return before + "\n" + before },
			"CODEOWNERS has 2 lists of modules",
		},
		"an unknown role": {
			"versions.yaml",
			func(before string) string { return strings.Replace(before, "role: framework", "role: framwork", 1) },
			`the role of pytorch is "framwork"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			edited := tc.edit(copyLists(t, folder)[tc.file])
			if err := os.WriteFile(filepath.Join(folder, tc.file), []byte(edited), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := write(folder); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestOtherLinesDoNotChange(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	before := copyLists(t, folder)[".github/CODEOWNERS"] + "\n/docs/ @tensorstack/writers\n"
	file := filepath.Join(folder, ".github/CODEOWNERS")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, string(after)); diff != "" {
		t.Errorf("unexpected change (-want +got):\n%s", diff)
	}
}
