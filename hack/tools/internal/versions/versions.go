// Package versions reads versions.yaml, which says what is released of each module.
package versions

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// Prefix is what the paths of all modules begin with. A module is in the folder that the rest of its path names.
const Prefix = "tensorstack.dev/jobs/"

// Common is the module that the others are built on.
const Common = "common"

// File is versions.yaml.
type File struct {
	// Modules by name.
	Modules map[string]Module `json:"modules"`
}

// Module is what is released of a module.
type Module struct {
	// Version of the module.
	Version string `json:"version"`
	// Common is the version of common that it requires; empty for common itself.
	Common string `json:"common,omitempty"`
}

// Read reads a file.
func Read(file string) (File, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return File{}, err
	}
	var f File
	if err := yaml.Unmarshal(content, &f); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", file, err)
	}
	return f, nil
}
