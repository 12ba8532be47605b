package localcluster

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// trainingImage is an image for examples. It consists of Debian, a framework and handwritten digits for training. The
// image of TensorBoard is built in the same way, but has no digits. The values of this struct and of trainingBase are
// the key of the cached image.
type trainingImage struct {
	Framework string
	Debian    debian
	// Name is set only for an image that no example runs. Such an image has no digits. If Name is empty, the name of the
	// image comes from the framework.
	Name         string   `json:",omitempty"`
	Version      string   // the version of the framework
	Packages     []string // the packages of Debian
	Requirements string   // the packages of PyPI, as a pip lock file
	Strip        []string // shell patterns of files that dpkg does not install
	// Setup is a shell script. $1 is the root folder of the image, and $2 is the folder of the packages of PyPI.
	Setup string
	Files map[string]string
	// Source is a package that is built from source. Nil means none. If Source is nil, the key of the image does not
	// include it.
	Source *sourcePackage `json:",omitempty"`
	// Env has environment variables in addition to trainingBase.Config.Env.
	Env []string `json:",omitempty"`
}

// sourcePackage is a package that PyPI provides only as source. It is built on this machine. The build must be
// reproducible: the package has no compiled parts, and Env disables the detection of the environment.
type sourcePackage struct {
	Name        string
	Requirement string   // the package, as a line of a pip lock file
	Tools       []string // the build tools, as lines of a pip lock file
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

// withoutLibuv is a part of a setup script. Debian builds torch without libuv. For most parts of torch, the variable
// USE_LIBUV disables libuv. The rendezvous of torchrun does not read this variable, so the script changes the code of
// the rendezvous.
const withoutLibuv = `
distributed=$1/usr/lib/python3/dist-packages/torch/distributed
sed -i 's/multi_tenant=True,/& use_libuv=False,/' "$distributed"/elastic/rendezvous/*_rendezvous*.py
sed -i 's/is_master=False,/& use_libuv=False,/' "$distributed/rendezvous.py"
`

// trainingImages are all training images. The first image of a framework has the newest version that is tested, which
// the examples run. The second image, if there is one, has the oldest tested version. versions.yaml has these versions
// too.
var trainingImages = []trainingImage{
	{
		Framework:    "pytorch",
		Debian:       trixie,
		Version:      "2.6.0", // the version of torch in this release of Debian
		Packages:     []string{"python3-torch"},
		Requirements: pytorchRequirements,
		Strip:        torchStrip,
		Setup:        withoutTensorBoardServer + withoutLibuv,
		Env:          []string{"USE_LIBUV=0"},
	},
	{
		Framework:    "pytorch",
		Debian:       bookworm,
		Version:      "1.13.1", // the version of torch in this release of Debian
		Packages:     []string{"python3-torch"},
		Requirements: pytorchRequirements,
		Strip:        torchStrip,
		Setup:        withoutTensorBoardServer,
		// The package python3-torch of bookworm has no torchrun. With the Python of bookworm, torchrun of this version
		// works only if it redirects the output of its processes.
		Files: map[string]string{
			"usr/local/bin/torchrun": "#!/bin/sh\nexec python3 -m torch.distributed.run --redirects=1 --tee=1 \"$@\"\n",
		},
	},
	{
		Framework:    "tensorflow",
		Debian:       bookworm,
		Version:      "2.21.0",
		Packages:     []string{"python3", "libstdc++6"}, // the packages of PyPI need them
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
		Env: []string{"DS_ACCELERATOR=cpu", "USE_LIBUV=0"}, // without DS_ACCELERATOR, each start warns about a missing GPU
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
		Packages:     []string{"python3", "libstdc++6"}, // the packages of PyPI need them
		Requirements: tensorboardRequirements,
	},
}

// Parts of setup scripts.
const (
	// The script removes the server of TensorBoard, which needs more packages and has a separate image.
	withoutTensorBoardServer = `rm -r "$2/bin" "$2/tensorboard/webfiles.zip"
`
	// The script removes Debian's ssh, a dependency of pdsh. Jobs must use the ssh that the controller provides. With
	// Debian's ssh in the image, a test would also pass if the controller provided none.
	withoutSSH = `chroot "$1" dpkg --purge --force-depends openssh-client
`
	// DeepSpeed would compile its reductions over shared memory at each start, but the images have no compiler.
	withoutCompiler = `echo '__compatible_ops__ = {"deepspeed_shm_comm": False}' >> "$2/deepspeed/ops/__init__.py"
`
	// DeepSpeed 0.14.5 expects torch 2. In torch 1.13, functions to gather into one tensor exist, but gloo does not
	// support them. The script deletes these functions, so that DeepSpeed gathers into a list instead. The profiler of
	// the autotuner needs a function that had another name in torch 1.13.
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
	// In scripts from PyPI, the setup script replaces the path of this machine's Python by the path in the image. It
	// compiles Python files, because the user of the image cannot write compiled files, and each start would be slow
	// without them. It names the user, because parts of torch need this name. It removes the apt configuration of this
	// machine.
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
