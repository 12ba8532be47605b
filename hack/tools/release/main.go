// Release makes a release of one module: it dates the changelog, pins the versions, commits, makes the files for users,
// and tags. These files are the manifests and the chart of a controller, or the archives of a client. Release does not
// push. A dry run, which is the default, only shows the changes and makes the files.
//
//	release -module pytorch -version v0.2.0 -dry-run=false
//
// Release works on the committed files, in a separate Git worktree, so that a release that fails changes nothing in the
// repository. docs/releasing.md describes how to make a release.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"tensorstack.dev/jobs/hack/tools/internal/modulezip"
	"tensorstack.dev/jobs/hack/tools/internal/provenance"
	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

func main() {
	r := release{out: os.Stdout, warnings: os.Stderr, date: time.Now().UTC().Format(time.DateOnly)}
	flag.StringVar(&r.root, "root", ".", "root of the repository")
	flag.StringVar(&r.module, "module", "", "module to release")
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.BoolVar(&r.dry, "dry-run", true, "only show the changes of the release")
	flag.StringVar(&r.platforms, "platforms", "", "platforms of a client (default: all platforms of hack/client.sh)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type release struct {
	root, module, version, date, platforms string
	dry                                    bool
	out, warnings                          io.Writer

	// tree is the Git worktree in which the release is made.
	tree string
	pins versions.File
}

func (r *release) tag() string { return r.module + "/" + r.version }

func (r *release) role() versions.Role { return r.pins.Modules[r.module].Role }

func (r *release) run(ctx context.Context) (err error) {
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if r.pins, err = versions.Read(filepath.Join(r.root, "versions.yaml")); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	obstacles, err := r.obstacles(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(obstacles...); err != nil && !r.dry {
		return err
	}

	parent, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	r.tree = filepath.Join(parent, "tree")
	if _, err := r.git(ctx, r.root, "worktree", "add", "--quiet", "--detach", r.tree, "HEAD"); err != nil {
		return errors.Join(err, os.RemoveAll(parent))
	}
	defer func() {
		_, removed := r.git(context.WithoutCancel(ctx), r.root, "worktree", "remove", "--force", r.tree)
		err = errors.Join(err, removed, os.RemoveAll(parent))
	}()
	entries, err := r.edit()
	if err != nil {
		return err
	}
	if _, err := r.git(ctx, r.tree, "add", "--all"); err != nil {
		return err
	}
	var commit string
	if !r.dry {
		// The programs of a client contain the ID of the commit.
		if commit, err = r.commit(ctx); err != nil {
			return err
		}
	}
	files, err := r.render(ctx)
	if err != nil {
		return err
	}
	message := fmt.Sprintf("%s %s\n\n%s\n", r.module, r.version, entries)
	if r.dry {
		diff, err := r.git(ctx, r.tree, "diff", "--cached")
		if err != nil {
			return err
		}
		fmt.Fprintf(r.out, "%s\n\nIt would be tagged %s:\n\n%s\n%s", diff, r.tag(), message, written(files))
		return errors.Join(obstacles...)
	}
	if err := r.merge(ctx, commit, message); err != nil {
		return err
	}
	statement, err := r.provenance(commit, files)
	if err != nil {
		return err
	}
	files = append(files, statement)
	const push = "Committed and tagged %[1]s. Nothing is pushed yet:\n\n" +
		"  git push origin HEAD\n  git push origin %[1]s\n\n%[2]s"
	fmt.Fprintf(r.out, push, r.tag(), written(files))
	fmt.Fprintf(r.warnings, "Warning: nothing is signed. If you have the key, run: make sign MODULE=%s KEY=cosign.key\n",
		r.module)
	return nil
}

// written returns a line for each file that was written.
func written(files []string) string {
	var lines strings.Builder
	for _, file := range files {
		fmt.Fprintf(&lines, "Written: %s\n", filepath.Join(artifacts, file))
	}
	return lines.String()
}

// check returns an error if the module does not exist or the version is invalid.
func (r *release) check() error {
	if _, ok := r.pins.Modules[r.module]; !ok {
		return fmt.Errorf("versions.yaml has no module %q: set MODULE to one of its modules", r.module)
	}
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("%q is not a version: set VERSION to a semantic version, such as v0.2.0", r.version)
	}
	path := versions.Prefix + r.module
	if err := module.Check(path, r.version); err != nil {
		return fmt.Errorf("%s does not match the path of the module: rename the module first, or choose another version: %w",
			r.version, err)
	}
	return nil
}

// obstacles returns the reasons why the release is not possible. A dry run shows the release even if there are some.
func (r *release) obstacles(ctx context.Context) (found []error, err error) {
	changes, err := r.git(ctx, r.root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		found = append(found, fmt.Errorf("the tree is not clean: commit the changes first\n%s", changes))
	}
	taken, err := r.git(ctx, r.root, "tag", "--list", r.tag())
	if err != nil {
		return nil, err
	}
	if taken != "" {
		found = append(found, fmt.Errorf("%s is released already: set VERSION to a greater version", r.tag()))
	}
	// Older versions can still get patches, from a branch whose history does not have the tags of newer versions.
	tags, err := r.git(ctx, r.root, "tag", "--merged", "HEAD", "--list", r.module+"/v*")
	if err != nil {
		return nil, err
	}
	for tag := range strings.FieldsSeq(tags) {
		if last := strings.TrimPrefix(tag, r.module+"/"); tag != taken && semver.Compare(r.version, last) <= 0 {
			found = append(found, fmt.Errorf("%s is not greater than %s, which is released already", r.version, last))
		}
	}
	// The version in versions.yaml can be released itself: a new module has the version of its first release there.
	if pinned := r.pins.Modules[r.module].Version; semver.Compare(r.version, pinned) < 0 {
		found = append(found, fmt.Errorf("%s is less than %s, the version in versions.yaml", r.version, pinned))
	}
	for _, required := range r.pins.RequiredBy(r.module) {
		obstacle, err := r.requiredObstacle(ctx, required)
		if err != nil {
			return nil, err
		}
		if obstacle != nil {
			return append(found, obstacle), nil
		}
	}
	return found, nil
}

// requiredObstacle returns the reason why a module that requires another module cannot be released, or nil. Users of
// the module get the tagged version of the required one, so that must be the same in this repository.
func (r *release) requiredObstacle(ctx context.Context, required string) (obstacle, err error) {
	tag := required + "/" + r.pins.Modules[required].Version
	tags, err := r.git(ctx, r.root, "tag", "--list", tag)
	if err != nil {
		return nil, err
	}
	if tags == "" {
		return fmt.Errorf("%s, which the module requires, is not released: release %s first", tag, required), nil
	}
	changed, err := r.git(ctx, r.root, "diff", "--name-only", tag, "HEAD", "--", required)
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return fmt.Errorf("%s has changed since %s: release %s first\n%s", required, tag, required, changed), nil
	}
	return nil, nil
}

