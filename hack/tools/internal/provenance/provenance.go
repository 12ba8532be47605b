// Package provenance writes and reads the provenance of release artifacts: in-toto statements with a predicate of SLSA
// provenance v1. docs/contribute/releasing.md describes their fields.
package provenance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// PredicateType is the type of the predicate in the statements.
	PredicateType = "https://slsa.dev/provenance/v1"
	// PayloadType is the type of the statements in a DSSE envelope.
	PayloadType = "application/vnd.in-toto+json"

	repository = "https://tensorstack.dev/jobs"
	// builder is the ID of the builder in the statements: the machine of a maintainer, because no build service builds
	// the artifacts.
	builder = repository + "/builders/maintainer"
	// goPackage is the prefix of the package URL of the Go standard library. The SBOMs use the same URL.
	goPackage = "pkg:golang/std@"
)

// BuildType is the way in which artifacts are built.
type BuildType string

// The build types.
const (
	// Release is the build type of `make release`, which writes the archive of a module, the chart and the manifests of
	// a controller, and the files of a client.
	Release BuildType = repository + "/buildtypes/release/v1"
	// Image is the build type of `make images`, which builds the images and SBOMs.
	Image BuildType = repository + "/buildtypes/image/v1"
)

// Build describes how artifacts were built.
type Build struct {
	// Type is the way in which the artifacts were built.
	Type BuildType
	// Module and Version are the released module and its version.
	Module, Version string
	// Commit is the full ID of the commit with the sources.
	Commit string
	// GoVersion is the version of Go, such as go1.26.8.
	GoVersion string
	// Platforms are the platforms of images, such as linux/amd64. Empty for the build type Release.
	Platforms []string
}

// Subject is an artifact.
type Subject struct {
	// Name is the name of the file or the image.
	Name string
	// SHA256 is the digest of the artifact, in hexadecimal.
	SHA256 string
}

// SubjectOf returns the subject for a file.
func SubjectOf(name string, content []byte) Subject {
	sum := sha256.Sum256(content)
	return Subject{Name: name, SHA256: hex.EncodeToString(sum[:])}
}

// Statement returns a statement, as JSON, that a build produced the subjects. The statement contains no time and no
// random number, so the same build and the same subjects give the same bytes.
func Statement(b Build, subjects ...Subject) ([]byte, error) {
	if len(b.Commit) != 40 {
		return nil, fmt.Errorf("%q is not the full ID of a commit", b.Commit)
	}
	parameters := map[string]any{"module": b.Module, "version": b.Version}
	if len(b.Platforms) > 0 {
		platforms := make([]any, len(b.Platforms))
		for i, p := range b.Platforms {
			platforms[i] = p
		}
		parameters["platforms"] = platforms
	}
	external, err := structpb.NewStruct(parameters)
	if err != nil {
		return nil, err
	}
	predicate := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType:          string(b.Type),
			ExternalParameters: external,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{
					Uri:    "git+" + repository + "@refs/tags/" + b.Module + "/" + b.Version,
					Digest: map[string]string{"gitCommit": b.Commit},
				},
				{Name: "go", Uri: goPackage + strings.TrimPrefix(b.GoVersion, "go")},
			},
		},
		RunDetails: &slsa.RunDetails{Builder: &slsa.Builder{Id: builder}},
	}
	if err := predicate.Validate(); err != nil {
		return nil, err
	}
	fields, err := fieldsOf(predicate)
	if err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: PredicateType, Predicate: fields}
	for _, subject := range subjects {
		s.Subject = append(s.Subject, &intoto.ResourceDescriptor{
			Name: subject.Name, Digest: map[string]string{"sha256": subject.SHA256},
		})
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return marshal(s)
}

// fieldsOf converts a predicate to the form that a statement contains.
func fieldsOf(predicate *slsa.Provenance) (*structpb.Struct, error) {
	content, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	fields := &structpb.Struct{}
	return fields, protojson.Unmarshal(content, fields)
}

// marshal returns a statement as indented JSON. The indentation replaces the spaces that protojson adds at random
// places, so that the same statement gives the same bytes.
func marshal(s *intoto.Statement) ([]byte, error) {
	content, err := protojson.Marshal(s)
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, content, "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// Read returns the build and the subjects of a statement that this package wrote. It returns an error if the statement
// is invalid, has another predicate type, or contains no commit.
func Read(statement []byte) (Build, []Subject, error) {
	s := &intoto.Statement{}
	if err := protojson.Unmarshal(statement, s); err != nil {
		return Build{}, nil, err
	}
	if err := s.Validate(); err != nil {
		return Build{}, nil, err
	}
	if s.GetPredicateType() != PredicateType {
		return Build{}, nil, fmt.Errorf("the statement has the predicate type %s, want %s",
			s.GetPredicateType(), PredicateType)
	}
	content, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		return Build{}, nil, err
	}
	p := &slsa.Provenance{}
	if err := protojson.Unmarshal(content, p); err != nil {
		return Build{}, nil, err
	}
	if err := p.Validate(); err != nil {
		return Build{}, nil, err
	}
	definition := p.GetBuildDefinition()
	parameters := definition.GetExternalParameters().GetFields()
	b := Build{
		Type:    BuildType(definition.GetBuildType()),
		Module:  parameters["module"].GetStringValue(),
		Version: parameters["version"].GetStringValue(),
	}
	for _, platform := range parameters["platforms"].GetListValue().GetValues() {
		b.Platforms = append(b.Platforms, platform.GetStringValue())
	}
	for _, dependency := range definition.GetResolvedDependencies() {
		if commit := dependency.GetDigest()["gitCommit"]; commit != "" {
			b.Commit = commit
		}
		if version, ok := strings.CutPrefix(dependency.GetUri(), goPackage); ok {
			b.GoVersion = "go" + version
		}
	}
	if b.Commit == "" {
		return Build{}, nil, errors.New("the statement contains no commit")
	}
	var subjects []Subject
	for _, subject := range s.GetSubject() {
		subjects = append(subjects, Subject{Name: subject.GetName(), SHA256: subject.GetDigest()["sha256"]})
	}
	return b, subjects, nil
}
