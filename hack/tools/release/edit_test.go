package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

// versionsOf maps each module that a module requires to the required version.
type versionsOf = map[string]string

// outcome checks that an edit returned the wanted text. If wantError is not empty, outcome instead checks that the
// edit returned this error.
func outcome(t *testing.T, got string, err error, want, wantError string) {
	t.Helper()
	if wantError != "" {
		if err == nil || !strings.Contains(err.Error(), wantError) {
			t.Errorf("got the error %v, want %q", err, wantError)
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
		"the unreleased section gets the version and the date, whatever its version": {
			content: "# Changelog\n\n## v0.1.1 (unreleased)\n\n- One.\n- Two.\n\n" + older,
			want:    "# Changelog\n\n## v0.2.0 (2026-12-24)\n\n- One.\n- Two.\n\n" + older, wantEntries: "- One.\n- Two.",
		},
		"the unreleased section can be the only one": {
			content: "# Changelog\n\n## v0.1.0 (unreleased)\n\n- One.\n",
			want:    "# Changelog\n\n## v0.2.0 (2026-12-24)\n\n- One.\n", wantEntries: "- One.",
		},
		"a changelog without an unreleased section is refused": {
			content: "# Changelog\n\n" + older, wantError: "does not begin with a section",
		},
		"an unreleased section without an entry is refused": {
			content: "# Changelog\n\n## v0.2.0 (unreleased)\n\n" + older, wantError: "has no entry",
		},
		"a changelog without sections is refused": {
			content: "# Changelog\n", wantError: "does not begin with a section",
		},
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
	const content = "# The modules.\nmodules:\n  common: {version: v0.1.0}\n" +
		"  pytorch: {version: v0.1.0, common: v0.1.0} # the first\nkubernetes: {oldest: \"1.34\"}\n"
	const pytorch = "{version: v0.1.0, common: v0.1.0, kit: v0.1.0}"
	const withKit = "modules:\n  kit: {version: v0.1.0, common: v0.1.0}\n  pytorch: " + pytorch + "\n"
	for name, tc := range map[string]struct {
		content, module string
		to              versions.Module
		want, wantError string
	}{
		"a module gets its version and the version of common": {
			content: content, module: "pytorch",
			to:   versions.Module{Version: "v0.10.0", Requires: versionsOf{"common": "v0.2.0"}},
			want: strings.Replace(content, "{version: v0.1.0, common: v0.1.0}", "{version: v0.10.0, common: v0.2.0}", 1),
		},
		"a module that is tested with kit also gets the version of kit": {
			content: withKit, module: "pytorch",
			to:   versions.Module{Version: "v0.10.0", Requires: versionsOf{"common": "v0.2.0", "kit": "v0.3.0"}},
			want: strings.Replace(withKit, pytorch, "{version: v0.10.0, common: v0.2.0, kit: v0.3.0}", 1),
		},
		"common gets only its version": {
			content: content, module: "common", to: versions.Module{Version: "v0.2.0"},
			want: strings.Replace(content, "{version: v0.1.0}", "{version: v0.2.0}", 1),
		},
		"a module with each key on a separate line gets its version": {
			content: "modules:\n  common:\n    version: v0.1.0\n", module: "common", to: versions.Module{Version: "v0.2.0"},
			want: "modules:\n  common:\n    version: v0.2.0\n",
		},
		"a module that does not exist is refused": {
			content: content, module: "jax", to: versions.Module{Version: "v0.1.0"}, wantError: "no modules.jax.version",
		},
		"a file that is not YAML is refused": {
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
		"a manifest gets the version as the tag": {
			manifest: manifest, want: strings.Replace(manifest, "v0.1.0", "v0.2.0", 1),
		},
		"a kustomization gets the version as the new tag": {
			manifest: "images:\n  - {name: controller, newName: tensorstack/pytorch-controller, newTag: v0.1.0}\n",
			want:     "images:\n  - {name: controller, newName: tensorstack/pytorch-controller, newTag: v0.2.0}\n",
		},
		"a manifest of another image is refused": {
			manifest: strings.Replace(manifest, "pytorch", "jax", 1), wantError: "0 times",
		},
		"a manifest with the image twice is refused": {manifest: manifest + manifest, wantError: "2 times"},
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
	got, err := requiring(goMod,
		versions.Module{Version: "v0.3.0", Requires: versionsOf{"common": "v0.2.0", "kit": "v0.4.0"}})
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
		"a newer version is added if a module requires it": {
			goWork: before + v1 + after, common: map[string]bool{"v0.1.0": true, "v0.2.0": true}, want: before + v1 + v2 + after,
		},
		"an old version is removed if no module requires it": {
			goWork: before + v1 + v2 + after, common: map[string]bool{"v0.2.0": true}, want: before + v2 + after,
		},
		"a new version replaces the old one": {
			goWork: before + v1 + after, common: map[string]bool{"v0.2.0": true}, want: before + v2 + after,
		},
		"required versions stay": {
			goWork: before + v1 + after, common: map[string]bool{"v0.1.0": true}, want: before + v1 + after,
		},
		"a replace directive outside a block is changed": {
			goWork: use + "replace tensorstack.dev/jobs/common v0.1.0 => ./common\n", common: map[string]bool{"v0.2.0": true},
			want: use + "replace tensorstack.dev/jobs/common v0.2.0 => ./common\n",
		},
		"a go.work that does not replace common is refused": {
			goWork: before + after, common: map[string]bool{"v0.1.0": true}, wantError: "does not replace common",
		},
		"a file that is not a go.work is refused": {goWork: "require", wantError: "go.work:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := replacing(tc.goWork, "common", tc.common)
			outcome(t, got, err, tc.want, tc.wantError)
		})
	}
}
