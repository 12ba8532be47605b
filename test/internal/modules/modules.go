// Package modules reads versions.yaml, which lists the modules of the repository.
package modules

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// The roles of modules.
const (
	Library    = "library"
	Framework  = "framework"
	Controller = "controller"
	Client     = "client"
)

// File is the content of versions.yaml.
type File struct {
	// Modules are the modules by name.
	Modules map[string]Module `json:"modules"`
	// Kubernetes has the versions that the integration tests run on.
	Kubernetes Range `json:"kubernetes"`
	// PyTorch and DeepSpeed have the versions that the end-to-end tests run. The oldest DeepSpeed runs with the oldest
	// PyTorch, and the newest with the newest.
	PyTorch   Range `json:"pytorch"`
	DeepSpeed Range `json:"deepspeed"`
}

// Range is the oldest and the newest version that is tested.
type Range struct{ Oldest, Newest string }

// Module is a module in versions.yaml.
type Module struct {
	Version, Role string
	// Requires maps the name of each module that this module requires to the required version.
	Requires map[string]string
}

// UnmarshalJSON reads a module from an object with the fields version and role. Every other field is a required
// module: the name of the field is the module, and the value is the required version.
func (m *Module) UnmarshalJSON(content []byte) error {
	var fields map[string]string
	if err := json.Unmarshal(content, &fields); err != nil {
		return err
	}
	m.Version, m.Role, m.Requires = fields["version"], fields["role"], fields
	maps.DeleteFunc(m.Requires, func(name, _ string) bool { return name == "version" || name == "role" })
	return nil
}

// Read reads the versions.yaml of the repository at root. It returns an error if a module has no role or an unknown
// one.
func Read(root string) (File, error) {
	content, err := os.ReadFile(filepath.Join(root, "versions.yaml"))
	if err != nil {
		return File{}, err
	}
	var f File
	if err := yaml.Unmarshal(content, &f); err != nil {
		return File{}, fmt.Errorf("reading versions.yaml: %w", err)
	}
	for name, module := range f.Modules {
		if roles := []string{Library, Framework, Controller, Client}; !slices.Contains(roles, module.Role) {
			return File{}, fmt.Errorf("versions.yaml: the role of %s is %q, want one of %q", name, module.Role, roles)
		}
	}
	return f, nil
}

// Names returns the names of the modules that have one of the roles, in alphabetical order. If no role is given, it
// returns the names of all modules.
func (f File) Names(roles ...string) []string {
	var names []string
	for name, module := range f.Modules {
		if len(roles) == 0 || slices.Contains(roles, module.Role) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Controllers returns the names of the modules with a controller, in alphabetical order.
func (f File) Controllers() []string { return f.Names(Framework, Controller) }

// Confined returns the modules with a controller that can be confined to a namespace: all except the scheduler.
func (f File) Confined() []string {
	return slices.DeleteFunc(f.Controllers(), func(name string) bool { return name == "scheduler" })
}
