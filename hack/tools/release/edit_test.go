package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

// outcome compares what an edit made with what it should have made.
func outcome(t *testing.T, got string, err error, want, wantError string) {
	t.Helper()
	if wantError != "" {
		if err == nil || !strings.Contains(err.Error(), wantError) {
			t.Errorf("the error is %v, want %q", err, wantError)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected content (-want +got):\n%s", diff)
	}
}

func TestDatedChangelog(t *testing.T) {
	t.Parallel()
	const older = "## v0.1.0 (2026-11-22)\n\n- The first.\n"
	for name, tc := range map[string]struct{ content, want, wantEntries, wantError string }{
		"the first section gets its version and date, whatever was guessed": {
			content: "# Changelog\n\n## v0.1.1 (unreleased)\n\n- One.\n- Two.\n\n" + older,
			want:    "# Changelog\n\n## v0.2.0 (2026-12-24)\n\n- One.\n- Two.\n\n" + older, wantEntries: "- One.\n- Two.",
		},
		"it may be the only one": {
			content: "# Changelog\n\n## v0.1.0 (unreleased)\n\n- One.\n",
			want:    "# Changelog\n\n## v0.2.0 (2026-12-24)\n\n- One.\n", wantEntries: "- One.",
		},
		"nothing is new":         {content: "# Changelog\n\n" + older, wantError: "write there what is new"},
		"a section has no entry": {content: "# Changelog\n\n## v0.2.0 (unreleased)\n\n" + older, wantError: "has no entry"},
		"there is no section":    {content: "# Changelog\n", wantError: "write there what is new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, entries, err := datedChangelog(tc.content, "v0.2.0", "2026-12-24")
			outcome(t, got, err, tc.want, tc.wantError)
			if diff := cmp.Diff(tc.wantEntries, entries); diff != "" {
				t.Errorf("unexpected entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	const content = "# Who needs what.\nmodules:\n  common: {version: v0.1.0}\n  pytorch: {version: v0.1.0, common: v0.1.0} # the first\nkubernetes: {oldest: \"1.34\"}\n"
	const pytorch = "{version: v0.1.0, common: v0.1.0, kit: v0.1.0}"
	const withKit = "modules:\n  kit: {version: v0.1.0, common: v0.1.0}\n  pytorch: " + pytorch + "\n"
	for name, tc := range map[string]struct {
		content, module string
		to              versions.Module
		want, wantError string
	}{
		"a module, with what it is built with": {
			content: content, module: "pytorch", to: versions.Module{Version: "v0.10.0", Common: "v0.2.0"},
			want: strings.Replace(content, "{version: v0.1.0, common: v0.1.0}", "{version: v0.10.0, common: v0.2.0}", 1),
		},
		"a module that is tested with the kit": {
			content: withKit, module: "pytorch", to: versions.Module{Version: "v0.10.0", Common: "v0.2.0", Kit: "v0.3.0"},
			want: strings.Replace(withKit, pytorch, "{version: v0.10.0, common: v0.2.0, kit: v0.3.0}", 1),
		},
		"common": {
			content: content, module: "common", to: versions.Module{Version: "v0.2.0"},
			want: strings.Replace(content, "{version: v0.1.0}", "{version: v0.2.0}", 1),
		},
		"each on its line": {
			content: "modules:\n  common:\n    version: v0.1.0\n", module: "common", to: versions.Module{Version: "v0.2.0"},
			want: "modules:\n  common:\n    version: v0.2.0\n",
		},
		"a module that is not there": {
			content: content, module: "jax", to: versions.Module{Version: "v0.1.0"}, wantError: "no modules.jax.version",
		},
		"what is no YAML": {
			content: "{", module: "common", to: versions.Module{Version: "v0.1.0"}, wantError: "reading versions.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := pinned(tc.content, tc.module, tc.to)
			outcome(t, got, err, tc.want, tc.wantError)
		})
	}
}

func TestTagged(t *testing.T) {
	t.Parallel()
	const manifest = "containers:\n  - name: controller\n    image: tensorstack/pytorch-controller:v0.1.0\n    env: []\n"
	for name, tc := range map[string]struct{ manifest, want, wantError string }{
		"the tag becomes the version": {manifest: manifest, want: strings.Replace(manifest, "v0.1.0", "v0.2.0", 1)},
		"that of a kustomization, too": {
			manifest: "images:\n  - {name: controller, newName: tensorstack/pytorch-controller, newTag: v0.1.0}\n",
			want:     "images:\n  - {name: controller, newName: tensorstack/pytorch-controller, newTag: v0.2.0}\n",
		},
		"another image": {manifest: strings.Replace(manifest, "pytorch", "jax", 1), wantError: "0 times"},
		"two of them":   {manifest: manifest + manifest, wantError: "2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tagged(tc.manifest, "pytorch", "v0.2.0")
			outcome(t, got, err, tc.want, tc.wantError)
		})
	}
}

func TestRequiring(t *testing.T) {
	t.Parallel()
	const goMod = "module tensorstack.dev/jobs/pytorch\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.37.1 // pinned\n" +
		"\ttensorstack.dev/jobs/common v0.1.0\n\ttensorstack.dev/jobs/kit v0.1.0\n)\n"
	got, err := requiring(goMod, versions.Module{Version: "v0.3.0", Common: "v0.2.0", Kit: "v0.4.0"})
	newer := strings.NewReplacer("common v0.1.0", "common v0.2.0", "kit v0.1.0", "kit v0.4.0")
	outcome(t, got, err, newer.Replace(goMod), "")
	version, err := required(got, "common")
	outcome(t, version, err, "v0.2.0", "")
	version, err = required(got, "kit")
	outcome(t, version, err, "v0.4.0", "")
	version, err = required(got, "tensorflow")
	outcome(t, version, err, "", "")
}

func TestReplacing(t *testing.T) {
	t.Parallel()
	const (
		use    = "go 1.26.0\n\nuse ./common\n\n"
		before = use + "// Not published.\nreplace (\n"
		v1, v2 = "\ttensorstack.dev/jobs/common v0.1.0 => ./common\n", "\ttensorstack.dev/jobs/common v0.2.0 => ./common\n"
		after  = "\ttensorstack.dev/jobs/pytorch v0.1.0 => ./pytorch\n)\n"
	)
	for name, tc := range map[string]struct {
		goWork          string
		common          map[string]bool
		want, wantError string
	}{
		"a module requires a newer one": {
			goWork: before + v1 + after, common: map[string]bool{"v0.1.0": true, "v0.2.0": true}, want: before + v1 + v2 + after,
		},
		"none requires the old one more": {
			goWork: before + v1 + v2 + after, common: map[string]bool{"v0.2.0": true}, want: before + v2 + after,
		},
		"the new one is instead of the old": {
			goWork: before + v1 + after, common: map[string]bool{"v0.2.0": true}, want: before + v2 + after,
		},
		"nothing changes": {
			goWork: before + v1 + after, common: map[string]bool{"v0.1.0": true}, want: before + v1 + after,
		},
		"it is a line by itself": {
			goWork: use + "replace tensorstack.dev/jobs/common v0.1.0 => ./common\n", common: map[string]bool{"v0.2.0": true},
			want: use + "replace tensorstack.dev/jobs/common v0.2.0 => ./common\n",
		},
		"common is not replaced": {
			goWork: before + after, common: map[string]bool{"v0.1.0": true}, wantError: "does not replace common",
		},
		"what is no go.work": {goWork: "require", wantError: "go.work:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := replacing(tc.goWork, "common", tc.common)
			outcome(t, got, err, tc.want, tc.wantError)
		})
	}
}
