// Sign signs the release of one module: the files that `make release` writes, the image and the SBOM that `make images`
// makes, and the provenance of both. It needs no network: the signatures are in no transparency log.
//
//	sign -module pytorch -key cosign.key
//
// It signs only what was made from the tagged sources. docs/releasing.md describes it for those who sign, and
// docs/installing.md for those who verify.
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
	flag.StringVar(&s.module, "module", "", "module whose release is signed")
	flag.StringVar(&s.key, "key", "", "private key of `cosign generate-key-pair`: a file, or env://VARIABLE")
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
	// version and commit of the release.
	version, commit string
}

// artefact is a file that gets a bundle with its signature beside it.
type artefact struct {
	file    string
	content []byte
}

// run signs all or nothing: it first checks each artefact.
func (s *signing) run(ctx context.Context) error {
	if err := s.findRelease(ctx); err != nil {
		return err
	}
	var err error
	if s.signer, err = loadKey(s.key, s.password); err != nil {
		return err
	}
	artefacts, released, err := s.released()
	if err != nil {
		return err
	}
	var img *image
	var built artefact
	if !versions.IsLibrary(s.module) {
		var sbom *artefact
		if img, built, sbom, err = s.built(); err != nil {
			return err
		}
		if sbom != nil {
			artefacts = append(artefacts, *sbom)
		}
	}
	for _, a := range artefacts {
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

// signProvenance writes the bundle of a provenance, and signs the image that it is about, if it is about one.
func (s *signing) signProvenance(of artefact, img *image) error {
	envelope, bundle, err := signStatement(s.signer, of.content)
	if err != nil {
		return err
	}
	if err := s.write(strings.TrimSuffix(of.file, ".json")+bundleSuffix, bundle); err != nil || img == nil {
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

// findRelease finds the version that is released and the commit that is tagged with it.
func (s *signing) findRelease(ctx context.Context) error {
	pins, err := versions.Read(filepath.Join(s.root, "versions.yaml"))
	if err != nil {
		return err
	}
	pinned, ok := pins.Modules[s.module]
	if !ok {
		return fmt.Errorf("there is no module %q in versions.yaml: MODULE is one of those there", s.module)
	}
	s.version = pinned.Version
	tag := s.module + "/" + s.version
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+tag+"^{commit}")
	cmd.Dir = s.root
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s, which versions.yaml has, is not tagged: make release makes and tags it", tag)
	}
	s.commit = strings.TrimSpace(string(output))
	return nil
}

// released returns the files of `make release`, and their provenance.
func (s *signing) released() (files []artefact, of artefact, err error) {
	const folder = "bin/release/"
	of.file = folder + s.module + "-" + s.version + ".provenance.json"
	of.content, err = os.ReadFile(filepath.Join(s.root, of.file))
	if errors.Is(err, os.ErrNotExist) {
		return nil, of, fmt.Errorf("%s is not there: make release DRY_RUN=false writes it", of.file)
	}
	if err != nil {
		return nil, of, err
	}
	build, subjects, err := provenance.Read(of.content)
	if err != nil {
		return nil, of, fmt.Errorf("reading %s: %w", of.file, err)
	}
	if err := s.check(build, provenance.Release); err != nil {
		return nil, of, fmt.Errorf("%s: %w", of.file, err)
	}
	for _, subject := range subjects {
		file := folder + subject.Name
		content, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return nil, of, err
		}
		if provenance.SubjectOf(subject.Name, content) != subject {
			return nil, of, fmt.Errorf("%s is not the file that make release wrote", file)
		}
		files = append(files, artefact{file: file, content: content})
	}
	return files, of, nil
}

// built returns the image of `make images`, its provenance, and its SBOM; nil if none is beside it.
func (s *signing) built() (img *image, of artefact, sbom *artefact, err error) {
	of.file = "bin/" + s.module + "-controller.provenance.json"
	img, err = openImage(filepath.Join(s.root, s.layout()), "tensorstack/"+s.module+"-controller", s.version)
	if err != nil {
		return nil, of, nil, fmt.Errorf("reading the image that make images makes: %w", err)
	}
	img.build.Module = s.module
	if err := s.check(img.build, provenance.Image); err != nil {
		return nil, of, nil, fmt.Errorf("%s: %w", s.layout(), err)
	}
	subjects := img.subjects
	file := "bin/" + s.module + "-controller.cdx.json"
	content, err := os.ReadFile(filepath.Join(s.root, file))
	switch {
	case errors.Is(err, os.ErrNotExist): // this machine's platform is not among those of the image
	case err != nil:
		return nil, of, nil, err
	default:
		isIn := func(platform string) bool { return bytes.Equal(img.sboms[platform], content) }
		if !slices.ContainsFunc(img.build.Platforms, isIn) {
			return nil, of, nil, fmt.Errorf("%s is in no image of %s", file, s.layout())
		}
		sbom = &artefact{file: file, content: content}
		subjects = append(subjects, provenance.SubjectOf(filepath.Base(file), content))
	}
	of.content, err = provenance.Statement(img.build, subjects...)
	return img, of, sbom, err
}

// check compares how artefacts were made with the release.
func (s *signing) check(b provenance.Build, want provenance.BuildType) error {
	if b.Type != want || b.Module != s.module || b.Version != s.version {
		return fmt.Errorf("it is of %s of %s %s, want %s of %s %s", b.Type, b.Module, b.Version, want, s.module, s.version)
	}
	if b.Commit != s.commit {
		return fmt.Errorf("it was made from the commit %s, and %s/%s is %s: make it again from the tag",
			b.Commit, s.module, s.version, s.commit)
	}
	return nil
}
