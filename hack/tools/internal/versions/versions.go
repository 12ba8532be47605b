// Package versions reads versions.yaml, which says what is released of each module.
package versions

import (
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// Prefix is what the paths of all modules begin with. A module is in the folder that the rest of its path names.
const Prefix = "tensorstack.dev/jobs/"

// Common is the module that the others are built on.
const Common = "common"

// Kit is the module that frameworks are tested with.
const Kit = "kit"

// Libraries are the modules that others require, in the order in which they are released.
var Libraries = []string{Common, Kit}

// IsLibrary reports whether a module is one that others require, and no controller.
func IsLibrary(module string) bool { return slices.Contains(Libraries, module) }

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
	// Kit is the version of kit that it requires; empty for none.
	Kit string `json:"kit,omitempty"`
}

// Requires returns the version of a library that the module requires, empty for none.
func (m Module) Requires(library string) string {
	switch library {
	case Common:
		return m.Common
	case Kit:
		return m.Kit
	default:
		return ""
	}
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
