// Package versions reads versions.yaml, which lists the modules and their versions.
package versions

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Prefix is the prefix of all module paths. The rest of a path is the folder of the module.
const Prefix = "tensorstack.dev/jobs/"

// Common is the module that all other modules are built on.
const Common = "common"

// Role is the purpose of a module.
type Role string

// The roles of modules.
const (
	// Library is a module that others require.
	Library Role = "library"
	// Framework is a controller of jobs that is built on the job controller of the module common.
	Framework Role = "framework"
	// Controller is any other controller.
	Controller Role = "controller"
	// Client is a program that users run on their machine.
	Client Role = "client"
)

var roles = []Role{Library, Framework, Controller, Client}

// HasController reports whether a module with this role has a controller: an image, manifests and a chart.
func (r Role) HasController() bool { return r == Framework || r == Controller }

// File is the content of versions.yaml.
type File struct {
	// Modules maps the name of each module to its entry.
	Modules map[string]Module `yaml:"modules"`

	// names are the names of the modules, in the order of the file. A module comes after the modules that it requires.
	names []string
}

// Names returns the names of the modules with one of the roles, or of all modules if no role is given. They are in the
// order of the file, which is the order in which the modules are released.
func (f File) Names(roles ...Role) []string {
	var names []string
	for _, name := range f.names {
		if len(roles) == 0 || slices.Contains(roles, f.Modules[name].Role) {
			names = append(names, name)
		}
	}
	return names
}

// RequiredBy returns the names of the modules that a module requires, in the order in which these modules are
// released.
func (f File) RequiredBy(module string) []string {
	var names []string
	for _, name := range f.names {
		if f.Modules[module].Requires[name] != "" {
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
	// Requires maps the name of each required module to the required version.
	Requires map[string]string `yaml:",inline"`
}

// Read reads versions.yaml. It returns an error if the file cannot be read, if a module has no role or an unknown role,
// or if a module requires a module that does not come before it.
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
		for _, required := range slices.Sorted(maps.Keys(f.Modules[name].Requires)) {
			if !slices.Contains(f.names, required) {
				return File{}, fmt.Errorf("%s: %s requires %s, which is not one of the modules before it: %q",
					file, name, required, f.names)
			}
		}
		f.names = append(f.names, name)
	}
	return f, nil
}
