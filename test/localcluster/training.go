package localcluster

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TrainingImage is the image that the PyTorch examples run.
const TrainingImage = "tensorstack/pytorch-example:1.13.1"

// training is all that the training image is made of: its digest is the key of the cached image.
var training = struct {
	Suite    string
	Packages []string
	Strip    []string // shell patterns that dpkg leaves out
	Setup    string   // a shell script that gets the root folder as $1
	DataFrom string   // the package with the handwritten digits
	DataPath string   // their path in it
	Files    map[string]string
	Config   v1.Config
}{
	Suite:    "bookworm", // it has PyTorch 1.13.1, as the tag says
	Packages: []string{"python3-torch"},
	Strip: []string{
		"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
		"/usr/include/*", "/usr/lib/*.a", "/usr/lib/libtorch-test/*",
	},
	// Some of torch asks who it runs as; and nothing of how this machine reaches its packages belongs into an image.
	Setup: `set -e
echo 'nonroot:x:65532:65532:nonroot:/tmp:/bin/sh' >> "$1/etc/passwd"
echo 'nonroot:x:65532:' >> "$1/etc/group"
rm -rf "$1"/etc/apt/sources.list* "$1"/etc/apt/*.d/99mmdebstrap "$1"/var/cache/debconf/* "$1"/var/log/*
`,
	DataFrom: "python3-sklearn",
	DataPath: "sklearn/datasets/data/digits.csv.gz",
	Files: map[string]string{
		"usr/local/bin/torchrun": "#!/bin/sh\nexec python3 -m torch.distributed.run \"$@\"\n",
	},
	Config: v1.Config{
		User:       "65532:65532",
		WorkingDir: "/tmp",
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=/tmp",
			"LANG=C.UTF-8",
			"PYTHONUNBUFFERED=1", // or kubectl logs -f shows nothing for minutes
		},
		Cmd: []string{"python3"},
	},
}

// TrainingImage builds the training image, once, and loads it into the real node, once.
func (c *Cluster) TrainingImage(ctx context.Context) error {
	kind, err := c.NodeKind()
	if err != nil {
		return err
	}
	if kind == Simulated {
		c.Progress.Printf("the nodes are simulated: there is nothing to build or load")
		return nil
	}
	inputs, err := json.Marshal(training)
	if err != nil {
		return err
	}
	h := sha256.New()
	h.Write(inputs)
	key := shortSum(h)
	path := c.Paths.cache("images", "pytorch-example-"+key+".tar")
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if !exists(path) {
		if err := c.installPackages(ctx, missingProgram("mmdebstrap")...); err != nil {
			return err
		}
		if err := c.Progress.Step("build "+TrainingImage+" (minutes)", func() error { return c.buildTraining(ctx, path) }); err != nil {
			return err
		}
	}
	loaded := c.Paths.state("training-image")
	if was, err := os.ReadFile(loaded); err == nil && string(was) == key && c.hasImage(ctx, "docker.io/"+TrainingImage) {
		c.Progress.Printf("%s is loaded", TrainingImage)
		return nil
	}
	if err := c.Progress.Step("load "+TrainingImage, func() error { return c.importImage(ctx, path) }); err != nil {
		return err
	}
	return writeFile(loaded, []byte(key))
}

func missingProgram(name string) []string {
	if _, err := exec.LookPath(name); err == nil {
		return nil
	}
	return []string{name}
}

func (c *Cluster) buildTraining(ctx context.Context, path string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".training-")
	if err != nil {
		return err
	}
	defer func() {
		if len(mountsBelow(tmp)) == 0 { // or the host's own /dev and /sys might be emptied
			_ = os.RemoveAll(tmp)
		}
	}()
	// apt drops to a user of its own, which must reach its downloads.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	rootfs, extra := filepath.Join(tmp, "rootfs.tar"), filepath.Join(tmp, "extra.tar")
	if err := bootstrap(ctx, tmp, rootfs); err != nil {
		return err
	}
	digits, err := packageFile(ctx, tmp, training.DataFrom, training.DataPath)
	if err != nil {
		return err
	}
	files := []file{
		{name: "data/", mode: 0o755},
		{name: "data/" + filepath.Base(training.DataPath), mode: 0o644, data: digits},
		{name: "usr/local/bin/python", link: "/usr/bin/python3"},
	}
	for name, text := range training.Files {
		files = append(files, file{name: name, mode: 0o755, data: []byte(text)})
	}
	if err := writeTar(extra, files...); err != nil {
		return err
	}
	if err := writeImage(path, TrainingImage, training.Config, rootfs, extra); err != nil {
		return err
	}
	removeOthers(path, "pytorch-example-*.tar")
	return nil
}

// removeOthers removes the cached files like path that other inputs made: a gigabyte each is too much to keep.
func removeOthers(path, pattern string) {
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), pattern))
	for _, f := range files {
		if f != path {
			_ = os.Remove(f)
		}
	}
}

// bootstrap makes a Debian root file system from this machine's own apt sources, proxy and keys.
func bootstrap(ctx context.Context, tmp, rootfs string) error {
	sources, err := aptSources()
	if err != nil {
		return err
	}
	// Proxies, certificates and the like. The other sections of apt's settings are about this machine, not about fetching.
	settings, err := run(ctx, "apt-config", "dump", "Acquire")
	if err != nil {
		return err
	}
	settings += "Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n"
	apt, setup := filepath.Join(tmp, "apt.conf"), filepath.Join(tmp, "setup.sh")
	if err := errors.Join(os.WriteFile(apt, []byte(settings), 0o644), os.WriteFile(setup, []byte(training.Setup), 0o755)); err != nil {
		return err
	}
	args := []string{
		"--mode=root", "--variant=essential", "--format=tar",
		"--include=" + strings.Join(training.Packages, ","),
		"--aptopt=" + apt,
		"--customize-hook=sh " + setup + ` "$1"`,
	}
	for _, pattern := range training.Strip {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(append(args, training.Suite, rootfs), sources...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	// Interrupted, it must unmount what it mounted.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s\nThe apt sources of this machine must have Debian %s", err, lastLines(out, 15), training.Suite)
	}
	return nil
}

// aptSources lists the files that say where this machine gets its packages.
func aptSources() ([]string, error) {
	var found []string
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		found = append(found, files...)
	}
	// An empty one makes mmdebstrap wait for sources on its standard input.
	found = slices.DeleteFunc(found, func(f string) bool {
		info, err := os.Stat(f)
		return err != nil || info.Size() == 0
	})
	if len(found) == 0 {
		return nil, errors.New("this machine has no apt sources")
	}
	return found, nil
}

// packageFile returns the content of the one file of a Debian package whose path ends so, without installing the package.
func packageFile(ctx context.Context, tmp, pkg, suffix string) ([]byte, error) {
	fetch := func() error {
		cmd := exec.CommandContext(ctx, "apt-get", "-q", "download", pkg)
		cmd.Dir = tmp
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get download %s: %w\n%s", pkg, err, lastLines(out, 5))
		}
		return nil
	}
	if fetch() != nil { // package lists are missing or out of date
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
	defer func() { _ = errors.Join(unpack.Process.Kill(), unpack.Wait()) }() // it may have more to say than we read
	for entries := tar.NewReader(out); ; {
		entry, err := entries.Next()
		if err != nil {
			return nil, fmt.Errorf("no %s in package %s: %w", suffix, pkg, err)
		}
		if strings.HasSuffix(entry.Name, "/"+suffix) {
			return io.ReadAll(entries)
		}
	}
}
