package localcluster

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// debian is a release of Debian and its version of Python.
type debian struct{ Suite, Python string }

var (
	bookworm = debian{Suite: "bookworm", Python: "3.11"} // Debian 12
	trixie   = debian{Suite: "trixie", Python: "3.13"}   // Debian 13
)

// bootstrap writes a Debian root file system to the archive rootfs. It downloads Debian packages with the apt
// sources, proxies and keys of this machine. It also moves Python packages into the file system, from the folder
// packages.
func bootstrap(ctx context.Context, image trainingImage, tmp, packages, rootfs string) error {
	sources, err := aptSources(tmp, image.Debian)
	if err != nil {
		return err
	}
	// The section Acquire has settings for downloads, such as proxies and certificates. Other sections are not needed.
	settings, err := run(ctx, "apt-config", "dump", "Acquire")
	if err != nil {
		return err
	}
	settings += "Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n"
	apt, setup := filepath.Join(tmp, "apt.conf"), filepath.Join(tmp, "setup.sh")
	script := "set -e\n" + image.Setup + trainingBase.Setup
	if err := errors.Join(os.WriteFile(apt, []byte(settings), 0o644),
		os.WriteFile(setup, []byte(script), 0o755)); err != nil {
		return err
	}
	args := []string{
		"--mode=root", "--variant=essential", "--format=tar",
		"--include=" + strings.Join(image.Packages, ","),
		"--aptopt=" + apt,
		"--customize-hook=sh " + setup + ` "$1" ` + packages + " " + image.Debian.Python,
	}
	for _, pattern := range slices.Concat(trainingBase.Strip, image.Strip) {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(append(args, image.Debian.Suite, rootfs), sources...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	// After an interrupt, mmdebstrap must be able to unmount file systems.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s\nThe mirror of this machine must have Debian %s", err,
			lastLines(out, 15), image.Debian.Suite)
	}
	return nil
}

// aptSources converts the apt sources of this machine to a release of Debian, writes them to a folder, and returns the
// paths of the files. It leaves out sources that do not name the release of this machine, because it cannot convert
// them.
func aptSources(folder string, release debian) ([]string, error) {
	host, err := hostRelease()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, pattern := range []string{
		"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			sources := sourcesFor(string(text), filepath.Ext(f), host, release.Suite)
			if sources == "" { // mmdebstrap would read standard input instead of an empty file
				continue
			}
			written := filepath.Join(folder, filepath.Base(f))
			if err := os.WriteFile(written, []byte(sources), 0o644); err != nil {
				return nil, err
			}
			found = append(found, written)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("this machine has no apt sources of Debian")
	}
	return found, nil
}

// sourcesFor converts a file with apt sources from one release of Debian to another. It leaves out sources that do
// not name the release to convert from. The extension of the file determines its format.
func sourcesFor(text, extension, from, to string) string {
	separator := "\n"
	if extension == ".sources" {
		separator = "\n\n"
	}
	suite := regexp.MustCompile(`(?m)(^|\s)` + regexp.QuoteMeta(from) + `\b`)
	var sources strings.Builder
	for source := range strings.SplitSeq(text, separator) {
		if suite.MatchString(source) {
			sources.WriteString(suite.ReplaceAllString(source, "${1}"+to) + separator)
		}
	}
	return sources.String()
}

// hostRelease returns the name of the release of Debian on this machine.
func hostRelease() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return name, nil
		}
	}
	return "", errors.New("/etc/os-release has no VERSION_CODENAME: images are built only on Debian")
}

// packageFile downloads a Debian package and returns the content of the first file whose path ends with a slash and
// the suffix. It does not install the package.
func packageFile(ctx context.Context, tmp, pkg, suffix string) ([]byte, error) {
	fetch := func() error {
		cmd := exec.CommandContext(ctx, "apt-get", "-q", "download", pkg)
		cmd.Dir = tmp
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get download %s: %w\n%s", pkg, err, lastLines(out, 5))
		}
		return nil
	}
	if fetch() != nil { // the package lists can be missing or out of date
		if err := aptGet(ctx, "update"); err != nil {
			return nil, err
		}
		if err := fetch(); err != nil {
			return nil, err
		}
	}
	debs, err := filepath.Glob(filepath.Join(tmp, pkg+"_*.deb"))
	if err != nil || len(debs) != 1 {
		return nil, fmt.Errorf("apt-get download %s left %q: %w", pkg, debs, fs.ErrNotExist)
	}
	unpack := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", debs[0])
	out, err := unpack.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := unpack.Start(); err != nil {
		return nil, err
	}
	// dpkg-deb does not end by itself, because its output is not read to the end.
	defer func() { _ = errors.Join(unpack.Process.Kill(), unpack.Wait()) }()
	for entries := tar.NewReader(out); ; {
		entry, err := entries.Next()
		if err != nil {
			return nil, fmt.Errorf("package %s does not have the file %s: %w", pkg, suffix, err)
		}
		if strings.HasSuffix(entry.Name, "/"+suffix) {
			return io.ReadAll(entries)
		}
	}
}
