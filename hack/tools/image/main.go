// Image packs a controller into a container image, without a container runtime. The image has one layer and runs as a
// user other than root. The same input gives the same bytes. In the flag -folders, each DIR is a folder with the
// files that hack/build.sh writes for a platform.
//
//	image -name NAME:TAG -revision REVISION -folders linux/amd64=DIR,linux/arm64=DIR -layout DIR -archive FILE.tar
//
// Image prints the digest that the image has in a registry. With several platforms, this is the digest of the index.
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// nonRoot is the user ID and group ID that images without a Linux distribution use by convention.
	nonRoot = "65532:65532"
	source  = "https://tensorstack.dev/jobs"
	license = "Apache-2.0"
)

func main() {
	o := options{}
	flag.StringVar(&o.name, "name", "",
		"name and tag of the image; the last part of the name is the name of the binary, which becomes the entrypoint")
	flag.StringVar(&o.revision, "revision", "", "commit that the binary was built from")
	folders := flag.String("folders", "", "comma-separated folders to pack, as PLATFORM=FOLDER")
	flag.StringVar(&o.layout, "layout", "", "OCI layout to write, with the images of all platforms")
	flag.StringVar(&o.archive, "archive", "", "archive to write for docker load and ctr images import, "+
		"with the image of this machine's platform; not written if no folder has this platform")
	flag.Parse()
	for folder := range strings.SplitSeq(*folders, ",") {
		o.folders = append(o.folders, folder)
	}
	digest, err := build(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

type options struct {
	name, revision, layout, archive string
	// folders are the folders to pack, each as PLATFORM=FOLDER.
	folders []string
}

func build(o options) (digest v1.Hash, err error) {
	tag, err := name.NewTag(o.name)
	if err != nil {
		return digest, err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    path.Base(tag.RepositoryStr()),
		"org.opencontainers.image.version":  tag.TagStr(),
		"org.opencontainers.image.revision": o.revision,
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": license,
	}
	var images []mutate.IndexAddendum
	for _, f := range o.folders {
		given, folder, ok := strings.Cut(f, "=")
		if !ok {
			return digest, fmt.Errorf("%q is not in the form PLATFORM=FOLDER, for example linux/amd64=bin/build/pytorch", f)
		}
		platform, err := v1.ParsePlatform(given)
		if err != nil {
			return digest, err
		}
		image, err := imageOf(folder, *platform, labels)
		if err != nil {
			return digest, fmt.Errorf("packing %s: %w", folder, err)
		}
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		if platform.OS == "linux" && platform.Architecture == runtime.GOARCH {
			if err := tarball.WriteToFile(o.archive, tag, image); err != nil {
				return digest, err
			}
		}
	}
	return writeLayout(o.layout, tag, images)
}

// writeLayout writes an OCI layout with one image, or with an index if there are images of several platforms. The
// result is the digest of that image or index.
func writeLayout(folder string, tag name.Tag, images []mutate.IndexAddendum) (digest v1.Hash, err error) {
	// Remove the images of earlier builds.
	if err := os.RemoveAll(folder); err != nil {
		return digest, err
	}
	written, err := layout.Write(folder, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return digest, err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag.TagStr()})
	if len(images) == 1 {
		image := images[0].Add.(v1.Image) //nolint:forcetypeassert // build adds only images
		if digest, err = image.Digest(); err != nil {
			return digest, err
		}
		return digest, written.AppendImage(image, named, layout.WithPlatform(*images[0].Platform))
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), images...)
	if digest, err = index.Digest(); err != nil {
		return digest, err
	}
	return digest, written.AppendIndex(index, named)
}

func imageOf(folder string, platform v1.Platform, labels map[string]string) (v1.Image, error) {
	binary := labels["org.opencontainers.image.title"]
	layer, err := layerOf(folder, binary)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config = v1.Config{User: nonRoot, WorkingDir: "/", Entrypoint: []string{"/" + binary}, Labels: labels}
	return mutate.ConfigFile(image, config)
}

// layerOf packs the files of a folder into a layer. Only the binary is executable.
func layerOf(folder, binary string) (v1.Layer, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	found := false
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: f.Name(), Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if f.Name() == binary {
			found, header.Mode = true, 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("the folder has no file %s, which the name of the image requires", binary)
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}
