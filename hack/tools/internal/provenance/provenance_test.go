package provenance

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const commit = "8587371bb1c5b5f7b1e0cd8d9c2f3a4e5d6c7b8a"

var build = Build{
	Type: Image, Module: "pytorch", Version: "v0.2.0", Commit: commit, GoVersion: "go1.26.8",
	Platforms: []string{"linux/amd64", "linux/arm64"},
}

// want is the expected statement, as JSON, about the variable build and one artifact. The format of statements must
// not change, because other programs read them.
const want = `{
	"_type": "https://in-toto.io/Statement/v1",
	"subject": [
		{"name": "chart.tgz", "digest": {"sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}}
	],
	"predicateType": "https://slsa.dev/provenance/v1",
	"predicate": {
		"buildDefinition": {
			"buildType": "https://tensorstack.dev/jobs/buildtypes/image/v1",
			"externalParameters": {
				"module": "pytorch", "version": "v0.2.0", "platforms": ["linux/amd64", "linux/arm64"]
			},
			"resolvedDependencies": [
				{
					"uri": "git+https://tensorstack.dev/jobs@refs/tags/pytorch/v0.2.0",
					"digest": {"gitCommit": "8587371bb1c5b5f7b1e0cd8d9c2f3a4e5d6c7b8a"}
				},
				{"name": "go", "uri": "pkg:golang/std@1.26.8"}
			]
		},
		"runDetails": {"builder": {"id": "https://tensorstack.dev/jobs/builders/maintainer"}}
	}
}`

func TestStatementContainsTheArtifactsAndTheirSources(t *testing.T) {
	t.Parallel()
	statement, err := Statement(build, SubjectOf("chart.tgz", []byte("hello")))
	if err != nil {
		t.Fatal(err)
	}
	var wanted, got any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(statement, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("unexpected statement (-want +got):\n%s", diff)
	}
	for range 10 {
		again, err := Statement(build, SubjectOf("chart.tgz", []byte("hello")))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(statement, again) {
			t.Fatalf("the same build gives different statements:\n%s\nand\n%s", statement, again)
		}
	}
}

func TestReadReturnsTheBuildAndSubjectsOfAStatement(t *testing.T) {
	t.Parallel()
	statement, err := Statement(build, SubjectOf("chart.tgz", []byte("hello")))
	if err != nil {
		t.Fatal(err)
	}
	b, subjects, err := Read(statement)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(build, b); diff != "" {
		t.Errorf("unexpected build (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Subject{SubjectOf("chart.tgz", []byte("hello"))}, subjects); diff != "" {
		t.Errorf("unexpected subjects (-want +got):\n%s", diff)
	}
}

func TestStatementRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		build    func(b *Build)
		subjects []Subject
		want     string
	}{
		{
			name: "a build of uncommitted changes", build: func(b *Build) { b.Commit += "-dirty" },
			subjects: []Subject{SubjectOf("a", nil)}, want: "not the full ID of a commit",
		},
		{name: "a statement without artifacts", build: func(*Build) {}, want: "subject"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := build
			tc.build(&b)
			if _, err := Statement(b, tc.subjects...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		statement string
		want      string
	}{
		{name: "a statement that is not JSON", statement: "PK", want: "syntax"},
		{
			name: "a statement with another predicate", want: "predicate type https://spdx.dev/Document",
			statement: strings.Replace(want, PredicateType, "https://spdx.dev/Document", 1),
		},
		{
			name: "a statement without a commit", want: "contains no commit",
			statement: strings.Replace(want, "gitCommit", "sha1", 1),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := Read([]byte(tc.statement)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}
