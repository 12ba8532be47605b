package main

import "strings"

// manifest describes a plugin to krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type manifest struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       spec     `yaml:"spec"`
}

type metadata struct {
	Name string `yaml:"name"`
}

type spec struct {
	Version          string     `yaml:"version"`
	Homepage         string     `yaml:"homepage"`
	ShortDescription string     `yaml:"shortDescription"`
	Description      string     `yaml:"description"`
	Caveats          string     `yaml:"caveats"`
	Platforms        []platform `yaml:"platforms"`
}

// platform is the archive for one platform.
type platform struct {
	Selector selector    `yaml:"selector"`
	URI      string      `yaml:"uri"`
	SHA256   string      `yaml:"sha256"`
	Bin      string      `yaml:"bin"`
	Files    []operation `yaml:"files"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// operation tells krew to install a file of the archive.
type operation struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

const description = `Runs, lists, watches and explains jobs that train models on Kubernetes: PyTorchTrainingJobs,
TensorFlowTrainingJobs and DeepSpeedJobs of TensorStack Jobs. The cluster needs a controller for the kind of the
job. "kubectl train version" shows which controllers it has.
`

// caveats explains how to install the script for completion, because krew links only the program into its folder of
// programs.
const caveats = `For completion, copy the script that kubectl calls to a folder in your PATH:
  krew="${KREW_ROOT:-$HOME/.krew}"
  cp "$krew/store/train/VERSION/kubectl_complete-train" "$krew/bin"
`

// manifestOf returns the manifest of a version.
func manifestOf(version string, platforms []platform) manifest {
	return manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   metadata{Name: plugin},
		Spec: spec{
			Version:          version,
			Homepage:         repository,
			ShortDescription: "Train models on Kubernetes",
			Description:      description,
			Caveats:          strings.ReplaceAll(caveats, "VERSION", version),
			Platforms:        platforms,
		},
	}
}
