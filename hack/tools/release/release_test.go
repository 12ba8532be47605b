package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/hack/tools/internal/provenance"
)

// sh runs a command in a folder and returns its output.
func sh(t *testing.T, folder, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = folder
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return strings.TrimSpace(string(output))
}

// copied returns a copy of this repository that has the programs to make charts. All files are committed, and no module
// is released.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	sh(t, "../../..", "git ls-files -z --cached --others --exclude-standard | "+
		"while read -rd '' f; do [ ! -f \"$f\" ] || cp --parents \"$f\" "+root+"; done")
	for _, program := range []string{"helm", "kustomize"} {
		if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		built, err := filepath.Abs("../../../bin/" + program)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(built); err != nil {
			t.Fatalf("%v: run this test with `make test-release`, which builds the program", err)
		}
		if err := os.Symlink(built, filepath.Join(root, "bin", program)); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, root, `
		sed -i 's/^## v0.1.0 (.*/## v0.1.0 (unreleased)/' */CHANGELOG.md
		git init -q -b main
		git config user.name Maintainer
		git config user.email maintainer@example.com
		git add -A
		git commit -qm 'Add everything'`)
	return root
}

// objects returns the objects in manifests, sorted by their text, because the order of objects does not matter.
func objects(manifests string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(manifests), "\n---\n"))
}

func run(t *testing.T, r release) (string, error) {
	t.Helper()
	var out bytes.Buffer
	r.out, r.warnings, r.date = &out, &out, "2026-12-24"
	err := r.run(t.Context())
	return out.String(), err
}

