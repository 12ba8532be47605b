// Image packs a static binary into a container image, without a container runtime: one layer, a user that is not root, and
// the same bytes for the same input.
//
//	image -binary FILE -name NAME:TAG -output FILE.tar
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// nonRoot is the user that images without a distribution conventionally run as.
const nonRoot = "65532:65532"

func main() {
	binary := flag.String("binary", "", "static binary to pack; it becomes the entrypoint")
	imageName := flag.String("name", "", "name and tag of the image")
	output := flag.String("output", "", "archive to write, as `docker load` and `ctr images import` read it")
	arch := flag.String("arch", runtime.GOARCH, "architecture of the binary")
	flag.Parse()
	if err := build(*binary, *imageName, *output, *arch); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func build(binary, imageName, output, arch string) error {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	layer, err := layerOf(binary)
	if err != nil {
		return fmt.Errorf("packing %s: %w", binary, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = arch
	config.Config = v1.Config{User: nonRoot, WorkingDir: "/", Entrypoint: []string{"/" + filepath.Base(binary)}}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(output, tag, image)
}

func layerOf(binary string) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{Name: filepath.Base(binary), Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
}
