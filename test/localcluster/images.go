package localcluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tarLayer is an uncompressed layer in a file. The layers are never transferred, so compression would only cost time.
type tarLayer struct {
	path string
	hash v1.Hash
	size int64
}

var _ v1.Layer = (*tarLayer)(nil)

func newTarLayer(path string) (*tarLayer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return nil, err
	}
	return &tarLayer{path: path, hash: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}, size: size}, nil
}

func (l *tarLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *tarLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *tarLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *tarLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l *tarLayer) Size() (int64, error)                 { return l.size, nil }
func (l *tarLayer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// file is one entry of a layer.
type file struct {
	name string
	mode int64
	data []byte
	link string // the target, if the entry is a symbolic link
}

// writeTar writes files as a layer. The modification times are fixed, so that equal contents have equal digests.
func writeTar(path string, files ...file) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg,
		}
		switch {
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, buf.Bytes(), 0o644)
}

// writeImage writes a Docker archive atomically.
func writeImage(path, tag string, config v1.Config, layers ...string) error {
	img := mutate.MediaType(empty.Image, types.DockerManifestSchema2)
	for _, layer := range layers {
		l, err := newTarLayer(layer)
		if err != nil {
			return err
		}
		if img, err = mutate.AppendLayers(img, l); err != nil {
			return err
		}
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return err
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture, cf.Config = "linux", runtime.GOARCH, config
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		return err
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	defer os.Remove(tmp)
	if err := tarball.WriteToFile(tmp, ref, img); err != nil {
		return fmt.Errorf("writing image %s: %w", tag, err)
	}
	return os.Rename(tmp, path)
}

// ComponentImages builds the images of the named components, unless they are cached, and loads them into the real
// node. It is a no-op if the nodes are simulated.
func (c *Cluster) ComponentImages(ctx context.Context, folders ...string) error {
	kind, err := c.NodeKind()
	if err != nil {
		return err
	}
	if kind == Simulated {
		c.Progress.Printf("the nodes are simulated: there is nothing to build or load")
		return nil
	}
	for _, folder := range folders {
		tag, path, err := c.componentImage(ctx, folder)
		if err != nil {
			return err
		}
		if err := c.Progress.Step("load "+tag, func() error { return c.importImage(ctx, path) }); err != nil {
			return err
		}
	}
	return nil
}

// componentImage builds the image of a component that consists of one program, unless it is cached. It returns the tag
// and the path of the archive.
func (b *Builder) componentImage(ctx context.Context, folder string) (tag, path string, err error) {
	component, err := b.component(folder)
	if err != nil {
		return "", "", err
	}
	programs := slices.Collect(maps.Keys(component.packages))
	if len(programs) != 1 {
		return "", "", fmt.Errorf("component %q has %d programs, but an image needs exactly one", folder, len(programs))
	}
	program := programs[0]
	tag = "tensorstack/" + folder + ":" + strings.TrimPrefix(component.version, "v")
	path = b.Paths.cache("images", filepath.Base(component.out)+".tar")
	out, err := b.Binaries(ctx, folder, program)
	if err != nil {
		return "", "", err
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", "", err
	}
	defer unlock()
	if exists(path) {
		return tag, path, nil
	}
	return tag, path, b.Progress.Step("build "+tag, func() error {
		return writeProgramImage(path, tag, "65532:65532", filepath.Join(out, program))
	})
}

// writeProgramImage writes an image whose only file is a static program. Its containers run the program.
func writeProgramImage(path, tag, user, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer := path + ".layer"
	defer os.Remove(layer)
	name := filepath.Base(program)
	if err := writeTar(layer, file{name: name, mode: 0o755, data: data}); err != nil {
		return err
	}
	return writeImage(path, tag, v1.Config{Entrypoint: []string{"/" + name}, User: user}, layer)
}

// pauseImage builds the image of the sandbox containers, unless it is cached. It returns the tag and the path of the
// archive.
func (b *Builder) pauseImage(ctx context.Context) (tag, path string, err error) {
	dir := filepath.Join(b.Repo, filepath.Dir(componentsFolder), "pause")
	sum, err := hashFiles(filepath.Join(dir, "main.go"))
	if err != nil {
		return "", "", err
	}
	tag = "tensorstack.dev/pause:" + sum
	path = b.Paths.cache("images", "pause-"+sum+".tar")
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return "", "", err
	}
	defer unlock()
	if exists(path) {
		return tag, path, nil
	}
	return tag, path, b.Progress.Step("build the pause image", func() error {
		tmp, err := os.MkdirTemp(b.Paths.cache("images"), ".pause-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		binary := filepath.Join(tmp, "pause")
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "main.go")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=", "GOARCH=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build in %s: %w\n%s", dir, err, lastLines(out, 20))
		}
		return writeProgramImage(path, tag, "65535:65535", binary)
	})
}

// LoadImages imports Docker archives or OCI layouts into the real node. It is a no-op if the nodes are simulated.
func (c *Cluster) LoadImages(ctx context.Context, files ...string) error {
	kind, err := c.NodeKind()
	if err != nil {
		return err
	}
	if kind == Simulated {
		c.Progress.Printf("the nodes are simulated: there is nothing to load")
		return nil
	}
	for _, path := range files {
		err := c.Progress.Step("load "+path, func() error { return c.importImage(ctx, path) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) importImage(ctx context.Context, path string) error {
	_, err := c.ctr(ctx, "images", "import", path)
	return err
}

// ensureImage imports an image into the real node unless the node has it.
func (c *Cluster) ensureImage(ctx context.Context, tag, path string) error {
	if c.hasImage(ctx, tag) {
		return nil
	}
	return c.importImage(ctx, path)
}

// hasImage reports whether the node has the image with the given full name.
func (c *Cluster) hasImage(ctx context.Context, full string) bool {
	out, err := c.ctr(ctx, "images", "list", "--quiet", "name=="+full)
	return err == nil && strings.TrimSpace(out) == full
}

func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "ctr",
		append([]string{"--address", c.Paths.state("run", "containerd.sock"), "--namespace", "k8s.io"}, args...)...)
}
