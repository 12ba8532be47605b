package localcluster

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
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
	"golang.org/x/sync/errgroup"
)

// trainingImage is an image that examples run: Debian with a framework, and handwritten digits to train on. So is that
// of TensorBoard, but for the digits. Its content, with that of trainingBase, is the key of the cached image.
type trainingImage struct {
	Framework    string
	Name         string   `json:",omitempty"` // of an image that no example runs: it has no digits
	Version      string   // of the framework
	Packages     []string // of Debian
	Requirements string   // the packages of PyPI, as a lock file of pip
	Strip        []string // shell patterns that dpkg leaves out
	Setup        string   // a shell script, which gets the root folder as $1 and that of the packages of PyPI as $2
	Files        map[string]string
	Source       *sourcePackage `json:",omitempty"` // left out of the keys of images without, which must stay as they are
	Env          []string       `json:",omitempty"` // as above, besides that of all images
}

// sourcePackage is a package of PyPI that is there as source only, so that it is built here. It must come out the same
// wherever that is: it has no compiled parts, and its Env keeps it from looking around.
type sourcePackage struct {
	Name        string
	Requirement string   // the package, as a line of a lock file of pip
	Tools       []string // what builds it, as such lines
	Env         []string
}

// The packages of PyPI, each with its version and hashes. The .in file beside says how they get there.
var (
	//go:embed training/pytorch.txt
	pytorchRequirements string
	//go:embed training/tensorflow.txt
	tensorflowRequirements string
	//go:embed training/deepspeed.txt
	deepspeedRequirements string
	//go:embed training/tensorboard.txt
	tensorboardRequirements string
)

// trainingImages are all there are: another framework is one more value.
var trainingImages = []trainingImage{
	{
		Framework:    "pytorch",
		Version:      "1.13.1", // that of Debian
		Packages:     []string{"python3-torch"},
		Requirements: pytorchRequirements,
		Strip:        []string{"/usr/include/*", "/usr/lib/*.a", "/usr/lib/libtorch-test/*"},
		// The server of TensorBoard would need more packages, and has an image of its own.
		Setup: `rm -r "$2/bin" "$2/tensorboard/webfiles.zip"
`,
		Files: map[string]string{
			"usr/local/bin/torchrun": "#!/bin/sh\nexec python3 -m torch.distributed.run \"$@\"\n",
		},
	},
	{
		Framework:    "tensorflow",
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // the packages of PyPI count on it
		Requirements: tensorflowRequirements,
		// What only the building of other programs needs: a third of it all.
		Setup: `rm -r "$2/tensorflow/include" "$2/clang"
`,
	},
	{
		Framework: "deepspeed",
		Version:   "0.14.5",
		// DeepSpeed runs pdsh, pkill, hostname and bash, and imports distutils.
		Packages:     []string{"python3-torch", "python3-distutils", "pdsh", "procps", "hostname", "bash"},
		Requirements: deepspeedRequirements,
		Strip:        []string{"/usr/include/*", "/usr/lib/*.a", "/usr/lib/libtorch-test/*"},
		// The ssh of the jobs is the controller's. That of Debian, which pdsh requires, would only hide that it is missing.
		Setup: `chroot "$1" dpkg --purge --force-depends openssh-client
`,
		Source: &sourcePackage{
			Name:        "deepspeed",
			Requirement: "deepspeed==0.14.5 --hash=sha256:4f841224ab1bcc0307907ed10bac1861ee0cbaf99738e16f850fa6dab15ddc5a",
			Tools: []string{
				"setuptools==79.0.1 --hash=sha256:e147c0549f27767ba362f9da434eab9c5dc0045d5304feb602a0af001089fc51",
				"wheel==0.45.1 --hash=sha256:708e7481cc80179af0e556bbf0cc00b8444c7321e2700b8d8580231d13017248",
			},
			// No kernels compiled ahead, and no commit of whatever repository is around in the version.
			Env: []string{"DS_BUILD_OPS=0", "DS_BUILD_STRING= "},
		},
		Env: []string{"DS_ACCELERATOR=cpu"}, // or each start warns that no other was found
	},
	{
		Framework:    "tensorboard",
		Name:         "tensorboard",
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // the packages of PyPI count on it
		Requirements: tensorboardRequirements,
	},
}

