package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"tensorstack.dev/jobs/hack/tools/internal/modulezip"
	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

// artifacts is the folder for the files that users get with a release.
const artifacts = "bin/release"

// render writes the files that users get with a release, and returns their names.
func (r *release) render(ctx context.Context) (files []string, err error) {
	folder := filepath.Join(r.root, artifacts)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	switch role := r.role(); {
	case role.HasController():
		if files, err = r.manifests(folder); err != nil {
			return nil, err
		}
		chart, err := r.chart(ctx, folder)
		if err != nil {
			return nil, err
		}
		files = append(files, chart)
	case role == versions.Client:
		if files, err = r.client(ctx, folder); err != nil {
			return nil, err
		}
	}
	archive, err := r.archive(folder)
	if err != nil {
		return nil, err
	}
	return append(files, archive), nil
}

// manifests writes the manifests of a controller into a folder and returns the names of the files.
func (r *release) manifests(folder string) (files []string, err error) {
	parts := components(r.module)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		source := filepath.Join(r.tree, "deploy", parts[name])
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), source)
		if err != nil {
			return nil, fmt.Errorf("rendering deploy/%s: %w", parts[name], err)
		}
		manifests, err := objects.AsYaml()
		if err != nil {
			return nil, fmt.Errorf("rendering deploy/%s: %w", parts[name], err)
		}
		file := name + "-components.yaml"
		if err := os.WriteFile(filepath.Join(folder, file), manifests, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// components returns a map from the name of each manifest of a controller to the folder in deploy from which the
// manifest is rendered.
func components(module string) map[string]string {
	if module == "scheduler" { // each engine has its own manifests
		return map[string]string{"scheduler-native": "scheduler/native", "scheduler-volcano": "scheduler/volcano"}
	}
	return map[string]string{module: module}
}

// chart packs the chart of a controller into a folder and returns the name of its file.
func (r *release) chart(ctx context.Context, folder string) (name string, err error) {
	packed := filepath.Join(filepath.Dir(r.tree), "charts")
	// The script uses the programs in the repository's folder bin, because the worktree does not have this folder.
	programs := filepath.Join(r.root, "bin")
	if _, err := r.command(ctx, r.tree, "env", "BIN="+programs, "CHARTS="+packed, "hack/charts.sh", r.module); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s-controller-%s.tgz", r.module, strings.TrimPrefix(r.version, "v"))
	content, err := os.ReadFile(filepath.Join(packed, name))
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(folder, name), content, 0o644)
}

// client builds the program of a client for its platforms, and writes the files for users into a folder. It returns the
// names of the files.
func (r *release) client(ctx context.Context, folder string) (files []string, err error) {
	built := filepath.Join(filepath.Dir(r.tree), "client")
	args := append([]string{r.module, built}, strings.Fields(r.platforms)...)
	if _, err := r.command(ctx, r.tree, "hack/client.sh", args...); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(built)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(built, entry.Name()))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, entry.Name()), content, 0o644); err != nil {
			return nil, err
		}
		files = append(files, entry.Name())
	}
	return files, nil
}

// archive writes the module into a folder, as a zip file in the format of a module proxy. It returns the name of the
// file.
func (r *release) archive(folder string) (name string, err error) {
	name = fmt.Sprintf("%s-%s.zip", r.module, r.version)
	var content bytes.Buffer
	m := module.Version{Path: versions.Prefix + r.module, Version: r.version}
	if err := modulezip.Create(&content, r.tree, r.module, m); err != nil {
		return "", fmt.Errorf("packing the module: %w", err)
	}
	return name, os.WriteFile(filepath.Join(folder, name), content.Bytes(), 0o644)
}
