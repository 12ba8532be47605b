// Package versions reads versions.yaml, which lists the modules and their versions.
package versions

import (
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Prefix is the prefix of all module paths. The rest of a path is the folder of the module.
const Prefix = "tensorstack.dev/jobs/"

// Common is the module that all other modules are built on.
const Common = "common"

// Kit is the module with the test tools for frameworks.
const Kit = "kit"

// Libraries are the modules that others require, in the order in which they are released.
var Libraries = []string{Common, Kit}

// IsLibrary reports whether a module is a library and not a controller.
func IsLibrary(module string) bool { return slices.Contains(Libraries, module) }

// Role is the purpose of a module.
type Role string

// The roles of modules.
const (
	// Library is a module that others require.
	Library Role = "library"
	// Framework is a controller that runs jobs with the job controller of common.
	Framework Role = "framework"
	// Controller is any other controller.
	Controller Role = "controller"
)

var roles = []Role{Library, Framework, Controller}

// File is the content of versions.yaml.
type File struct {
	// Modules are the modules by name.
	Modules map[string]Module `yaml:"modules"`

	// names are the names of the modules, in the order of the file.
	names []string
}

// Names returns the names of the modules with one of the roles, in the order of the file.
func (f File) Names(roles ...Role) []string {
	var names []string
	for _, name := range f.names {
		if slices.Contains(roles, f.Modules[name].Role) {
			names = append(names, name)
		}
	}
	return names
}

// Module is an entry of versions.yaml.
type Module struct {
	// Version is the version of the module.
	Version string `yaml:"version"`
	// Role is the role of the module.
	Role Role `yaml:"role"`
	// Common is the version of common that the module requires. Empty for common itself.
	Common string `yaml:"common,omitempty"`
	// Kit is the version of kit that the module requires. Empty if it does not require kit.
	Kit string `yaml:"kit,omitempty"`
}

// Requires returns the version of a library that the module requires. It is empty if the module does not require it.
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

// Read reads versions.yaml. It returns an error if the file cannot be read, or if a module has no role or an unknown
// role.
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