// trainingBase is what all training images are made of.
var trainingBase = struct {
	Suite    string
	Python   string   // the version that the suite has
	Strip    []string // as of an image, and so is what follows that of an image:
	Setup    string
	DataFrom string // the package with the handwritten digits
	DataPath string // their path in it
	Config   v1.Config
}{
	Suite:  "bookworm",
	Python: "3.11",
	Strip: []string{
		"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
	},
	// Programs that come from PyPI name the Python of this machine. Who runs the image cannot write the compiled files,
	// and each start would take long without. Some of torch asks who it runs as. And nothing of how this machine reaches
	// its packages belongs into an image.
	Setup: `
if [ -d "$2/bin" ]; then
	sed -i '1s|^#!.*python.*|#!/usr/bin/python3|' "$2"/bin/*
	mv "$2"/bin/* "$1/usr/local/bin"
	rmdir "$2/bin"
fi
site=/usr/local/lib/python3.11/dist-packages
rm -rf "$1$site"
mv "$2" "$1$site"
chmod -R u=rwX,go=rX "$1$site"
chroot "$1" python3 -m compileall -q "$site"
echo 'nonroot:x:65532:65532:nonroot:/tmp:/bin/sh' >> "$1/etc/passwd"
echo 'nonroot:x:65532:' >> "$1/etc/group"
rm -rf "$1"/etc/apt/sources.list* "$1"/etc/apt/*.d/99mmdebstrap "$1"/var/cache/debconf/* "$1"/var/log/*
`,
	DataFrom: "python3-sklearn",
	DataPath: "sklearn/datasets/data/digits.csv.gz",
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

func (i trainingImage) name() string { return cmp.Or(i.Name, i.Framework+"-example") }

func (i trainingImage) tag() string { return "tensorstack/" + i.name() + ":" + i.Version }

// file returns the name of the cached image, which its content decides.
func (i trainingImage) file() (string, error) {
	inputs, err := json.Marshal([]any{trainingBase, i})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(inputs)
	return i.name() + "-" + shortSum(h) + ".tar", nil
}

// TrainingFrameworks returns the names of the frameworks that training images are there for, and of TensorBoard.
func TrainingFrameworks() []string {
	names := make([]string, 0, len(trainingImages))
	for _, image := range trainingImages {
		names = append(names, image.Framework)
	}
	return names
}

// TrainingImages builds the training images of the named frameworks, or of all if none is named, each once, and loads
// them into the real node, once.
func (c *Cluster) TrainingImages(ctx context.Context, frameworks ...string) error {
	if len(frameworks) == 0 {
		frameworks = TrainingFrameworks()
	}
	images, err := trainingImagesOf(frameworks)
	if err != nil {
		return err
	}
	kind, err := c.NodeKind()
	if err != nil {
		return err
	}
	if kind == Simulated {
		c.Progress.Printf("the nodes are simulated: there is nothing to build or load")
		return nil
	}
	return c.eachTrainingImage(ctx, images, c.loadTrainingImage)
}

// trainingImagesOf returns the images of the named frameworks. It returns an error if there is none for one of them.
func trainingImagesOf(frameworks []string) ([]trainingImage, error) {
	var images []trainingImage
	for _, framework := range frameworks {
		i := slices.IndexFunc(trainingImages, func(image trainingImage) bool { return image.Framework == framework })
		if i < 0 {
			return nil, fmt.Errorf("no training image for %q: there are those for %s", framework,
				strings.Join(TrainingFrameworks(), ", "))
		}
		images = append(images, trainingImages[i])
	}
	return images, nil
}

// eachTrainingImage builds images, each once, two at a time since they download much, and does something with the
// archive of each.
func (c *Cluster) eachTrainingImage(
	ctx context.Context, images []trainingImage, do func(ctx context.Context, image trainingImage, path string) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, image := range images {
		group.Go(func() error {
			path, unlock, err := c.buildTrainingImage(ctx, image)
			if err != nil {
				return err
			}
			defer unlock()
			return do(ctx, image, path)
		})
	}
	return group.Wait()
}

// buildTrainingImage builds an image unless it is cached. It returns the path of its archive, which nothing else
// changes before the unlock.
func (c *Cluster) buildTrainingImage(ctx context.Context, image trainingImage) (path string, unlock func(), err error) {
	file, err := image.file()
	if err != nil {
		return "", nil, err
	}
	path = c.Paths.cache("images", file)
	if unlock, err = lockFile(path + ".lock"); err != nil {
		return "", nil, err
	}
	if exists(path) {
		return path, unlock, nil
	}
	programs := map[string]string{"mmdebstrap": "mmdebstrap"}
	if image.Requirements != "" {
		programs["pip3"] = "python3-pip"
	}
	err = c.installPackages(ctx, packagesOfMissing(programs)...)
	if err == nil {
		err = c.Progress.Step("build "+image.tag()+" (minutes)", func() error { return buildTraining(ctx, image, path) })
	}
	if err != nil {
		unlock()
	}
	return path, unlock, err
}

// loadTrainingImage loads the archive of an image into the real node unless it has the image.
func (c *Cluster) loadTrainingImage(ctx context.Context, image trainingImage, path string) error {
	tag := image.tag()
	loaded := c.Paths.state("containerd", unpackedMarks, filepath.Base(path))
	if exists(loaded) && c.hasImage(ctx, "docker.io/"+tag) {
		c.Progress.Printf("%s is loaded", tag)
		return nil
	}
	if err := c.Progress.Step("load "+tag, func() error { return c.importImage(ctx, path) }); err != nil {
		return err
	}
	removeOthers(loaded, image.name()+"-*.tar")
	return writeFile(loaded, nil)
}

func buildTraining(ctx context.Context, image trainingImage, path string) error {
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
	packages := filepath.Join(tmp, "packages")
	if err := installRequirements(ctx, image, tmp, packages); err != nil {
		return err
	}
	if err := bootstrap(ctx, image, tmp, packages, rootfs); err != nil {
		return err
	}
	files := []file{{name: "usr/local/bin/python", link: "/usr/bin/python3"}}
	if image.Name == "" {
		digits, err := packageFile(ctx, tmp, trainingBase.DataFrom, trainingBase.DataPath)
		if err != nil {
			return err
		}
		files = append(files,
			file{name: "data/", mode: 0o755},
			file{name: "data/" + filepath.Base(trainingBase.DataPath), mode: 0o644, data: digits})
	}
	for name, text := range image.Files {
		files = append(files, file{name: name, mode: 0o755, data: []byte(text)})
	}
	if err := writeTar(extra, files...); err != nil {
		return err
	}
	config := trainingBase.Config
	config.Env = slices.Concat(config.Env, image.Env)
	if err := writeImage(path, image.tag(), config, rootfs, extra); err != nil {
		return err
	}
	removeOthers(path, image.name()+"-*.tar")
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

// installRequirements installs the packages of PyPI into a folder, for the Python of the image.
func installRequirements(ctx context.Context, image trainingImage, tmp, packages string) error {
	if err := os.Mkdir(packages, 0o755); err != nil || image.Requirements == "" {
		return err
	}
	options := []string{"--target", packages, "--python-version", trainingBase.Python, "--no-compile"}
	source := image.Source
	if source == nil {
		return pipInstall(ctx, tmp, image.Requirements, nil, options...)
	}
	// pip would take any version of what builds a package, and without a hash. Nor would it know whether a wheel that it
	// has built before came out of the same tools.
	tools := filepath.Join(tmp, "tools")
	if err := pipInstall(ctx, tmp, strings.Join(source.Tools, "\n"), nil, "--target", tools); err != nil {
		return err
	}
	options = append(options, "--no-binary", source.Name, "--no-build-isolation", "--no-cache-dir")
	return pipInstall(ctx, tmp, image.Requirements+source.Requirement, append(source.Env, "PYTHONPATH="+tools), options...)
}

// pipInstall installs the packages of a lock file, from wherever the pip of this machine is set up to take them. The
// hashes say that they are the right ones.
func pipInstall(ctx context.Context, tmp, requirements string, env []string, options ...string) error {
	lock := filepath.Join(tmp, "requirements.txt")
	if err := os.WriteFile(lock, []byte(requirements), 0o644); err != nil {
		return err
	}
	args := []string{
		"install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
		"--no-deps", "--require-hashes", "--requirement", lock, // the lock file is complete
	}
	cmd := exec.CommandContext(ctx, "pip3", append(args, options...)...)
	cmd.Env = slices.Concat(os.Environ(), env, []string{"TMPDIR=" + tmp})
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip3 install: %w\n%s\nThe package index (pip3 config list) must be reachable for a first build",
			err, lastLines(out, 15))
	}
	return nil
}

