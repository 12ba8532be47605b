package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"

	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

var (
	heading = regexp.MustCompile(`(?m)^## .*$`)
	// next matches the heading of the section that is not released yet. The version in the heading is preliminary:
	// datedChangelog replaces it.
	next = regexp.MustCompile(`^## (v\S+) \(unreleased\)$`)
)

// datedChangelog sets the version and date of the unreleased section of a changelog. It also returns the entries of
// this section.
func datedChangelog(content, version, date string) (dated, entries string, err error) {
	found := heading.FindAllStringIndex(content, 2)
	if len(found) == 0 || !next.MatchString(content[found[0][0]:found[0][1]]) {
		return "", "", fmt.Errorf("the changelog does not begin with a section `## %s (unreleased)`: add it, with an entry",
			version)
	}
	start, end := found[0][1], len(content)
	if len(found) == 2 {
		end = found[1][0]
	}
	entries = strings.TrimSpace(content[start:end])
	if !strings.HasPrefix(entries, "- ") {
		return "", "", errors.New("the unreleased section of the changelog has no entry: add one")
	}
	return content[:found[0][0]] + fmt.Sprintf("## %s (%s)", version, date) + content[start:], entries, nil
}

// pinned sets the versions in the entry of a module in versions.yaml: its own version, and the versions of other
// modules that it requires. It does not change anything else in the file.
func pinned(content, module string, to versions.Module) (string, error) {
	values := map[string]string{"version": to.Version}
	maps.Copy(values, to.Requires)
	for key, value := range values {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(content), &document); err != nil {
			return "", fmt.Errorf("reading versions.yaml: %w", err)
		}
		node := &document
		if node.Kind == yaml.DocumentNode {
			node = node.Content[0]
		}
		for _, step := range []string{"modules", module, key} {
			if node = child(node, step); node == nil {
				return "", fmt.Errorf("versions.yaml has no modules.%s.%s", module, key)
			}
		}
		lines := strings.SplitAfter(content, "\n")
		line := lines[node.Line-1]
		lines[node.Line-1] = line[:node.Column-1] + value + line[node.Column-1+len(node.Value):]
		content = strings.Join(lines, "")
	}
	return content, nil
}

// child returns the value of a key in a mapping, or nil if the key does not exist.
func child(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// tagged sets the version of a controller's image in a manifest or a kustomization, which must contain the image once.
func tagged(manifest, module, version string) (string, error) {
	image := regexp.MustCompile(`(\btensorstack/` + regexp.QuoteMeta(module) + `-controller(?::|, newTag: ))v[^\s}]+`)
	if n := len(image.FindAllString(manifest, -1)); n != 1 {
		return "", fmt.Errorf("the image of %s-controller occurs %d times, want once", module, n)
	}
	return image.ReplaceAllString(manifest, "${1}"+version), nil
}

// requiring sets the versions of other modules in a go.mod file to the versions in to.Requires.
func requiring(goMod string, to versions.Module) (string, error) {
	file, err := modfile.Parse("go.mod", []byte(goMod), nil)
	if err != nil {
		return "", err
	}
	for name, version := range to.Requires {
		if err := file.AddRequire(versions.Prefix+name, version); err != nil {
			return "", err
		}
	}
	formatted, err := file.Format()
	return string(formatted), err
}

// required returns the version of a module that a go.mod requires. It is empty if go.mod does not require the module.
func required(goMod, module string) (string, error) {
	file, err := modfile.ParseLax("go.mod", []byte(goMod), nil)
	if err != nil {
		return "", err
	}
	for _, r := range file.Require {
		if r.Mod.Path == versions.Prefix+module {
			return r.Mod.Version, nil
		}
	}
	return "", nil
}

// replacing edits the replace directives of go.work for a module. Afterwards go.work replaces exactly the required
// versions of the module with the folder of the module.
func replacing(goWork, module string, required map[string]bool) (string, error) {
	file, err := modfile.ParseWork("go.work", []byte(goWork), nil)
	if err != nil {
		return "", err
	}
	path := versions.Prefix + module
	var old []string
	for _, r := range file.Replace {
		if r.Old.Path == path {
			old = append(old, r.Old.Version)
		}
	}
	if len(old) == 0 {
		return "", fmt.Errorf("go.work does not replace %s", module)
	}
	// Add the new lines before dropping the old ones, so that the lines stay at their place: AddReplace adds a line
	// after the last existing line of the module.
	for _, version := range slices.Sorted(maps.Keys(required)) {
		if err := file.AddReplace(path, version, "./"+module, ""); err != nil {
			return "", err
		}
	}
	for _, version := range old {
		if required[version] {
			continue
		}
		if err := file.DropReplace(path, version); err != nil {
			return "", err
		}
	}
	file.Cleanup()
	return string(modfile.Format(file.Syntax)), nil
}

// edit makes the changes of the release in the files of the worktree. It returns the changelog entries of the
// release.
func (r *release) edit() (entries string, err error) {
	if err := r.change(r.module+"/CHANGELOG.md", func(content string) (changed string, err error) {
		changed, entries, err = datedChangelog(content, r.version, r.date)
		return changed, err
	}); err != nil {
		return "", err
	}
	to := versions.Module{Version: r.version, Requires: map[string]string{}}
	for _, required := range r.pins.RequiredBy(r.module) {
		to.Requires[required] = r.pins.Modules[required].Version
	}
	if err := r.change("versions.yaml",
		func(content string) (string, error) { return pinned(content, r.module, to) }); err != nil {
		return "", err
	}
	if r.role().HasController() {
		tag := func(content string) (string, error) { return tagged(content, r.module, r.version) }
		for _, manifest := range []string{"config/controller/kustomization.yaml", "config/controller.yaml"} {
			if err := r.change(r.module+"/"+manifest, tag); err != nil {
				return "", err
			}
		}
	}
	return entries, errors.Join(
		r.change(r.module+"/go.mod", func(content string) (string, error) { return requiring(content, to) }),
		r.change("go.work", r.replaceRequired),
	)
}

// replaceRequired edits go.work so that it replaces exactly the versions of modules that other modules require.
func (r *release) replaceRequired(goWork string) (string, error) {
	for _, name := range r.pins.Names() {
		found, err := r.requiredOf(name)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			continue
		}
		if goWork, err = replacing(goWork, name, found); err != nil {
			return "", err
		}
	}
	return goWork, nil
}

// requiredOf returns the versions of a module that other modules require.
func (r *release) requiredOf(name string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(r.tree, "*/go.mod"))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		version, err := required(string(content), name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if version != "" {
			found[version] = true
		}
	}
	return found, nil
}

func (r *release) change(name string, change func(string) (string, error)) error {
	file := filepath.Join(r.tree, name)
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := change(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}
