package localcluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

const componentsFolder = "test/localcluster/components"

// DefaultKubernetes is the components folder of the newest supported Kubernetes. Folders of older versions are
// siblings.
const DefaultKubernetes = "kubernetes"

// Builder builds the pinned components into the cache, unless they are there already.
type Builder struct {
	Repo       string
	Paths      Paths
	Kubernetes string // the components folder of Kubernetes
	Progress   *Progress
}

// component is a folder of components/. It is a Go module that pins the version of one project.
type component struct {
	dir      string
	project  string            // the module of the project
	version  string            // the version of that module
	packages map[string]string // maps the name of a binary to its package
	out      string            // the folder for the binaries
}

// projects maps the name of a components folder, up to the first hyphen, to the module of its project. So the folder
// kubernetes-1.34 uses the entry "kubernetes". The field binary is set only if the name of the binary differs from
// the name of its package.
var projects = map[string]struct {
	module string
	binary string
}{
	"kubernetes": {module: "k8s.io/kubernetes"},
	"etcd":       {module: "go.etcd.io/etcd/server/v3", binary: "etcd"},
	"etcdtools":  {module: "go.etcd.io/etcd/etcdutl/v3"},
	"coredns":    {module: "github.com/coredns/coredns"},
	"kwok":       {module: "sigs.k8s.io/kwok"},
	"versitygw":  {module: "github.com/versity/versitygw"},
	"volcano":    {module: "volcano.sh/volcano", binary: "vc-scheduler"},
	"kueue":      {module: "sigs.k8s.io/kueue"},
	// Only the CRDs in the source of this project are used, so no binary is built.
	"prometheus": {module: "github.com/prometheus-operator/prometheus-operator"},
}

// BinDir returns the folder for the binaries of a components folder. The name of the returned folder depends on the
// pinned versions.
func (b *Builder) BinDir(folder string) (string, error) {
	c, err := b.component(folder)
	if err != nil {
		return "", err
	}
	return c.out, nil
}

// Binaries builds the named binaries of a components folder, unless they exist. It returns the folder of the binaries.
func (b *Builder) Binaries(ctx context.Context, folder string, names ...string) (string, error) {
	c, err := b.component(folder)
	if err != nil || len(c.missing(names)) == 0 {
		return c.out, err
	}
	unlock, err := lockFile(c.out + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	missing := c.missing(names) // another process might have built them in the meantime
	if len(missing) == 0 {
		return c.out, nil
	}
	what := fmt.Sprintf("build %s %s (%s)", folder, c.version, strings.Join(missing, ", "))
	return c.out, b.Progress.Step(what, func() error { return c.build(ctx, missing) })
}

// SourceDir returns the folder with the source of the project of a components folder. Callers read files such as CRDs
// from it.
func (b *Builder) SourceDir(ctx context.Context, folder string) (string, error) {
	c, err := b.component(folder)
	if err != nil {
		return "", err
	}
	cmd, err := c.goCommand(ctx, "mod", "download", "-json", c.project)
	if err != nil {
		return "", err
	}
	output, err := cmd.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(output, &module); jsonErr != nil || module.Error != "" {
		return "", fmt.Errorf("go mod download %s in %s: %w %s", c.project, c.dir, errors.Join(err, jsonErr), module.Error)
	}
	return module.Dir, nil
}

func (b *Builder) component(folder string) (component, error) {
	kind, _, _ := strings.Cut(folder, "-")
	project, ok := projects[kind]
	if !ok {
		return component{}, fmt.Errorf("unknown component %q", folder)
	}
	dir := filepath.Join(b.Repo, componentsFolder, folder)
	file := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return component{}, fmt.Errorf("component %q does not exist in this repository: %w", folder, err)
	}
	mod, err := modfile.Parse(file, data, nil)
	if err != nil {
		return component{}, err
	}
	version, err := moduleVersion(mod, project.module)
	if err != nil {
		return component{}, err
	}
	inputs := []string{file, filepath.Join(dir, "go.sum")}
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return component{}, err
	}
	sum, err := hashFiles(append(inputs, sources...)...)
	if err != nil {
		return component{}, err
	}
	c := component{
		dir:      dir,
		project:  project.module,
		version:  version,
		packages: map[string]string{},
		out:      b.Paths.cache("bin", fmt.Sprintf("%s-%s-%s", kind, version, sum)),
	}
	for _, tool := range mod.Tool {
		withoutMajor, _, _ := module.SplitPathVersion(tool.Path)
		c.packages[cmp.Or(project.binary, path.Base(withoutMajor))] = tool.Path
	}
	return c, nil
}

