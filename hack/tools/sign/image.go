package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"tensorstack.dev/jobs/hack/tools/internal/provenance"
)

// Annotations and media types that cosign uses in registries, and in OCI layouts that `cosign save` writes.
const (
	refName             = "org.opencontainers.image.ref.name"
	kind                = "kind"
	kindImage           = "dev.cosignproject.cosign/image"
	kindIndex           = "dev.cosignproject.cosign/imageIndex"
	kindSignatures      = "dev.cosignproject.cosign/sigs"
	kindAttestations    = "dev.cosignproject.cosign/atts"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signaturePayload    = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	attestationEnvelope = types.MediaType("application/vnd.dsse.envelope.v1+json")
)

// sbomFile is the name of the SBOM in an image.
const sbomFile = "sbom.cdx.json"

// image is an image in an OCI layout that `make images` wrote.
type image struct {
	layout layout.Path
	// name is the name of the image, without a tag.
	name string
	// descriptor describes the image, or the index if there are several platforms.
	descriptor v1.Descriptor
	// build describes how the image was built, according to the labels of the image and the binaries in it.
	build provenance.Build
	// subjects are the image and, if it is an index, the images of its platforms.
	subjects []provenance.Subject
	// sboms maps each platform to the SBOM in the image for that platform.
	sboms map[string][]byte
}

// openImage reads the image with the given tag from an OCI layout.
func openImage(folder, imageName, tag string) (*image, error) {
	path, err := layout.FromPath(folder)
	if err != nil {
		return nil, err
	}
	root, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	isTagged := match.Name(tag)
	found := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool { return isTagged(d) })
	if found < 0 {
		return nil, fmt.Errorf("%s has no image with the tag %s: build it from the sources of the release", folder, tag)
	}
	i := &image{layout: path, name: imageName, descriptor: manifest.Manifests[found], sboms: map[string][]byte{}}
	i.build.Type = provenance.Image
	i.addSubject("", i.descriptor.Digest)
	if !i.descriptor.MediaType.IsIndex() {
		return i, i.read(root, i.descriptor)
	}
	index, err := root.ImageIndex(i.descriptor.Digest)
	if err != nil {
		return nil, err
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range platforms.Manifests {
		if err := i.read(index, d); err != nil {
			return nil, err
		}
		i.addSubject("?platform="+d.Platform.String(), d.Digest)
	}
	return i, nil
}

func (i *image) addSubject(suffix string, digest v1.Hash) {
	i.subjects = append(i.subjects, provenance.Subject{Name: i.name + suffix, SHA256: digest.Hex})
}

// read reads the build information and the SBOM from the image for one platform.
func (i *image) read(index v1.ImageIndex, d v1.Descriptor) error {
	if d.Platform == nil {
		return fmt.Errorf("the image %s has no platform", d.Digest)
	}
	platform := d.Platform.String()
	img, err := index.Image(d.Digest)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	binary := path.Base(i.name)
	files, err := filesOf(img, binary, sbomFile)
	if err != nil {
		return fmt.Errorf("reading the image of %s: %w", platform, err)
	}
	info, err := buildinfo.Read(bytes.NewReader(files[binary]))
	if err != nil {
		return fmt.Errorf("reading the binary of %s: %w", platform, err)
	}
	build := i.build
	build.Version = config.Config.Labels["org.opencontainers.image.version"]
	build.Commit = config.Config.Labels["org.opencontainers.image.revision"]
	build.GoVersion = info.GoVersion
	if len(i.build.Platforms) > 0 && (build.Commit != i.build.Commit || build.GoVersion != i.build.GoVersion) {
		return fmt.Errorf("the images of %s and %s were not built from the same commit with the same version of Go",
			i.build.Platforms[0], platform)
	}
	build.Platforms = append(build.Platforms, platform)
	i.build = build
	i.sboms[platform] = files[sbomFile]
	return nil
}

// filesOf maps the names of files of an image to their content. It returns an error if a file does not exist.
func filesOf(img v1.Image, names ...string) (map[string][]byte, error) {
	content := mutate.Extract(img)
	defer content.Close()
	files := map[string][]byte{}
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, header.Name) {
			continue
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if files[name] == nil {
			return nil, fmt.Errorf("the file %s does not exist", name)
		}
	}
	return files, nil
}

// sign adds the signature of the image and an attestation to the layout, in the form that cosign uses. Their tags are
// sha256-DIGEST.sig and sha256-DIGEST.att, so tools that copy the tags of a repository also copy the signature and
// the attestation. `cosign load` recognizes them by the annotation kind. The image does not change.
func (i *image) sign(signer signature.Signer, tag string, envelope []byte) error {
	digest, err := name.NewDigest(i.name + "@" + i.descriptor.Digest.String())
	if err != nil {
		return err
	}
	claim, err := json.Marshal(payload.Cosign{Image: digest, ClaimedIdentity: i.name + ":" + tag})
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(claim))
	if err != nil {
		return err
	}
	signatures, err := attached(static.NewLayer(claim, signaturePayload), map[string]string{
		signatureAnnotation: base64.StdEncoding.EncodeToString(signed),
	})
	if err != nil {
		return err
	}
	attestations, err := attached(static.NewLayer(envelope, attestationEnvelope), map[string]string{
		signatureAnnotation: "", "predicateType": provenance.PredicateType,
	})
	if err != nil {
		return err
	}
	if err := i.tagKind(tag); err != nil {
		return err
	}
	prefix := strings.Replace(i.descriptor.Digest.String(), ":", "-", 1)
	return errors.Join(
		i.replace(prefix+".sig", kindSignatures, signatures),
		i.replace(prefix+".att", kindAttestations, attestations),
	)
}

// attached returns an image with one layer. cosign stores the signatures and attestations of an image in this form.
func attached(layer v1.Layer, annotations map[string]string) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(base, mutate.Addendum{Layer: layer, Annotations: annotations})
}

// tagKind annotates the signed image in the layout with its tag and its kind.
func (i *image) tagKind(tag string) error {
	root, err := i.layout.ImageIndex()
	if err != nil {
		return err
	}
	same := match.Digests(i.descriptor.Digest)
	if i.descriptor.MediaType.IsIndex() {
		index, err := root.ImageIndex(i.descriptor.Digest)
		if err != nil {
			return err
		}
		return i.layout.ReplaceIndex(index, same, layout.WithAnnotations(map[string]string{refName: tag, kind: kindIndex}))
	}
	img, err := root.Image(i.descriptor.Digest)
	if err != nil {
		return err
	}
	return i.layout.ReplaceImage(img, same,
		layout.WithAnnotations(map[string]string{refName: tag, kind: kindImage}), layout.WithPlatform(*i.descriptor.Platform))
}

// replace writes an image into the layout. It replaces an image with the same tag, because an image can be signed
// again.
func (i *image) replace(tag, of string, img v1.Image) error {
	return i.layout.ReplaceImage(img, match.Name(tag), layout.WithAnnotations(map[string]string{refName: tag, kind: of}))
}
