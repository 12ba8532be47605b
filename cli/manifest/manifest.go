// Package manifest reads the manifests that a user names.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/cli-runtime/pkg/resource"
)

// Each calls the function visit with the name and the content of each manifest at the paths. The path "-" is the
// standard input. In a folder, the manifests are the files with an extension for YAML or JSON. The folders below it
// are read only if the parameter recursive is true. After an error, Each continues with the next manifest. It returns
// all errors.
func Each(paths []string, recursive bool, stdin io.Reader, visit func(name string, content []byte) error) error {
	var errs []error
	read := func(name string, content []byte, err error) {
		if err == nil {
			if err = visit(name, content); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		errs = append(errs, err)
	}
	for _, path := range paths {
		if path == "-" {
			content, err := io.ReadAll(stdin)
			read("standard input", content, err)
			continue
		}
		files, err := filesIn(path, recursive)
		errs = append(errs, err)
		for _, file := range files {
			content, err := os.ReadFile(file) //nolint:gosec // the user names the file
			read(file, content, err)
		}
	}
	return errors.Join(errs...)
}

// filesIn returns the path of a file, or the paths of the manifests in a folder.
func filesIn(root string, recursive bool) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && (path == root || slices.Contains(resource.FileExtensions, filepath.Ext(path))):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
