package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mit returns the MIT license with owner as the holder of the copyright.
func mit(owner string) string {
	return "Copyright (c) 2026 " + owner + `

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
}

const wtfpl = `DO WHAT THE FUCK YOU WANT TO PUBLIC LICENSE
Version 2, December 2004

Everyone is permitted to copy and distribute verbatim or modified copies of this license document, and changing it is
allowed as long as the name is changed.

DO WHAT THE FUCK YOU WANT TO PUBLIC LICENSE
TERMS AND CONDITIONS FOR COPYING, DISTRIBUTION AND MODIFICATION

0. You just DO WHAT THE FUCK YOU WANT TO.
`

// write writes files into a folder. The keys of the map are their paths.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// collected runs the tool for packages, each given as MODULE VERSION PACKAGE, and returns the content of the file
// that the tool writes. The folder root/modules/MODULE contains the files of a module, and root/go contains those of
// Go.
func collected(t *testing.T, root string, packages ...string) (string, error) {
	t.Helper()
	var listed strings.Builder
	for _, p := range packages {
		fields := strings.Fields(p)
		dir := filepath.Join(root, "modules", fields[0])
		fmt.Fprintf(&listed, `{"Dir": %q, "ImportPath": %q, "Module": {"Path": %q, "Version": %q, "Dir": %q}}`,
			filepath.Join(dir, fields[2]), fields[0]+"/"+fields[2], fields[0], fields[1], dir)
	}
	output := filepath.Join(root, "THIRD_PARTY_LICENSES")
	if err := run(strings.NewReader(listed.String()), filepath.Join(root, "go"), output); err != nil {
		return "", err
	}
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return string(content), nil
}

func TestTheFileHasEachTextOnceWithTheFilesThatHaveIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{
		"go/LICENSE":                             mit("Go"),
		"modules/example.com/a/LICENSE":          mit("A"),
		"modules/example.com/a/README.md":        "A is licensed like B.\n",
		"modules/example.com/a/x/license.go":     "package x\n",
		"modules/example.com/a/y/NOTICE":         "A contains Y.\n",
		"modules/example.com/a/y/PATENTS":        "Y has a patent.\n",
		"modules/example.com/a/y/z/LICENSE.txt":  mit("Z"),
		"modules/example.com/a/unused/LICENSE":   mit("Unused"),
		"modules/example.com/b/COPYING":          mit("A"),
		"modules/tensorstack.dev/jobs/c/main.go": "package main\n",
	})
	got, err := collected(t, root, "example.com/b v0.2.0 .", "example.com/a v1.0.0 x", "example.com/a v1.0.0 y/z",
		"tensorstack.dev/jobs/c v0.1.0 .")
	if err != nil {
		t.Fatal(err)
	}
	double, single := strings.Repeat("=", 80), strings.Repeat("-", 80)
	want := strings.Join([]string{
		"This program contains the following software of others, under the licenses below.", "",
		double, "Go LICENSE", "License: MIT", single, "", mit("Go"),
		double, "example.com/a v1.0.0 LICENSE", "example.com/b v0.2.0 COPYING", "License: MIT", single, "", mit("A"),
		double, "example.com/a v1.0.0 y/NOTICE", single, "", "A contains Y.\n",
		double, "example.com/a v1.0.0 y/PATENTS", single, "", "Y has a patent.\n",
		double, "example.com/a v1.0.0 y/z/LICENSE.txt", "License: MIT", single, "", mit("Z"),
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected texts (-want +got):\n%s", diff)
	}
}

func TestTheToolRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		license map[string]string
		want    string
	}{
		"a module without a license": {
			map[string]string{"NOTICE": "A contains B.\n"}, "example.com/a/x: no known license is in its folder",
		},
		"a module whose README alone has a license": {
			map[string]string{"README.md": mit("A")}, "example.com/a/x: no known license is in its folder",
		},
		"a license that go-licenses does not know": {
			map[string]string{"LICENSE": mit("A"), "COPYING": "Be nice to each other.\n"},
			"COPYING is no license that go-licenses knows",
		},
		"a license of a type that is not allowed": {
			map[string]string{"LICENSE": mit("A"), "COPYING": wtfpl},
			`COPYING has the license WTFPL, which is of the type "forbidden"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write(t, root, map[string]string{"go/LICENSE": mit("Go"), "modules/example.com/a/x/x.go": "package x\n"})
			write(t, filepath.Join(root, "modules/example.com/a"), tc.license)
			if _, err := collected(t, root, "example.com/a v1.0.0 x"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestEmbeddedFiles checks that the license of a package does not count as the license of the files that it embeds.
func TestEmbeddedFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"go/LICENSE": mit("Go"), "a/LICENSE": mit("A")})
	run := func(path string) (string, error) {
		listed := fmt.Sprintf(`{"Dir": %[1]q, "ImportPath": %[2]q, "EmbedFiles": ["data"], `+
			`"Module": {"Path": "example.com/a", "Version": "v1.0.0", "Dir": %[1]q}}`, filepath.Join(root, "a"), path)
		output := filepath.Join(t.TempDir(), "THIRD_PARTY_LICENSES")
		if err := run(strings.NewReader(listed), filepath.Join(root, "go"), output); err != nil {
			return "", err
		}
		content, err := os.ReadFile(output)
		return string(content), err
	}
	const refusal = "example.com/a embeds 1 files, such as data"
	if _, err := run("example.com/a"); err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("got the error %v for files that nobody has looked at", err)
	}
	got, err := run("golang.org/x/net/publicsuffix")
	if err != nil || !strings.Contains(got, "\nexample.com/a v1.0.0 data\n") ||
		!strings.Contains(got, "Mozilla Public License") {
		t.Errorf("got the error %v and the texts\n%s", err, got)
	}
}

// TestTheLicensesOfALibrary runs the tool for the packages of the tool, as the go command lists them.
func TestTheLicensesOfALibrary(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,EmbedFiles,ImportPath,Module",
		"github.com/google/go-cmp/cmp")
	list.Env = append(os.Environ(), "GOWORK=off")
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "THIRD_PARTY_LICENSES")
	if err := run(bytes.NewReader(packages), strings.TrimSpace(string(goroot)), output); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nGo LICENSE\n", "Copyright 2009 The Go Authors.", "\ngithub.com/google/go-cmp v", "\nLicense: BSD-3-Clause\n",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the licenses of go-cmp do not contain %q", want)
		}
	}
}