func TestReleaseOfAModuleAfterItsLibraries(t *testing.T) {
	t.Parallel()
	root := copied(t)
	first := sh(t, root, "git rev-parse HEAD")

	out, err := run(t, release{root: root, module: "common", version: "v0.1.0", dry: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{"-## v0.1.0 (unreleased)\n+## v0.1.0 (2026-12-24)\n", "would be tagged common/v0.1.0"} {
		if !strings.Contains(out, shown) {
			t.Errorf("the output of the dry run does not contain %q:\n%s", shown, out)
		}
	}
	if left := sh(t, root,
		"git rev-parse HEAD; git tag; git status --porcelain; git worktree list | wc -l"); left != first+"\n1" {
		t.Errorf("the dry run left changes behind:\n%s", left)
	}

	for _, library := range []string{"common", "kit"} {
		if _, err := run(t, release{root: root, module: library, version: "v0.1.0"}); err != nil {
			t.Fatal(err)
		}
	}
	out, err = run(t, release{root: root, module: "pytorch", version: "v0.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	want := `git push origin pytorch/v0.2.0

Written: bin/release/pytorch-components.yaml
Written: bin/release/pytorch-controller-0.2.0.tgz
Written: bin/release/pytorch-v0.2.0.zip
Written: bin/release/pytorch-v0.2.0.provenance.json
Warning: nothing is signed. If you have the key, run: make sign MODULE=pytorch KEY=cosign.key
`
	if !strings.HasSuffix(out, want) {
		t.Errorf("the output does not end with the pushes, the files and the warning that nothing is signed:\n%s", out)
	}
	tags := sh(t, root, "git tag; git status --porcelain")
	if diff := cmp.Diff("common/v0.1.0\nkit/v0.1.0\npytorch/v0.2.0", tags); diff != "" {
		t.Errorf("unexpected tags, or a tree that is not clean (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("Release pytorch v0.2.0\nRelease kit v0.1.0\nRelease common v0.1.0\nAdd everything",
		sh(t, root, "git log --format=%s pytorch/v0.2.0")); diff != "" {
		t.Errorf("unexpected commits (-want +got):\n%s", diff)
	}
	want = strings.TrimSpace(`
+## v0.2.0 (2026-12-24)
+image: tensorstack/pytorch-controller:v0.2.0
+- {name: controller, newName: tensorstack/pytorch-controller, newTag: v0.2.0}
+pytorch: {version: v0.2.0, role: framework, common: v0.1.0, kit: v0.1.0}`)
	if diff := cmp.Diff(want,
		sh(t, root, "git diff -U0 kit/v0.1.0 pytorch/v0.2.0 | grep '^+[^+]' | sed 's/^+ */+/'")); diff != "" {
		t.Errorf("unexpected changes (-want +got):\n%s", diff)
	}
	if message := sh(t, root, "git tag --list --format='%(contents)' pytorch/v0.2.0"); !strings.HasPrefix(message,
		"pytorch v0.2.0\n\n- PyTorchTrainingJob") {
		t.Errorf("unexpected message of the tag: %q", message)
	}
	components, err := os.ReadFile(filepath.Join(root, "bin/release/pytorch-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []string{
		"kind: CustomResourceDefinition\n", "namespace: t9k-pytorch\n", "image: tensorstack/pytorch-controller:v0.2.0\n",
	} {
		if !strings.Contains(string(components), object) {
			t.Errorf("the components do not contain %q", object)
		}
	}
	checkProvenance(t, root)
	// The released manifests have the same objects as the folder deploy/pytorch.
	if diff := cmp.Diff(objects(sh(t, root, "bin/kustomize build deploy/pytorch")),
		objects(string(components))); diff != "" {
		t.Errorf("unexpected components (-of the folder +got):\n%s", diff)
	}
	chart := sh(t, root, "bin/helm show chart bin/release/pytorch-controller-0.2.0.tgz; "+
		"bin/helm template bin/release/pytorch-controller-0.2.0.tgz --namespace t9k-pytorch")
	for _, line := range []string{
		"version: 0.2.0\n", "appVersion: v0.2.0\n", "image: tensorstack/pytorch-controller:v0.2.0\n",
	} {
		if !strings.Contains(chart, line) {
			t.Errorf("the chart does not contain %q", line)
		}
	}
}

// A client is built from the modules that it requires, and the program contains the commit of the release.
func TestReleaseOfAClientAfterItsFrameworks(t *testing.T) {
	t.Parallel()
	root := copied(t)
	sh(t, root, "for module in common kit tensorflow deepspeed; do git tag $module/v0.1.0; done")
	if _, err := run(t, release{root: root, module: "pytorch", version: "v0.2.0"}); err != nil {
		t.Fatal(err)
	}
	platform := "linux/" + runtime.GOARCH
	out, err := run(t, release{root: root, module: "cli", version: "v0.1.0", platforms: platform})
	if err != nil {
		t.Fatal(err)
	}
	archive := "kubectl-train_v0.1.0_linux_" + runtime.GOARCH
	want := strings.ReplaceAll(`git push origin cli/v0.1.0

Written: bin/release/kubectl-train_v0.1.0_checksums.txt
Written: bin/release/ARCHIVE.cdx.json
Written: bin/release/ARCHIVE.tar.gz
Written: bin/release/train.yaml
Written: bin/release/cli-v0.1.0.zip
Written: bin/release/cli-v0.1.0.provenance.json
Warning: nothing is signed. If you have the key, run: make sign MODULE=cli KEY=cosign.key
`, "ARCHIVE", archive)
	if !strings.HasSuffix(out, want) {
		t.Errorf("the output does not end with the files and the warning that nothing is signed:\n%s", out)
	}
	want = strings.TrimSpace(`
+## v0.1.0 (2026-12-24)
+tensorstack.dev/jobs/pytorch v0.2.0
+tensorstack.dev/jobs/pytorch v0.2.0 => ./pytorch
+cli: {version: v0.1.0, role: client, common: v0.1.0, pytorch: v0.2.0, tensorflow: v0.1.0, deepspeed: v0.1.0}`)
	if diff := cmp.Diff(want,
		sh(t, root, "git diff -U0 pytorch/v0.2.0 cli/v0.1.0 | grep '^+[^+]' | sed 's/^+[\t ]*/+/'")); diff != "" {
		t.Errorf("unexpected changes (-want +got):\n%s", diff)
	}
	commit := sh(t, root, "git rev-parse 'cli/v0.1.0^{commit}'")
	content := sh(t, root, "cd bin/release; sha256sum --check --quiet kubectl-train_v0.1.0_checksums.txt; "+
		"tar xzf "+archive+".tar.gz kubectl-train; grep --count "+commit+" kubectl-train")
	if content != "1" {
		t.Errorf("the program does not contain the commit %s: %s", commit, content)
	}
	statement, err := os.ReadFile(filepath.Join(root, "bin/release/cli-v0.1.0.provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	build, subjects, err := provenance.Read(statement)
	if err != nil {
		t.Fatal(err)
	}
	if build.Commit != commit || len(subjects) != 5 {
		t.Errorf("the provenance has the commit %s and %d files, want %s and 5", build.Commit, len(subjects), commit)
	}
}

// checkProvenance checks that the provenance of pytorch v0.2.0 has the files of the release and the tagged commit.
func checkProvenance(t *testing.T, root string) {
	t.Helper()
	statement, err := os.ReadFile(filepath.Join(root, "bin/release/pytorch-v0.2.0.provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	build, subjects, err := provenance.Read(statement)
	if err != nil {
		t.Fatal(err)
	}
	want := provenance.Build{
		Type: provenance.Release, Module: "pytorch", Version: "v0.2.0",
		Commit: sh(t, root, "git rev-parse 'pytorch/v0.2.0^{commit}'"), GoVersion: runtime.Version(),
	}
	if diff := cmp.Diff(want, build); diff != "" {
		t.Errorf("unexpected provenance (-want +got):\n%s", diff)
	}
	var sums strings.Builder
	for _, s := range subjects {
		fmt.Fprintf(&sums, "%s  bin/release/%s\n", s.SHA256, s.Name)
	}
	files := "bin/release/pytorch-components.yaml bin/release/pytorch-controller-0.2.0.tgz bin/release/pytorch-v0.2.0.zip"
	if diff := cmp.Diff(sh(t, root, "sha256sum "+files), strings.TrimSpace(sums.String())); diff != "" {
		t.Errorf("unexpected subjects (-sha256sum +provenance):\n%s", diff)
	}
	archive, err := zip.OpenReader(filepath.Join(root, "bin/release/pytorch-v0.2.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := archive.Open("tensorstack.dev/jobs/pytorch@v0.2.0/go.mod"); err != nil {
		t.Errorf("the archive of the module has no go.mod: %v", err)
	}
}

// To verify a release, users can build the tagged sources and compare the digests. So two builds must give the same
// files.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	root := copied(t)
	var sums [2]string
	for i := range sums {
		_, err := run(t, release{root: root, module: "pytorch", version: "v0.2.0", dry: true})
		if err == nil || !strings.Contains(err.Error(), "release common first") {
			t.Fatalf("got the error %v, want one that common is not released", err)
		}
		sums[i] = sh(t, root, "cd bin/release; sha256sum *")
		sh(t, root, "rm -r bin/release")
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("the files differ (-first +second):\n%s", diff)
	}
}

// Users of an older minor version can still get fixes after a newer minor version has been released.
func TestReleaseOfAPatchOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	root := copied(t)
	const fix = "sed -i '3i ## %s (unreleased)\\n\\n- A fix.\\n' pytorch/CHANGELOG.md; git commit -qam 'Fix it'"
	for _, step := range []struct{ before, module, version string }{
		{module: "common", version: "v0.1.0"},
		{module: "kit", version: "v0.1.0"},
		{module: "pytorch", version: "v0.1.0"},
		{before: fmt.Sprintf(fix, "v0.2.0"), module: "pytorch", version: "v0.2.0"},
		{
			before: "git checkout -q -b pytorch-0.1 pytorch/v0.1.0; " + fmt.Sprintf(fix, "v0.1.1"), module: "pytorch",
			version: "v0.1.1",
		},
	} {
		if step.before != "" {
			sh(t, root, step.before)
		}
		if _, err := run(t, release{root: root, module: step.module, version: step.version}); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, root, fmt.Sprintf(fix, "v0.2.0"))
	for version, want := range map[string]string{
		"v0.2.0": "pytorch/v0.2.0 is released already", "v0.1.0": "pytorch/v0.1.0 is released already",
	} {
		if _, err := run(t, release{root: root, module: "pytorch", version: version}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want %q", err, want)
		}
	}
	all := "common/v0.1.0\nkit/v0.1.0\npytorch/v0.1.0\npytorch/v0.1.1\npytorch/v0.2.0"
	if diff := cmp.Diff(all, sh(t, root, "git tag")); diff != "" {
		t.Errorf("unexpected tags (-want +got):\n%s", diff)
	}
}

// Modules can require different versions of common. In development, go.work replaces all of them with the folder of
// common.
func TestReleaseWithANewerCommon(t *testing.T) {
	t.Parallel()
	root := copied(t)
	for _, step := range []struct{ before, module, version string }{
		{module: "common", version: "v0.1.0"},
		{module: "kit", version: "v0.1.0"},
		{
			before: "sed -i '3i ## v0.1.1 (unreleased)\\n\\n- More.\\n' common/CHANGELOG.md; touch common/new.go; " +
				"git add -A; git commit -qm 'Change common'",
			module: "common", version: "v0.2.0",
		},
		{module: "tensorflow", version: "v0.1.0"},
	} {
		if step.before != "" {
			sh(t, root, step.before)
		}
		if _, err := run(t, release{root: root, module: step.module, version: step.version}); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.TrimSpace(`
+tensorstack.dev/jobs/common v0.2.0 => ./common
+## v0.1.0 (2026-12-24)
+tensorstack.dev/jobs/common v0.2.0
+tensorflow: {version: v0.1.0, role: framework, common: v0.2.0, kit: v0.1.0}`)
	if diff := cmp.Diff(want,
		sh(t, root, "git diff -U0 common/v0.2.0 tensorflow/v0.1.0 | grep '^+[^+]' | sed 's/^+[\t ]*/+/'")); diff != "" {
		t.Errorf("unexpected changes (-want +got):\n%s", diff)
	}
}

// A module is released only if the version of common that it requires is released, and no version is released twice.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	root := copied(t)
	for _, tc := range []struct {
		name, before, module, version, want string
	}{
		{name: "no module", version: "v0.2.0", want: `no module ""`},
		{name: "a module that does not exist", module: "jax", version: "v0.2.0", want: `no module "jax"`},
		{name: "no version", module: "pytorch", want: `"" is not a version`},
		{name: "an incomplete version", module: "pytorch", version: "v0.2", want: `"v0.2" is not a version`},
		{
			name: "a major version that is not in the module path", module: "pytorch", version: "v2.0.0",
			want: "should be v0 or v1, not v2",
		},
		{
			name: "a version less than the one in versions.yaml", module: "common", version: "v0.0.9",
			want: "less than v0.1.0",
		},
		{
			name: "a module whose version of common is not released", module: "pytorch", version: "v0.2.0",
			want: "release common first",
		},
		{
			name: "a tree that is not clean", before: "git tag common/v0.1.0; touch common/new.go", module: "pytorch",
			version: "v0.2.0", want: "not clean",
		},
		{
			name:   "a module that requires common, which has changed since its release",
			before: "git add -A; git commit -qm 'Change common'",
			module: "pytorch", version: "v0.2.0", want: "common has changed since common/v0.1.0",
		},
		{
			name: "a module whose version of kit is not released", before: "git tag -f common/v0.1.0", module: "pytorch",
			version: "v0.2.0", want: "release kit first",
		},
		{
			name: "a client whose version of a framework is not released", before: "git tag kit/v0.1.0", module: "cli",
			version: "v0.2.0", want: "release pytorch first",
		},
		{
			name: "a version that is released already", module: "common", version: "v0.1.0",
			want: "common/v0.1.0 is released already",
		},
		{
			name: "a version less than a released one", module: "common", version: "v0.1.0-rc.1",
			want: "not greater than v0.1.0",
		},
		{
			name:   "a changelog without an unreleased section",
			before: "sed -i 's/(unreleased)/(2026-11-22)/' common/CHANGELOG.md; git commit -qam 'Date it'",
			module: "common", version: "v0.2.0", want: "does not begin with a section",
		},
	} {
		if tc.before != "" {
			sh(t, root, tc.before)
		}
		left := sh(t, root, "git rev-parse HEAD; git tag")
		_, err := run(t, release{root: root, module: tc.module, version: tc.version})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got the error %v, want %q", tc.name, err, tc.want)
		}
		if diff := cmp.Diff(left, sh(t, root, "git rev-parse HEAD; git tag")); diff != "" {
			t.Errorf("%s: the release left commits or tags behind (-before +after):\n%s", tc.name, diff)
		}
	}
}

func TestSchedulerHasComponentsForEachEngine(t *testing.T) {
	t.Parallel()
	root := copied(t)
	if _, err := run(t, release{root: root, module: "scheduler", version: "v0.2.0", dry: true}); err == nil {
		t.Error("got no error, want one that common is not released")
	}
	want := "scheduler-controller-0.2.0.tgz\nscheduler-native-components.yaml\nscheduler-v0.2.0.zip\n" +
		"scheduler-volcano-components.yaml"
	if diff := cmp.Diff(want, sh(t, root, "ls bin/release")); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
}
