package localcluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
)

// trainingImage is an image for examples. It consists of Debian, a framework and handwritten digits for training. The
// image of TensorBoard is built in the same way, but has no digits. The values of this struct and of trainingBase are
// the key of the cached image.
type trainingImage struct {
	Framework string
	Debian    debian
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
	//go:embed training/deepspeed-0.14.5.txt
	oldestDeepSpeedRequirements string
	//go:embed training/tensorboard.txt
	tensorboardRequirements string
)

// withoutLibuv is a part of a setup script. Debian builds torch without libuv. Most parts of torch read the variable
// USE_LIBUV, but the rendezvous of torchrun does not.
const withoutLibuv = `
distributed=$1/usr/lib/python3/dist-packages/torch/distributed
sed -i 's/multi_tenant=True,/& use_libuv=False,/' "$distributed"/elastic/rendezvous/*_rendezvous*.py
sed -i 's/is_master=False,/& use_libuv=False,/' "$distributed/rendezvous.py"
`

// trainingImages are all training images. The first image of a framework has the newest version that is tested, which
// the examples run. The second has the oldest. versions.yaml has these versions too.
var trainingImages = []trainingImage{
	{
		Framework:    "pytorch",
		Debian:       trixie,
		Version:      "2.6.0", // the version in the suite
		Packages:     []string{"python3-torch"},
		Requirements: pytorchRequirements,
		Strip:        torchStrip,
		Setup:        withoutTensorBoardServer + withoutLibuv,
		Env:          []string{"USE_LIBUV=0"},
	},
	{
		Framework:    "pytorch",
		Debian:       bookworm,
		Version:      "1.13.1", // the version in the suite
		Packages:     []string{"python3-torch"},
		Requirements: pytorchRequirements,
		Strip:        torchStrip,
		Setup:        withoutTensorBoardServer,
		// This package has no torchrun. On the Python of the suite, torchrun must redirect the output of its processes.
		Files: map[string]string{
			"usr/local/bin/torchrun": "#!/bin/sh\nexec python3 -m torch.distributed.run --redirects=1 --tee=1 \"$@\"\n",
		},
	},
	{
		Framework:    "tensorflow",
		Debian:       bookworm,
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // which the packages of PyPI need
		Requirements: tensorflowRequirements,
		// Remove files that are only needed to build other programs. They are a third of the size.
		Setup: `rm -r "$2/tensorflow/include" "$2/clang"
`,
	},
	{
		Framework: "deepspeed",
		Debian:    trixie,
		Version:   "0.19.8",
		// DeepSpeed executes pdsh, pkill, hostname and bash.
		Packages:     []string{"python3-torch", "pdsh", "procps", "hostname", "bash"},
		Requirements: deepspeedRequirements,
		Strip:        torchStrip,
		Setup:        withoutSSH + withoutCompiler + withoutLibuv,
		Source: &sourcePackage{
			Name:        "deepspeed",
			Requirement: "deepspeed==0.19.8 --hash=sha256:9e491abd0827ea5c389dd702e15e11e13d83d904bac4a20d6c2a4cb37207a9af",
			Tools:       buildTools,
			Env:         deepspeedBuildEnv,
		},
		Env: []string{"DS_ACCELERATOR=cpu", "USE_LIBUV=0"}, // otherwise each start warns that no accelerator was found
	},
	{
		Framework: "deepspeed",
		Debian:    bookworm,
		Version:   "0.14.5",
		// DeepSpeed executes pdsh, pkill, hostname and bash, and imports distutils.
		Packages:     []string{"python3-torch", "python3-distutils", "pdsh", "procps", "hostname", "bash"},
		Requirements: oldestDeepSpeedRequirements,
		Strip:        torchStrip,
		Setup:        withoutSSH + withoutCompiler + withOldTorch,
		Source: &sourcePackage{
			Name:        "deepspeed",
			Requirement: "deepspeed==0.14.5 --hash=sha256:4f841224ab1bcc0307907ed10bac1861ee0cbaf99738e16f850fa6dab15ddc5a",
			Tools:       buildTools,
			Env:         deepspeedBuildEnv,
		},
		Env: []string{"DS_ACCELERATOR=cpu"},
	},
	{
		Framework:    "tensorboard",
		Debian:       bookworm,
		Name:         "tensorboard",
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // which the packages of PyPI need
		Requirements: tensorboardRequirements,
	},
}

