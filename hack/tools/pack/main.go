// Pack writes the modules of the repository into a folder, in the format of a module proxy and with the versions in
// versions.yaml. A packed module consists of the license of the repository and the files of the module that Git
// tracks or does not ignore. The go command can get the modules from the folder:
//
//	GOPROXY=file://FOLDER go get tensorstack.dev/jobs/pytorch@v0.1.0
//
// Pack prints the path and the version of each module.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/module"

	"tensorstack.dev/jobs/hack/tools/internal/modulezip"
	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	output := flag.String("output", "", "folder to write the modules to")
	flag.Parse()
	packed, err := pack(*root, *output)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	for _, m := range packed {
		fmt.Println(m.Path, m.Version)
	}
}

func pack(root, output string) ([]module.Version, error) {
	released, err := versions.Read(filepath.Join(root, "versions.yaml"))
	if err != nil {
		return nil, err
	}
	var packed []module.Version
	for _, name := range slices.Sorted(maps.Keys(released.Modules)) {
		m := module.Version{Path: versions.Prefix + name, Version: released.Modules[name].Version}
		if err := packModule(root, name, m, output); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
		packed = append(packed, m)
	}
	// A module can require a version of another module that differs from the one in versions.yaml. Pack writes such
	// versions too. Each of them contains the current files of the module, because go.work also replaces all versions of
	// a module with its folder.
	for _, user := range released.Modules {
		for required, version := range user.Requires {
			m := module.Version{Path: versions.Prefix + required, Version: version}
			if slices.Contains(packed, m) {
				continue
			}
			if err := packModule(root, required, m, output); err != nil {
				return nil, fmt.Errorf("packing %s: %w", m, err)
			}
		}
	}
	return packed, nil
}

// packModule writes the files of a module version, with the names that the GOPROXY protocol requires.
func packModule(root, name string, m module.Version, output string) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(output, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := modulezip.Create(&archive, root, name, m); err != nil {
		return err
	}
	goMod, err := os.ReadFile(filepath.Join(root, name, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct{ Version string }{m.Version})
	if err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(folder, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, listed := fmt.Fprintln(list, m.Version)
	write := func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(folder, name), content, 0o644)
	}
	return errors.Join(listed, list.Close(), write(m.Version+".info", info), write(m.Version+".mod", goMod),
		write(m.Version+".zip", archive.Bytes()))
}