// bootstrap makes a Debian root file system from this machine's own apt sources, proxy and keys, with a folder of
// Python packages moved into it.
func bootstrap(ctx context.Context, image trainingImage, tmp, packages, rootfs string) error {
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
	script := "set -e\n" + image.Setup + trainingBase.Setup
	if err := errors.Join(os.WriteFile(apt, []byte(settings), 0o644),
		os.WriteFile(setup, []byte(script), 0o755)); err != nil {
		return err
	}
	args := []string{
		"--mode=root", "--variant=essential", "--format=tar",
		"--include=" + strings.Join(image.Packages, ","),
		"--aptopt=" + apt,
		"--customize-hook=sh " + setup + ` "$1" ` + packages,
	}
	for _, pattern := range slices.Concat(trainingBase.Strip, image.Strip) {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(append(args, trainingBase.Suite, rootfs), sources...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	// Interrupted, it must unmount what it mounted.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s\nThe apt sources of this machine must have Debian %s", err, lastLines(out, 15),
			trainingBase.Suite)
	}
	return nil
}

// aptSources lists the files that say where this machine gets its packages.
func aptSources() ([]string, error) {
	var found []string
	for _, pattern := range []string{
		"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources",
	} {
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

// packageFile returns the content of the one file of a Debian package whose path ends so, without installing the
// package.
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