// Parts of setup scripts.
const (
	// The server of TensorBoard needs more packages, and has a separate image.
	withoutTensorBoardServer = `rm -r "$2/bin" "$2/tensorboard/webfiles.zip"
`
	// Jobs use the ssh that the controller provides. Debian's ssh, which pdsh requires, would hide that it is missing.
	withoutSSH = `chroot "$1" dpkg --purge --force-depends openssh-client
`
	// DeepSpeed would compile its reductions over shared memory at each start, but the images have no compiler.
	withoutCompiler = `echo '__compatible_ops__ = {"deepspeed_shm_comm": False}' >> "$2/deepspeed/ops/__init__.py"
`
	// DeepSpeed 0.14.5 expects torch 2. In torch 1.13, functions to gather into one tensor exist, but gloo does not
	// support them. Without these functions, DeepSpeed gathers into a list. The profiler of the autotuner needs a
	// function that had another name in torch 1.13.
	withOldTorch = `sed -i '1i\
import torch.distributed, torch.nn.functional\
del torch.distributed.all_gather_into_tensor, torch.distributed._all_gather_base\
torch.nn.functional.scaled_dot_product_attention = torch.nn.functional._scaled_dot_product_attention
' "$2/deepspeed/__init__.py"
`
)

var (
	torchStrip = []string{"/usr/include/*", "/usr/lib/*.a", "/usr/lib/libtorch-test/*"}
	buildTools = []string{
		"setuptools==79.0.1 --hash=sha256:e147c0549f27767ba362f9da434eab9c5dc0045d5304feb602a0af001089fc51",
		"wheel==0.45.1 --hash=sha256:708e7481cc80179af0e556bbf0cc00b8444c7321e2700b8d8580231d13017248",
	}
	// Do not compile kernels, and do not add the commit of a surrounding repository to the version.
	deepspeedBuildEnv = []string{"DS_BUILD_OPS=0", "DS_BUILD_STRING= "}
)

// trainingBase holds the settings that all training images share.
var trainingBase = struct {
	Strip    []string // in addition to the patterns of an image
	Setup    string   // runs after the script of an image; $3 is the version of Python
	DataFrom string   // the package with the handwritten digits
	DataPath string   // the path of the digits in the package
	Config   v1.Config
}{
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
site=/usr/local/lib/python$3/dist-packages
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
	return i.name() + "-" + i.Version + "-" + shortSum(h) + ".tar", nil
}

// TrainingFrameworks returns the names of the frameworks that have a training image, and "tensorboard".
func TrainingFrameworks() []string {
	var names []string
	for _, image := range trainingImages {
		if !slices.Contains(names, image.Framework) {
			names = append(names, image.Framework)
		}
	}
	return names
}

// TrainingImages builds the training images of the named frameworks and loads them into the real node. A name can be
// followed by a colon and a version. It means the newest version otherwise. Without names, it builds the newest of all.
// It skips images that are cached or loaded already.
func (c *Cluster) TrainingImages(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		names = TrainingFrameworks()
	}
	images, err := trainingImagesOf(names)
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

// trainingImagesOf returns the images of the named frameworks, as for TrainingImages. It returns an error for an
// unknown framework or version.
func trainingImagesOf(names []string) ([]trainingImage, error) {
	var images []trainingImage
	for _, name := range names {
		framework, version, hasVersion := strings.Cut(name, ":")
		i := slices.IndexFunc(trainingImages, func(image trainingImage) bool {
			return image.Framework == framework && (!hasVersion || image.Version == version)
		})
		if i < 0 {
			var known []string
			for _, image := range trainingImages {
				known = append(known, image.Framework+":"+image.Version)
			}
			return nil, fmt.Errorf("there is no training image for %q, only for %s", name, strings.Join(known, ", "))
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
	if err := removeSuperseded(filepath.Dir(loaded), image.name()); err != nil {
		return err
	}
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
	return removeSuperseded(filepath.Dir(path), image.name())
}

// removeSuperseded removes the files in the folder that belong to images with the name, except those of current images.
// They are older builds, which can have a gigabyte each.
func removeSuperseded(folder, name string) error {
	var current []string
	for _, image := range trainingImages {
		file, err := image.file()
		if err != nil {
			return err
		}
		current = append(current, file)
	}
	files, _ := filepath.Glob(filepath.Join(folder, name+"-*.tar"))
	for _, f := range files {
		if !slices.Contains(current, filepath.Base(f)) {
			_ = os.Remove(f)
		}
	}
	return nil
}

// installRequirements installs the packages of PyPI into a folder, for the Python of the image.
func installRequirements(ctx context.Context, image trainingImage, tmp, packages string) error {
	if err := os.Mkdir(packages, 0o755); err != nil || image.Requirements == "" {
		return err
	}
	options := []string{"--target", packages, "--python-version", image.Debian.Python, "--no-compile"}
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
