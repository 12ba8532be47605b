// Sign signs the release of one module: the files that `make release` writes, the image and the SBOM that `make images`
// builds for a controller, and the provenance of both. It needs no network, because it does not use a transparency log.
//
//	sign -module pytorch -key cosign.key
//
// It signs only artifacts that were built from the tagged sources. docs/contribute/releasing.md describes how to sign a
// release, and docs/operate/installing.md how to verify one.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature"

	"tensorstack.dev/jobs/hack/tools/internal/provenance"
	"tensorstack.dev/jobs/hack/tools/internal/versions"
)

func main() {
	s := signing{out: os.Stdout, password: readPassword}
	flag.StringVar(&s.root, "root", ".", "root of the repository")
	flag.StringVar(&s.module, "module", "", "module of the release to sign")
	flag.StringVar(&s.key, "key", "", "private key from cosign generate-key-pair: a file, or env://VARIABLE")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := s.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

type signing struct {
	root, module, key string
	password          func() ([]byte, error)
	out               io.Writer

	signer signature.Signer
	role   versions.Role
	// version and commit are the version of the release and the ID of the tagged commit.
	version, commit string
}

// artifact is a file to sign. The bundle with its signature is written next to it.
type artifact struct {
	file    string
	content []byte
}

// run signs all artifacts or none: it checks every artifact before it writes a signature.
func (s *signing) run(ctx context.Context) error {
	if err := s.findRelease(ctx); err != nil {
		return err
	}
	var err error
	if s.signer, err = loadKey(s.key, s.password); err != nil {
		return err
	}
	artifacts, released, err := s.released()
	if err != nil {
		return err
	}
	var img *image
	var built artifact
	if s.role.HasController() {
		var sbom *artifact
		if img, built, sbom, err = s.built(); err != nil {
			return err
		}
		if sbom != nil {
			artifacts = append(artifacts, *sbom)
		}
	}
	for _, a := range artifacts {
		bundle, err := signBlob(s.signer, a.content)
		if err != nil {
			return err
		}
		if err := s.write(a.file+bundleSuffix, bundle); err != nil {
			return err
		}
	}
	if err := s.signProvenance(released, nil); err != nil || img == nil {
		return err
	}
	return s.signProvenance(built, img)
}

// signProvenance writes the bundle of a provenance statement. If the statement is about an image, it also signs the
// image.
func (s *signing) signProvenance(statement artifact, img *image) error {
	envelope, bundle, err := signStatement(s.signer, statement.content)
	if err != nil {
		return err
	}
	if err := s.write(strings.TrimSuffix(statement.file, ".json")+bundleSuffix, bundle); err != nil || img == nil {
		return err
	}
	if err := img.sign(s.signer, s.version, envelope); err != nil {
		return fmt.Errorf("signing the image: %w", err)
	}
	_, err = fmt.Fprintf(s.out, "Signed: %s\n", s.layout())
	return err
}

func (s *signing) write(file string, content []byte) error {
	fmt.Fprintf(s.out, "Written: %s\n", file)
	return os.WriteFile(filepath.Join(s.root, file), content, 0o644)
}

func (s *signing) layout() string { return "bin/" + s.module + "-controller.oci" }

// findRelease sets the role and the version of the module from versions.yaml, and the commit from the tag of this
// version.
func (s *signing) findRelease(ctx context.Context) error {
	pins, err := versions.Read(filepath.Join(s.root, "versions.yaml"))
	if err != nil {
		return err
	}
	pinned, ok := pins.Modules[s.module]
	if !ok {
		return fmt.Errorf("versions.yaml has no module %q: set MODULE to one of its modules", s.module)
	}
	s.role, s.version = pinned.Role, pinned.Version
	tag := s.module + "/" + s.version
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+tag+"^{commit}")
	cmd.Dir = s.root
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s, the version in versions.yaml, is not tagged: run make release with DRY_RUN=false first", tag)
	}
	s.commit = strings.TrimSpace(string(output))
	return nil
}

// released returns the files that `make release` wrote, and their provenance.
func (s *signing) released() (files []artifact, statement artifact, err error) {
	const folder = "bin/release/"
	statement.file = folder + s.module + "-" + s.version + ".provenance.json"
	statement.content, err = os.ReadFile(filepath.Join(s.root, statement.file))
	if errors.Is(err, os.ErrNotExist) {
		return nil, statement, fmt.Errorf("%s does not exist: make release DRY_RUN=false writes it", statement.file)
	}
	if err != nil {
		return nil, statement, err
	}
	build, subjects, err := provenance.Read(statement.content)
	if err != nil {
		return nil, statement, fmt.Errorf("reading %s: %w", statement.file, err)
	}
	if err := s.check(build, provenance.Release); err != nil {
		return nil, statement, fmt.Errorf("%s: %w", statement.file, err)
	}
	for _, subject := range subjects {
		file := folder + subject.Name
		content, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return nil, statement, err
		}
		if provenance.SubjectOf(subject.Name, content) != subject {
			return nil, statement, fmt.Errorf("%s is not the file that make release wrote", file)
		}
		files = append(files, artifact{file: file, content: content})
	}
	return files, statement, nil
}

// built returns the image that `make images` built, its provenance, and its SBOM. The SBOM is nil if its file does
// not exist next to the image.
func (s *signing) built() (img *image, statement artifact, sbom *artifact, err error) {
	statement.file = "bin/" + s.module + "-controller.provenance.json"
	img, err = openImage(filepath.Join(s.root, s.layout()), "tensorstack/"+s.module+"-controller", s.version)
	if err != nil {
		return nil, statement, nil, fmt.Errorf("reading the image that make images builds: %w", err)
	}
	img.build.Module = s.module
	if err := s.check(img.build, provenance.Image); err != nil {
		return nil, statement, nil, fmt.Errorf("%s: %w", s.layout(), err)
	}
	subjects := img.subjects
	file := "bin/" + s.module + "-controller.cdx.json"
	content, err := os.ReadFile(filepath.Join(s.root, file))
	switch {
	case errors.Is(err, os.ErrNotExist): // without an image for this machine's platform, `make images` writes no SBOM
	case err != nil:
		return nil, statement, nil, err
	default:
		isIn := func(platform string) bool { return bytes.Equal(img.sboms[platform], content) }
		if !slices.ContainsFunc(img.build.Platforms, isIn) {
			return nil, statement, nil, fmt.Errorf("%s is not the SBOM in any image of %s", file, s.layout())
		}
		sbom = &artifact{file: file, content: content}
		subjects = append(subjects, provenance.SubjectOf(filepath.Base(file), content))
	}
	statement.content, err = provenance.Statement(img.build, subjects...)
	return img, statement, sbom, err
}

// check returns an error if artifacts were not built for this release from the tagged commit.
func (s *signing) check(b provenance.Build, want provenance.BuildType) error {
	if b.Type != want || b.Module != s.module || b.Version != s.version {
		return fmt.Errorf("it was built by %s for %s %s, want %s for %s %s",
			b.Type, b.Module, b.Version, want, s.module, s.version)
	}
	if b.Commit != s.commit {
		return fmt.Errorf("it was built from commit %s, but the tag %s/%s is commit %s: build it again from the tag",
			b.Commit, s.module, s.version, s.commit)
	}
	return nil
}
