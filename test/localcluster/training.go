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

// trainingImage is an image for examples. It consists of Debian, a framework and handwritten digits for training. The
// image of TensorBoard is built in the same way, but has no digits. The values of this struct and of trainingBase are
// the key of the cached image.
type trainingImage struct {
	Framework string
	// Name is the name of an image that no example runs. Such an image has no digits.
	Name         string   `json:",omitempty"`
	Version      string   // of the framework
	Packages     []string // of Debian
	Requirements string   // the packages of PyPI, as a pip lock file
	Strip        []string // shell patterns of files that dpkg does not install
	// Setup is a shell script. $1 is the root folder, and $2 is the folder of the packages of PyPI.
	Setup string
	Files map[string]string
	// Source is a package that is built. Unset fields are omitted, so that they do not change the keys of images.
	Source *sourcePackage `json:",omitempty"`
	// Env holds variables in addition to the variables of all images.
	Env []string `json:",omitempty"`
}

// sourcePackage is a package that PyPI provides only as source. It is built on this machine. The build must be
// reproducible: the package has no compiled parts, and Env disables the detection of the environment.
type sourcePackage struct {
	Name        string
	Requirement string   // the package, as a line of a pip lock file
	Tools       []string // the build tools, as such lines
	Env         []string
}

// These lock files have the versions and hashes of the packages of PyPI. The .in files explain how to update them.
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

// trainingImages are all training images.
var trainingImages = []trainingImage{
	{
		Framework:    "pytorch",
		Version:      "1.13.1", // the version in Debian
		Packages:     []string{"python3-torch"},
		Requirements: pytorchRequirements,
		Strip:        []string{"/usr/include/*", "/usr/lib/*.a", "/usr/lib/libtorch-test/*"},
		// The server of TensorBoard is removed. It needs more packages, and has a separate image.
		Setup: `rm -r "$2/bin" "$2/tensorboard/webfiles.zip"
`,
		Files: map[string]string{
			"usr/local/bin/torchrun": "#!/bin/sh\nexec python3 -m torch.distributed.run \"$@\"\n",
		},
	},
	{
		Framework:    "tensorflow",
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // which the packages of PyPI need
		Requirements: tensorflowRequirements,
		// Remove files that are only needed to build other programs. They are a third of the size.
		Setup: `rm -r "$2/tensorflow/include" "$2/clang"
`,
	},
	{
		Framework: "deepspeed",
		Version:   "0.14.5",
		// DeepSpeed executes pdsh, pkill, hostname and bash, and imports distutils.
		Packages:     []string{"python3-torch", "python3-distutils", "pdsh", "procps", "hostname", "bash"},
		Requirements: deepspeedRequirements,
		Strip:        []string{"/usr/include/*", "/usr/lib/*.a", "/usr/lib/libtorch-test/*"},
		// Jobs use the ssh that the controller provides. Debian's ssh, which pdsh requires, would hide that it is missing.
		Setup: `chroot "$1" dpkg --purge --force-depends openssh-client
`,
		Source: &sourcePackage{
			Name:        "deepspeed",
			Requirement: "deepspeed==0.14.5 --hash=sha256:4f841224ab1bcc0307907ed10bac1861ee0cbaf99738e16f850fa6dab15ddc5a",
			Tools: []string{
				"setuptools==79.0.1 --hash=sha256:e147c0549f27767ba362f9da434eab9c5dc0045d5304feb602a0af001089fc51",
				"wheel==0.45.1 --hash=sha256:708e7481cc80179af0e556bbf0cc00b8444c7321e2700b8d8580231d13017248",
			},
			// Do not compile kernels, and do not add the commit of a surrounding repository to the version.
			Env: []string{"DS_BUILD_OPS=0", "DS_BUILD_STRING= "},
		},
		Env: []string{"DS_ACCELERATOR=cpu"}, // otherwise each start warns that no accelerator was found
	},
	{
		Framework:    "tensorboard",
		Name:         "tensorboard",
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // which the packages of PyPI need
		Requirements: tensorboardRequirements,
	},
}

// trainingBase holds the settings that all training images share.
var trainingBase = struct {
	Suite    string
	Python   string   // the version in the suite
	Strip    []string // in addition to the patterns of an image
	Setup    string   // runs after the script of an image
	DataFrom string   // the package with the handwritten digits
	DataPath string   // the path of the digits in the package
	Config   v1.Config
}{
	Suite:  "bookworm",
	Python: "3.11",
	Strip: []string{
		"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
	},
	// Scripts from PyPI have the path of the Python of this machine, which is replaced. Python files are compiled, because
	// the user of the image cannot write compiled files, and each start would be slow without them. Parts of torch need
	// the name of the user. The apt configuration of this machine is removed.
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
			"PYTHONUNBUFFERED=1", // otherwise kubectl logs -f shows nothing for minutes
		},
		Cmd: []string{"python3"},
	},
}

