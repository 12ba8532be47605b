package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"google.golang.org/protobuf/encoding/protojson"

	"tensorstack.dev/jobs/hack/tools/internal/provenance"
)

const (
	// bundleSuffix is added to the name of an artifact to get the name of the file with its signature. cosign uses the
	// same suffix.
	bundleSuffix = ".sigstore.json"
	// bundleType is the media type of a Sigstore bundle. It contains the version of the bundle format.
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// signBlob returns a Sigstore bundle with the signature of a file. `cosign verify-blob` reads the bundle.
func signBlob(signer signature.Signer, content []byte) ([]byte, error) {
	signed, err := signer.SignMessage(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	return bundleOf(signer, &bundlepb.Bundle{Content: &bundlepb.Bundle_MessageSignature{
		MessageSignature: &commonpb.MessageSignature{
			MessageDigest: &commonpb.HashOutput{Algorithm: commonpb.HashAlgorithm_SHA2_256, Digest: digest[:]},
			Signature:     signed,
		},
	}})
}

// signStatement signs an in-toto statement. It returns the statement in a DSSE envelope, to attach to an image, and in
// a Sigstore bundle, which `cosign verify-blob-attestation` reads. Both have the same signature.
func signStatement(signer signature.Signer, statement []byte) (envelope, bundle []byte, err error) {
	wrapped := dsse.WrapSigner(signer, provenance.PayloadType)
	if envelope, err = wrapped.SignMessage(bytes.NewReader(statement)); err != nil {
		return nil, nil, err
	}
	var written struct {
		Signatures []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(envelope, &written); err != nil {
		return nil, nil, err
	}
	signatures := make([]*dssepb.Signature, len(written.Signatures))
	for i, s := range written.Signatures {
		signatures[i] = &dssepb.Signature{Sig: s.Sig}
	}
	bundle, err = bundleOf(signer, &bundlepb.Bundle{Content: &bundlepb.Bundle_DsseEnvelope{
		DsseEnvelope: &dssepb.Envelope{Payload: statement, PayloadType: provenance.PayloadType, Signatures: signatures},
	}})
	return envelope, bundle, err
}

// bundleOf adds a hint of the public key to a bundle, as cosign does, and returns the bundle as JSON.
func bundleOf(signer signature.Signer, b *bundlepb.Bundle) ([]byte, error) {
	key, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	der, err := cryptoutils.MarshalPublicKeyToDER(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	hash := sha256.Sum256(der)
	b.MediaType = bundleType
	b.VerificationMaterial = &bundlepb.VerificationMaterial{Content: &bundlepb.VerificationMaterial_PublicKey{
		PublicKey: &commonpb.PublicKeyIdentifier{Hint: base64.StdEncoding.EncodeToString(hash[:])},
	}}
	content, err := protojson.Marshal(b)
	return append(content, '\n'), err
}
