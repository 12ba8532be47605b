package main

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

func TestBOMListsEveryModuleInTheRequiredVersion(t *testing.T) {
	t.Parallel()
	bom, err := bomOf(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "tensorstack.dev/jobs/pytorch", Version: "(devel)"},
		Deps: []*debug.Module{
			{
				Path: "tensorstack.dev/jobs/common", Version: "v0.1.0",
				Replace: &debug.Module{Path: "../common", Version: "(devel)"},
			},
			{Path: "sigs.k8s.io/controller-runtime", Version: "v0.25.2", Sum: "h1:AQID"},
			{
				Path: "example.com/forked", Version: "v1.0.0",
				Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1+incompatible"},
			},
		},
	}, "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("pkg:golang/tensorstack.dev/jobs/pytorch@v0.2.0", bom.Metadata.Component.PackageURL); diff != "" {
		t.Errorf("unexpected application (-want +got):\n%s", diff)
	}
	var got []string
	for _, c := range *bom.Components {
		got = append(got, c.PackageURL)
	}
	want := []string{
		"pkg:golang/example.com/fork@v1.0.1%2Bincompatible", "pkg:golang/sigs.k8s.io/controller-runtime@v0.25.2",
		"pkg:golang/std@1.26.8", "pkg:golang/tensorstack.dev/jobs/common@v0.1.0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected components (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: "010203"}},
		(*bom.Components)[1].Hashes); diff != "" {
		t.Errorf("unexpected hashes (-want +got):\n%s", diff)
	}
}

// The test runs the tool for the binary of the test, because any Go binary contains a list of its modules.
func TestDocumentIsReproducibleAndListsEveryModuleOnce(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var documents [2]string
	for i := range documents {
		file := filepath.Join(t.TempDir(), "sbom.cdx.json")
		if err := run(binary, "v0.1.0", file); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents[i] = string(content)
	}
	if diff := cmp.Diff(documents[0], documents[1]); diff != "" {
		t.Errorf("the documents of one binary differ (-first +second):\n%s", diff)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(documents[0]), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cdx.SpecVersion1_6 || bom.Metadata.Component.Name == "" {
		t.Errorf("the document has version %s and describes %q, want version 1.6 and a name",
			bom.SpecVersion, bom.Metadata.Component.Name)
	}
	var refs []string
	for _, c := range *bom.Components {
		refs = append(refs, c.BOMRef)
	}
	if !slices.Contains(refs, "pkg:golang/std@"+strings.TrimPrefix(runtime.Version(), "go")) {
		t.Errorf("the document does not list the standard library: %q", refs)
	}
	if diff := cmp.Diff(refs, *(*bom.Dependencies)[0].Dependencies); diff != "" {
		t.Errorf("the dependencies differ from the components (-components +dependencies):\n%s", diff)
	}
	if once := slices.Compact(slices.Clone(refs)); len(once) != len(refs) {
		t.Errorf("a module is listed twice: %q", refs)
	}
}

func TestRunRefusesAFileThatIsNotAGoBinary(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(file, "v0.1.0", file+".json"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got the error %v, want one that names the file", err)
	}
}