func (i trainingImage) name() string { return cmp.Or(i.Name, i.Framework+"-example") }

func (i trainingImage) tag() string { return "tensorstack/" + i.name() + ":" + i.Version }

// file returns the file name of the cached image. It contains the hash of all inputs of the image.
func (i trainingImage) file() (string, error) {
	inputs, err := json.Marshal([]any{trainingBase, i})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(inputs)
	return i.name() + "-" + shortSum(h) + ".tar", nil
}

// TrainingFrameworks returns the names of the frameworks that have a training image, and "tensorboard".
func TrainingFrameworks() []string {
	names := make([]string, 0, len(trainingImages))
	for _, image := range trainingImages {
		names = append(names, image.Framework)
	}
	return names
}

// TrainingImages builds the training images of the named frameworks and loads them into the real node. Without names,
// it builds all. It skips images that are cached or loaded already.
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

// trainingImagesOf returns the images of the named frameworks. It returns an error for an unknown framework.
func trainingImagesOf(frameworks []string) ([]trainingImage, error) {
	var images []trainingImage
	for _, framework := range frameworks {
		i := slices.IndexFunc(trainingImages, func(image trainingImage) bool { return image.Framework == framework })
		if i < 0 {
			return nil, fmt.Errorf("there is no training image for %q, only for %s", framework,
				strings.Join(TrainingFrameworks(), ", "))
		}
		images = append(images, trainingImages[i])
	}
	return images, nil
}

// eachTrainingImage builds images, unless they are cached, and calls do with the path of each archive. It builds two
// images at a time, because builds spend much time on downloads.
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

// buildTrainingImage builds an image unless it is cached. It returns the path of the archive. The archive is locked
// until the caller calls unlock.
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

// loadTrainingImage loads the archive of an image into the real node, unless the node has the image.
func (c *Cluster) loadTrainingImage(ctx context.Context, image trainingImage, path string) error {
	tag := image.tag()
	loaded := c.Paths.state("containerd", unpackedMarks, filepath.Base(path))
	if exists(loaded) && c.hasImage(ctx, "docker.io/"+tag) {
		c.Progress.Printf("%s is already loaded", tag)
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
		if len(mountsBelow(tmp)) == 0 { // otherwise files in /dev and /sys of the host could be deleted
			_ = os.RemoveAll(tmp)
		}
	}()
	// apt runs as a separate user, which must be able to read its downloads.
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

// removeOthers removes the files that match the pattern in the folder of path, except path itself. They are older
// builds of the same image, which can have a gigabyte each.
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
	// Build isolation is off, because pip would use any version of the build tools, without a hash. The cache of pip is
	// off, because a cached wheel could come from other versions of the tools.
	tools := filepath.Join(tmp, "tools")
	if err := pipInstall(ctx, tmp, strings.Join(source.Tools, "\n"), nil, "--target", tools); err != nil {
		return err
	}
	options = append(options, "--no-binary", source.Name, "--no-build-isolation", "--no-cache-dir")
	return pipInstall(ctx, tmp, image.Requirements+source.Requirement, append(source.Env, "PYTHONPATH="+tools), options...)
}

// pipInstall installs the packages of a lock file with the pip configuration of this machine. pip verifies the hashes.
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
		return fmt.Errorf("pip3 install: %w\n%s\nThe first build needs access to the package index (pip3 config list)",
			err, lastLines(out, 15))
	}
	return nil
}

// bootstrap creates a Debian root file system with the apt sources, proxies and keys of this machine. It moves a folder
// of Python packages into the file system.
func bootstrap(ctx context.Context, image trainingImage, tmp, packages, rootfs string) error {
	sources, err := aptSources()
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
		"--customize-hook=sh " + setup + ` "$1" ` + packages,
	}
	for _, pattern := range slices.Concat(trainingBase.Strip, image.Strip) {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(append(args, trainingBase.Suite, rootfs), sources...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	// After an interrupt, mmdebstrap must be able to unmount file systems.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s\nThe apt sources of this machine must include Debian %s", err,
			lastLines(out, 15), trainingBase.Suite)
	}
	return nil
}

// aptSources lists the files with the apt sources of this machine.
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
	// With an empty file, mmdebstrap would read sources from its standard input.
	found = slices.DeleteFunc(found, func(f string) bool {
		info, err := os.Stat(f)
		return err != nil || info.Size() == 0
	})
	if len(found) == 0 {
		return nil, errors.New("this machine has no apt sources")
	}
	return found, nil
}

// packageFile returns the content of a file of a Debian package without installing the package. The path of the file
// ends with the suffix.
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
	defer func() { _ = errors.Join(unpack.Process.Kill(), unpack.Wait()) }() // not all of its output is read
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
