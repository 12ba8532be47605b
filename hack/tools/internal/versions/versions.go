// Package versions reads versions.yaml, which lists the modules and what is released of each.
package versions

import (
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
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

// Role is what a module is.
type Role string

// The roles of modules.
const (
	// Library is a module that others require.
	Library Role = "library"
	// Framework is a controller that runs jobs, with the job controller of common.
	Framework Role = "framework"
	// Controller is any other controller.
	Controller Role = "controller"
)

var roles = []Role{Library, Framework, Controller}

// File is versions.yaml.
type File struct {
	// Modules by name.
	Modules map[string]Module `yaml:"modules"`

	// names of the modules, in the order of the file.
	names []string
}

// Names returns the modules that have one of the roles, in the order of the file.
func (f File) Names(roles ...Role) []string {
	var names []string
	for _, name := range f.names {
		if slices.Contains(roles, f.Modules[name].Role) {
			names = append(names, name)
		}
	}
	return names
}

// Module is what is released of a module.
type Module struct {
	// Version of the module.
	Version string `yaml:"version"`
	// Role of the module.
	Role Role `yaml:"role"`
	// Common is the version of common that it requires; empty for common itself.
	Common string `yaml:"common,omitempty"`
	// Kit is the version of kit that it requires; empty for none.
	Kit string `yaml:"kit,omitempty"`
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

// Read reads a file. It returns an error if the file cannot be read, or if a module has no role or an unknown one.
func Read(file string) (File, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return File{}, err
	}
	var f File
	var order struct {
		Modules yaml.Node `yaml:"modules"`
	}
	if err := yaml.Unmarshal(content, &f); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if err := yaml.Unmarshal(content, &order); err != nil {
		return File{}, fmt.Errorf("reading %s: %w", file, err)
	}
	for i := 0; i < len(order.Modules.Content); i += 2 {
		name := order.Modules.Content[i].Value
		if role := f.Modules[name].Role; !slices.Contains(roles, role) {
			return File{}, fmt.Errorf("%s: the role of %s is %q, want one of %q", file, name, role, roles)
		}
		f.names = append(f.names, name)
	}
	return f, nil
}