// edit changes the files of the release. It returns the entries of the changelog.
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

// replaceRequired makes go.work replace each version of a module that another module requires, and no other version.
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

// components returns the folders in deploy that install a controller. The keys are the names of the rendered manifests.
func components(module string) map[string]string {
	if module == "scheduler" { // there is one for each engine
		return map[string]string{"scheduler-native": "scheduler/native", "scheduler-volcano": "scheduler/volcano"}
	}
	return map[string]string{module: module}
}

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

// archive writes the module into a folder, in the format of a module proxy, and returns the name of the file.
func (r *release) archive(folder string) (name string, err error) {
	name = fmt.Sprintf("%s-%s.zip", r.module, r.version)
	var content bytes.Buffer
	m := module.Version{Path: versions.Prefix + r.module, Version: r.version}
	if err := modulezip.Create(&content, r.tree, r.module, m); err != nil {
		return "", fmt.Errorf("packing the module: %w", err)
	}
	return name, os.WriteFile(filepath.Join(folder, name), content.Bytes(), 0o644)
}

// provenance writes the provenance of the files, which contains the commit that they were built from. It returns the
// name of its file.
func (r *release) provenance(commit string, files []string) (name string, err error) {
	var subjects []provenance.Subject
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(r.root, artifacts, file))
		if err != nil {
			return "", err
		}
		subjects = append(subjects, provenance.SubjectOf(file, content))
	}
	statement, err := provenance.Statement(provenance.Build{
		Type: provenance.Release, Module: r.module, Version: r.version, Commit: commit, GoVersion: runtime.Version(),
	}, subjects...)
	if err != nil {
		return "", fmt.Errorf("writing the provenance: %w", err)
	}
	name = fmt.Sprintf("%s-%s.provenance.json", r.module, r.version)
	return name, os.WriteFile(filepath.Join(r.root, artifacts, name), statement, 0o644)
}

// chart packs the chart of a controller into a folder and returns the name of its file.
func (r *release) chart(ctx context.Context, folder string) (name string, err error) {
	packed := filepath.Join(filepath.Dir(r.tree), "charts")
	// The worktree does not have the programs in bin.
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

// commit commits the release in the worktree, where no branch is checked out. It returns the ID of the commit.
func (r *release) commit(ctx context.Context) (head string, err error) {
	subject := fmt.Sprintf("Release %s %s", r.module, r.version)
	if _, err := r.git(ctx, r.tree, "commit", "--quiet", "--allow-empty", "--message", subject); err != nil {
		return "", err
	}
	return r.git(ctx, r.tree, "rev-parse", "HEAD")
}

// merge merges the commit of the release into the branch that is checked out, and tags it.
func (r *release) merge(ctx context.Context, commit, message string) error {
	if _, err := r.git(ctx, r.root, "merge", "--quiet", "--ff-only", commit); err != nil {
		return err
	}
	_, err := r.git(ctx, r.root, "tag", "--annotate", r.tag(), "--message", message, commit)
	return err
}

func (r *release) git(ctx context.Context, folder string, args ...string) (string, error) {
	return r.command(ctx, folder, "git", args...)
}

func (r *release) command(ctx context.Context, folder, name string, args ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = folder, &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimRight(string(output), "\n"), nil
}