func moduleVersion(mod *modfile.File, module string) (string, error) {
	for _, r := range mod.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", mod.Syntax.Name, module)
}

func (c component) missing(names []string) []string {
	var missing []string
	for _, name := range names {
		if !exists(filepath.Join(c.out, name)) {
			missing = append(missing, name)
		}
	}
	return missing
}

// build builds in a temporary folder below out and then renames the binaries, so that binaries in out are complete.
func (c component) build(ctx context.Context, names []string) error {
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(c.out, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	args := []string{"build", "-trimpath", "-mod=readonly", "-ldflags", ldflags(c.project, c.version)}
	if len(c.packages) == 1 {
		args = append(args, "-o", filepath.Join(tmp, names[0])) // the package can have another name than the binary
	} else {
		args = append(args, "-o", tmp+"/")
	}
	for _, name := range names {
		pkg, ok := c.packages[name]
		if !ok {
			return fmt.Errorf("%s/go.mod has no tool %q", c.dir, name)
		}
		args = append(args, pkg)
	}
	cmd, err := c.goCommand(ctx, args...)
	if err != nil {
		return err
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s\nThe first build needs access to the module proxy (go env GOPROXY)",
			c.dir, err, lastLines(output, 20))
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Rename(filepath.Join(tmp, name), filepath.Join(c.out, name)))
	}
	return errors.Join(errs...)
}

// goCommand returns a go command in the module of the component. It builds for the platform of this machine.
func (c component) goCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return nil, fmt.Errorf("the components of the cluster are built with Go: install it and add it to PATH: %w", err)
	}
	cmd := exec.CommandContext(ctx, goTool, args...)
	cmd.Dir = c.dir
	// With less garbage collection, the compiler is a sixth faster and the linker is twice as fast. The linker then needs
	// 3 GB of memory instead of 2.5.
	gc := "GOGC=" + cmp.Or(os.Getenv("GOGC"), "400")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=", "GOARCH=", gc)
	return cmd, nil
}

// ldflags returns the flags for the linker. For Kubernetes, they set the version of the programs, which would
// otherwise be 0.0. Clients and admission plugins read that version.
func ldflags(project, version string) string {
	flags := "-s -w"
	if project != projects["kubernetes"].module {
		return flags
	}
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
	const pkg = "k8s.io/component-base/version."
	return fmt.Sprintf("%s -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s", flags, pkg, version, pkg, major, pkg,
		minor)
}

// Assets builds the programs that envtest needs and returns the folder for KUBEBUILDER_ASSETS.
func (b *Builder) Assets(ctx context.Context) (string, error) {
	etcd, err := b.Binaries(ctx, "etcd", "etcd")
	if err != nil {
		return "", err
	}
	kubernetes, err := b.Binaries(ctx, b.Kubernetes, "kube-apiserver", "kubectl")
	if err != nil {
		return "", err
	}
	dir := b.Paths.cache("assets", filepath.Base(kubernetes)+"_"+filepath.Base(etcd))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, target := range []string{
		filepath.Join(etcd, "etcd"),
		filepath.Join(kubernetes, "kube-apiserver"),
		filepath.Join(kubernetes, "kubectl"),
	} {
		// An existing link has the same target, because the name of the folder depends on the targets.
		err := os.Symlink(target, filepath.Join(dir, filepath.Base(target)))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}
