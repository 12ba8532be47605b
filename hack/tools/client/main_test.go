package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newRoot returns a repository with the script for completion.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, "cli/kubectl_complete-train", "#!/bin/sh\n")
	return root
}

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// packedIn packs a program for two platforms and returns the folder with the written files.
func packedIn(t *testing.T, root string) string {
	t.Helper()
	output := t.TempDir()
	o := options{root: root, module: "cli", version: "v0.2.0", output: output}
	for _, name := range []string{"linux/amd64", "darwin/arm64"} {
		folder := t.TempDir()
		write(t, folder, "kubectl-train", "#!/bin/sh\necho kubectl train for "+name+"\n")
		write(t, folder, "LICENSE", "Apache-2.0\n")
		write(t, folder, "THIRD_PARTY_LICENSES", "MIT\n")
		write(t, folder, "sbom.cdx.json", `{"platform": "`+name+"\"}\n")
		o.folders = append(o.folders, name+"="+folder)
	}
	if err := pack(o); err != nil {
		t.Fatal(err)
	}
	return output
}

// sh runs a command in a folder and returns its output.
func sh(t *testing.T, folder, command string, environment ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), environment...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return strings.TrimSpace(string(output))
}

func TestArchiveContainsTheProgramAndNothingOfThisMachine(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(packedIn(t, newRoot(t)), "kubectl-train_v0.2.0_darwin_arm64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if compressed.Name != "" || !compressed.ModTime.IsZero() {
		t.Errorf("the archive has the name %q and the time %s, want none", compressed.Name, compressed.ModTime)
	}
	got := map[string]string{}
	for archived := tar.NewReader(compressed); ; {
		header, err := archived.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archived)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = fmt.Sprintf("%o %d:%d %s%s %s\n%s", header.Mode, header.Uid, header.Gid, header.Uname,
			header.Gname, header.ModTime.UTC().Format(time.DateTime), content)
	}
	want := map[string]string{
		"LICENSE":                "644 0:0  1980-01-01 00:00:00\nApache-2.0\n",
		"THIRD_PARTY_LICENSES":   "644 0:0  1980-01-01 00:00:00\nMIT\n",
		"kubectl-train":          "755 0:0  1980-01-01 00:00:00\n#!/bin/sh\necho kubectl train for darwin/arm64\n",
		"kubectl_complete-train": "755 0:0  1980-01-01 00:00:00\n#!/bin/sh\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
}

func TestTheSameInputGivesTheSameFiles(t *testing.T) {
	t.Parallel()
	var sums [2]string
	for i := range sums {
		sums[i] = sh(t, packedIn(t, newRoot(t)), "sha256sum *")
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("the files differ (-first +second):\n%s", diff)
	}
}

func TestChecksumsCoverEveryFile(t *testing.T) {
	t.Parallel()
	want := strings.TrimSpace(`
kubectl-train_v0.2.0_linux_amd64.tar.gz: OK
kubectl-train_v0.2.0_linux_amd64.cdx.json: OK
kubectl-train_v0.2.0_darwin_arm64.tar.gz: OK
kubectl-train_v0.2.0_darwin_arm64.cdx.json: OK
train.yaml: OK`)
	folder := packedIn(t, newRoot(t))
	if diff := cmp.Diff(want, sh(t, folder, "sha256sum --check --strict kubectl-train_v0.2.0_checksums.txt")); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
	if got := sh(t, folder, "ls | wc -l"); got != "6" {
		t.Errorf("there are %s files, want the checksums and the 5 files in it", got)
	}
}

// built returns the path of a program of krew.
func built(t *testing.T, program string) string {
	t.Helper()
	file, err := filepath.Abs("../../../bin/" + program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run this test with `make test-release`, which builds the programs of krew", err)
	}
	return file
}

func TestKrewAcceptsTheManifest(t *testing.T) {
	t.Parallel()
	folder := packedIn(t, newRoot(t))
	output := sh(t, folder, built(t, "validate-krew-manifest")+" -skip-install -manifest train.yaml")
	if !strings.Contains(output, "structural validation OK") || !strings.Contains(output, "no overlapping") {
		t.Errorf("unexpected output:\n%s", output)
	}
	content := sh(t, folder, "cat train.yaml")
	const url = "uri: https://tensorstack.dev/jobs/releases/cli/v0.2.0/kubectl-train_v0.2.0_darwin_arm64.tar.gz\n"
	if !strings.Contains(content, url) {
		t.Errorf("the manifest does not contain %q:\n%s", url, content)
	}
}

func TestKrewInstallsTheArchiveOfEachPlatform(t *testing.T) {
	t.Parallel()
	folder := packedIn(t, newRoot(t))
	for _, name := range []string{"linux/amd64", "darwin/arm64"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			system, architecture, _ := strings.Cut(name, "/")
			root := t.TempDir()
			archive := "kubectl-train_v0.2.0_" + system + "_" + architecture + ".tar.gz"
			said := sh(t, folder, built(t, "krew")+" install --manifest train.yaml --archive "+archive,
				"KREW_ROOT="+root, "KREW_OS="+system, "KREW_ARCH="+architecture, "KREW_NO_UPGRADE_CHECK=true")
			if got := sh(t, root, "bin/kubectl-train"); got != "kubectl train for "+name {
				t.Errorf("the program printed %q", got)
			}
			// The output of krew contains the commands that install the script for completion. Run them, as the user would.
			var commands []string
			for line := range strings.Lines(said) {
				if _, command, ok := strings.Cut(strings.TrimSpace(line), "|  |   "); ok {
					commands = append(commands, command)
				}
			}
			sh(t, root, strings.Join(commands, "\n"), "KREW_ROOT="+root)
			if got := sh(t, root, "ls bin; test -x bin/kubectl_complete-train"); got != "kubectl-train\nkubectl_complete-train" {
				t.Errorf("the programs are %q\n%s", got, said)
			}
		})
	}
}

func TestPackRefuses(t *testing.T) {
	t.Parallel()
	licensed := t.TempDir()
	write(t, licensed, "LICENSE", "Apache-2.0\n")
	write(t, licensed, "THIRD_PARTY_LICENSES", "MIT\n")
	for name, tc := range map[string]struct{ folder, want string }{
		"a folder without a platform":  {"bin/build", `"bin/build" is not in the form PLATFORM=FOLDER`},
		"a platform without a folder":  {"linux/amd64=", `"linux/amd64=" is not in the form`},
		"a folder without the license": {"linux/amd64=bin/build", "bin/build/LICENSE: no such file"},
		"a folder without the program": {"linux/amd64=" + licensed, licensed + "/kubectl-train: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := pack(options{root: newRoot(t), module: "cli", version: "v0.2.0", folders: []string{tc.folder}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
		})
	}
}
