package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"tensorstack.dev/jobs/hack/tools/internal/provenance"
)

const (
	version = "v0.2.0"
	secret  = "correct horse battery staple"
	layouts = "bin/pytorch-controller.oci"
	sbom    = "bin/pytorch-controller.cdx.json"
)

// password returns the password that the maintainer types.
func password() ([]byte, error) { return []byte(secret), nil }

// sh runs a command in a folder and returns its output.
func sh(t *testing.T, folder, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = folder
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return strings.TrimSpace(string(output))
}

// cosign runs cosign, with which users verify artifacts, and returns its output.
func cosign(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	program, err := filepath.Abs("../../../bin/cosign")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run this test with `make test-release`, which builds cosign", err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), passwordVariable+"="+secret, "HOME="+t.TempDir())
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// keyPair creates cosign.key and cosign.pub in a folder, with cosign.
func keyPair(t *testing.T, folder string) {
	t.Helper()
	if output, err := cosign(t, folder, "generate-key-pair"); err != nil {
		t.Fatalf("cosign: %v\n%s", err, output)
	}
}

// programs builds a controller and the program that packs it into an image. It returns their folder.
var programs = sync.OnceValues(func() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "sign-"); err != nil {
		return "", err
	}
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	for program, of := range map[string]string{"controller": source, "image": "../image"} {
		output, err := exec.Command("go", "build", "-o", filepath.Join(folder, program), of).CombinedOutput()
		if err != nil {
			return "", errors.New(string(output))
		}
	}
	return folder, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if folder, err := programs(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(status)
}

// newRelease returns a repository with the release pytorch v0.2.0, as after `make release` and `make images` for the
// platforms. The key is outside the repository.
func newRelease(t *testing.T, platforms ...string) (root, key string) {
	t.Helper()
	root, keys := t.TempDir(), t.TempDir()
	keyPair(t, keys)
	write(t, root, "versions.yaml", "modules:\n  common: {version: v0.2.0, role: library}\n"+
		"  pytorch: {version: v0.2.0, role: framework, common: v0.2.0}\n"+
		"  cli: {version: v0.2.0, role: client, pytorch: v0.2.0}\n")
	write(t, root, ".gitignore", "bin/\n")
	sh(t, root, `
		git init -q -b main
		git config user.name Maintainer
		git config user.email maintainer@example.com
		git add -A
		git commit -qm 'Release pytorch v0.2.0'
		git tag --annotate --message 'pytorch v0.2.0' pytorch/v0.2.0
		git tag common/v0.2.0
		git tag cli/v0.2.0
		git commit -q --allow-empty -m 'Release another one'`)
	released(t, root, provenance.Build{
		Type: provenance.Release, Module: "pytorch", Version: version,
		Commit: commitOf(t, root), GoVersion: runtime.Version(),
	}, "pytorch-components.yaml", "pytorch-controller-0.2.0.tgz", "pytorch-v0.2.0.zip")
	built(t, root, commitOf(t, root), platforms...)
	return root, filepath.Join(keys, "cosign.key")
}

func commitOf(t *testing.T, root string) string {
	t.Helper()
	return sh(t, root, "git rev-parse 'pytorch/v0.2.0^{commit}'")
}

func write(t *testing.T, root, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// released writes the files of a release and their provenance.
func released(t *testing.T, root string, build provenance.Build, files ...string) {
	t.Helper()
	var subjects []provenance.Subject
	for _, file := range files {
		write(t, root, "bin/release/"+file, "content of "+file)
		subjects = append(subjects, provenance.SubjectOf(file, []byte("content of "+file)))
	}
	statement, err := provenance.Statement(build, subjects...)
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "bin/release/"+build.Module+"-"+build.Version+".provenance.json", string(statement))
}

// built writes an image. It runs the same program as `make images`.
func built(t *testing.T, root, revision string, platforms ...string) {
	t.Helper()
	folder, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, p := range platforms {
		content := t.TempDir()
		sh(t, content, "cp "+folder+"/controller pytorch-controller; echo '{\"platform\": \""+p+"\"}' >sbom.cdx.json")
		folders = append(folders, p+"="+content)
	}
	sh(t, root, folder+"/image -name tensorstack/pytorch-controller:"+version+" -revision "+revision+
		" -folders "+strings.Join(folders, ",")+" -layout "+layouts+" -archive bin/pytorch-controller.tar"+
		" >bin/pytorch-controller.digest")
	write(t, root, sbom, `{"platform": "`+platforms[0]+"\"}\n")
}

// sign signs the release and returns the output.
func sign(t *testing.T, root, key string) string {
	t.Helper()
	var out bytes.Buffer
	s := signing{root: root, module: "pytorch", key: key, password: password, out: &out}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// served starts a registry and returns its address.
func served(t *testing.T) string {
	t.Helper()
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), quiet))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// Files of the release that newRelease makes. The last two are bundles with provenance: of the files above them, and
// of the image.
const (
	chart   = "bin/release/pytorch-controller-0.2.0.tgz"
	archive = "bin/release/pytorch-v0.2.0.zip"
	objects = "bin/release/pytorch-components.yaml"
	of      = "bin/release/pytorch-v0.2.0.provenance.sigstore.json"
	ofImage = "bin/pytorch-controller.provenance.sigstore.json"
)

// verification is a command that verifies an artifact, and a part of its output.
type verification struct {
	name string
	args []string
	want string
}

// verifyBlob returns the arguments with which cosign verifies a file. The parameter signed names the file that the
// signature was made for, which can be another file.
func verifyBlob(file, signed string) []string {
	return []string{"verify-blob", "--bundle", signed + bundleSuffix, file}
}

// verifyProvenance returns the arguments with which cosign verifies the provenance of a file.
func verifyProvenance(file, bundle string) []string {
	return []string{"verify-blob-attestation", "--type", "slsaprovenance1", "--bundle", bundle, file}
}

// check runs the verifications with a key. If isRefused is true, cosign must refuse all of them. Otherwise, all must
// succeed.
func check(t *testing.T, root, key string, isRefused bool, verifications []verification) {
	t.Helper()
	for _, v := range verifications {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			output, err := cosign(t, root, append(v.args, "--key", key, "--insecure-ignore-tlog")...)
			if (err != nil) != isRefused || !strings.Contains(output, v.want) {
				t.Errorf("cosign %q returned the error %v and printed\n%s\nwant %q", v.args, err, output, v.want)
			}
		})
	}
}

// signed returns a repository with a signed release for two platforms and its public key, cosign.pub. It also returns
// another public key, and the name of the image in a registry.
func signed(t *testing.T) (root, other, image string) {
	t.Helper()
	root, key := newRelease(t, "linux/amd64", "linux/arm64")
	digest := sh(t, root, "cat bin/pytorch-controller.digest")
	want := `Written: bin/release/pytorch-components.yaml.sigstore.json
Written: bin/release/pytorch-controller-0.2.0.tgz.sigstore.json
Written: bin/release/pytorch-v0.2.0.zip.sigstore.json
Written: bin/pytorch-controller.cdx.json.sigstore.json
Written: bin/release/pytorch-v0.2.0.provenance.sigstore.json
Written: bin/pytorch-controller.provenance.sigstore.json
Signed: bin/pytorch-controller.oci
`
	if diff := cmp.Diff(want, sign(t, root, key)); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	sh(t, root, "cp "+strings.TrimSuffix(key, "key")+"pub cosign.pub")
	others := t.TempDir()
	keyPair(t, others)
	image = served(t) + "/tensorstack/pytorch-controller"
	if output, err := cosign(t, root, "load", "--dir", layouts, image+":"+version); err != nil {
		t.Fatalf("pushing the image: %v\n%s", err, output)
	}
	pushed, err := remote.Head(reference(t, image+":"+version))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digest, pushed.Digest.String()); diff != "" {
		t.Errorf("the digest in the registry differs (-make images +registry):\n%s", diff)
	}
	return root, filepath.Join(others, "cosign.pub"), image
}

func reference(t *testing.T, image string) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// Users verify with cosign, and need no network except to their registry.
func TestSignedArtifactsVerify(t *testing.T) {
	t.Parallel()
	root, _, image := signed(t)
	digest := sh(t, root, "cat bin/pytorch-controller.digest")
	const ok = "Verified OK"
	check(t, root, "cosign.pub", false, []verification{
		{name: "an image in its layout", args: []string{"verify", "--local-image", layouts}, want: digest},
		{
			name: "the provenance of an image in its layout", want: "payloadType",
			args: []string{"verify-attestation", "--type", "slsaprovenance1", "--local-image", layouts},
		},
		{name: "an image in a registry by its tag", args: []string{"verify", image + ":" + version}, want: digest},
		{name: "an image in a registry by its digest", args: []string{"verify", image + "@" + digest}, want: digest},
		{
			name: "the provenance of an image in a registry", want: "payloadType",
			args: []string{"verify-attestation", "--type", "slsaprovenance1", image + ":" + version},
		},
		{name: "a chart", args: verifyBlob(chart, chart), want: ok},
		{name: "the archive of a module", args: verifyBlob(archive, archive), want: ok},
		{name: "the manifests", args: verifyBlob(objects, objects), want: ok},
		{name: "an SBOM", args: verifyBlob(sbom, sbom), want: ok},
		{name: "the provenance of a chart", args: verifyProvenance(chart, of), want: ok},
		{name: "the provenance of the archive of a module", args: verifyProvenance(archive, of), want: ok},
		{name: "the provenance of the manifests", args: verifyProvenance(objects, of), want: ok},
		{name: "the provenance of an SBOM", args: verifyProvenance(sbom, ofImage), want: ok},
	})
}

func TestSignedArtifactsDoNotVerifyWithAnotherKey(t *testing.T) {
	t.Parallel()
	root, other, image := signed(t)
	check(t, root, other, true, []verification{
		{name: "an image in its layout", args: []string{"verify", "--local-image", layouts}, want: "invalid signature"},
		{name: "an image in a registry", args: []string{"verify", image + ":" + version}, want: "invalid signature"},
		{
			name: "the provenance of an image", want: "accepted signatures do not match",
			args: []string{"verify-attestation", "--type", "slsaprovenance1", image + ":" + version},
		},
		{name: "a chart", args: verifyBlob(chart, chart), want: "invalid signature"},
		{name: "the provenance of a chart", args: verifyProvenance(chart, of), want: "accepted signatures do not match"},
	})
}

func TestChangedArtifactsDoNotVerify(t *testing.T) {
	t.Parallel()
	root, _, image := signed(t)
	write(t, root, "changed", "content of another chart")
	// An attacker moves the tag to another image. The attacker also copies the signature and the attestation of the
	// original image, and attaches the copies to the other image.
	ref := reference(t, image+":"+version)
	digest := sh(t, root, "cat bin/pytorch-controller.digest")
	fake, err := mutate.Config(empty.Image, v1.Config{Entrypoint: []string{"/bin/sh"}})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := fake.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, fake); err != nil {
		t.Fatal(err)
	}
	tagOf := func(digest, suffix string) name.Reference {
		return reference(t, image+":"+strings.Replace(digest, ":", "-", 1)+suffix)
	}
	for _, suffix := range []string{".sig", ".att"} {
		attached, err := remote.Image(tagOf(digest, suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tagOf(hash.String(), suffix), attached); err != nil {
			t.Fatal(err)
		}
	}
	check(t, root, "cosign.pub", true, []verification{
		{
			name: "an image with the signature of another image", want: "digest in claim",
			args: []string{"verify", image + ":" + version},
		},
		{
			name: "an image with the provenance of another image", want: "no matching subject digest",
			args: []string{"verify-attestation", "--type", "slsaprovenance1", image + ":" + version},
		},
		{name: "a chart", args: verifyBlob("changed", chart), want: "invalid signature"},
		{name: "the provenance of a chart", args: verifyProvenance("changed", of), want: "digest"},
		{name: "an SBOM with the provenance of the chart", args: verifyProvenance(sbom, of), want: "digest"},
	})
}

// statementOf reads the statement in a bundle.
func statementOf(t *testing.T, file string) (provenance.Build, []provenance.Subject) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bundle struct {
		DSSEEnvelope struct {
			Payload []byte `json:"payload"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(content, &bundle); err != nil {
		t.Fatal(err)
	}
	build, subjects, err := provenance.Read(bundle.DSSEEnvelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return build, subjects
}

func TestProvenanceNamesTheDigestsAndTheCommit(t *testing.T) {
	t.Parallel()
	root, key := newRelease(t, "linux/amd64", "linux/arm64")
	sign(t, root, key)
	build, subjects := statementOf(t, filepath.Join(root, ofImage))
	want := provenance.Build{
		Type: provenance.Image, Module: "pytorch", Version: version, Commit: commitOf(t, root), GoVersion: runtime.Version(),
		Platforms: []string{"linux/amd64", "linux/arm64"},
	}
	if diff := cmp.Diff(want, build); diff != "" {
		t.Errorf("unexpected provenance of the image (-want +got):\n%s", diff)
	}
	names := make([]string, len(subjects))
	for i, s := range subjects {
		names[i] = s.Name
	}
	if diff := cmp.Diff([]string{
		"tensorstack/pytorch-controller", "tensorstack/pytorch-controller?platform=linux/amd64",
		"tensorstack/pytorch-controller?platform=linux/arm64", "pytorch-controller.cdx.json",
	}, names); diff != "" {
		t.Errorf("unexpected subjects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sh(t, root, "cat bin/pytorch-controller.digest"), "sha256:"+subjects[0].SHA256); diff != "" {
		t.Errorf("unexpected digest of the image (-make images +provenance):\n%s", diff)
	}
	if diff := cmp.Diff(sh(t, root, "sha256sum <"+sbom+" | head -c 64"), subjects[3].SHA256); diff != "" {
		t.Errorf("unexpected digest of the SBOM (-sha256sum +provenance):\n%s", diff)
	}
	if build, _ := statementOf(t, filepath.Join(root, of)); build.Commit != commitOf(t, root) {
		t.Errorf("the provenance of the files has the commit %s, want %s", build.Commit, commitOf(t, root))
	}
}

// Signing a release again does not change the artifacts, and replaces the earlier signatures.
func TestSigningAgainReplacesTheSignature(t *testing.T) {
	t.Parallel()
	root, key := newRelease(t, "linux/amd64")
	sums := func() string {
		return sh(t, root, "cd bin; sha256sum release/*.zip release/*.tgz release/*.yaml *.tar *.digest *.cdx.json")
	}
	before := sums()
	sign(t, root, key)
	sign(t, root, key)
	if diff := cmp.Diff(before, sums()); diff != "" {
		t.Errorf("signing changed artifacts (-before +after):\n%s", diff)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(root, layouts))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	digest := sh(t, root, "cat bin/pytorch-controller.digest")
	tagged := strings.Replace(digest, ":", "-", 1)
	var tags []string
	for _, d := range manifest.Manifests {
		tags = append(tags, d.Annotations[refName])
		if match.Name(version)(d) && d.Digest.String() != digest {
			t.Errorf("the digest of the image is now %s, want %s", d.Digest, digest)
		}
	}
	if diff := cmp.Diff([]string{version, tagged + ".sig", tagged + ".att"}, tags); diff != "" {
		t.Errorf("unexpected tags in the layout (-want +got):\n%s", diff)
	}
	check(t, root, strings.TrimSuffix(key, "key")+"pub", false, []verification{
		{name: "the image of one platform verifies", args: []string{"verify", "--local-image", layouts}, want: digest},
	})
}

// Libraries and clients have no image, so only their files and the provenance of the files are signed.
func TestOnlyControllersAreSignedWithAnImage(t *testing.T) {
	t.Parallel()
	for module, file := range map[string]string{
		"common": "common-v0.2.0.zip", "cli": "kubectl-train_v0.2.0_linux_amd64.tar.gz",
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			root, key := newRelease(t, "linux/amd64")
			released(t, root, provenance.Build{
				Type: provenance.Release, Module: module, Version: version, Commit: commitOf(t, root), GoVersion: runtime.Version(),
			}, file)
			var out bytes.Buffer
			s := signing{root: root, module: module, key: key, password: password, out: &out}
			if err := s.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			provenance := "bin/release/" + module + "-v0.2.0.provenance.sigstore.json"
			want := "Written: bin/release/" + file + ".sigstore.json\nWritten: " + provenance + "\n"
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}
			const ok = "Verified OK"
			check(t, root, strings.TrimSuffix(key, "key")+"pub", false, []verification{
				{name: "the file", args: verifyBlob("bin/release/"+file, "bin/release/"+file), want: ok},
				{name: "its provenance", args: verifyProvenance("bin/release/"+file, provenance), want: ok},
			})
		})
	}
}

// secretsOf returns the secrets of a key: the password, the lines of its file, and the decrypted key.
func secretsOf(t *testing.T, key string) [][]byte {
	t.Helper()
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	der, err := encrypted.Decrypt(block.Bytes, []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := parsed.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	secrets := [][]byte{
		[]byte(secret), der, scalar, []byte(base64.StdEncoding.EncodeToString(der)),
		[]byte(base64.StdEncoding.EncodeToString(scalar)), []byte(hex.EncodeToString(scalar)),
	}
	for line := range bytes.Lines(content) {
		secrets = append(secrets, bytes.TrimSpace(line))
	}
	return secrets
}

func TestTheKeyIsNotInArtifactsOrOutput(t *testing.T) {
	root, key := newRelease(t, "linux/amd64", "linux/arm64")
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SIGNING_KEY", string(content))
	written := []byte(sign(t, root, "env://SIGNING_KEY"))
	files := 0
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		written, files = append(written, content...), files+1
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files were read, want at least 20", files)
	}
	for i, s := range secretsOf(t, key) {
		if bytes.Contains(written, s) {
			t.Errorf("secret %d of the key is in a file or in the output", i)
		}
	}
}

// Only artifacts of the tagged sources are signed, and either all of them or none.
func TestSignRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// change is a command that changes the repository so that signing fails. $KEY is the file of the key.
		change string
		// revision is the revision of the image that replaces the original one. Empty means that the original one stays.
		revision string
		// signing has the settings that are wrong. The test sets all other settings to correct values.
		signing signing
		want    string
	}{
		{name: "a module that does not exist", signing: signing{module: "jax"}, want: `no module "jax"`},
		{name: "a version that is not tagged", change: "git tag --delete pytorch/v0.2.0", want: "is not tagged"},
		{name: "no key", signing: signing{key: "none"}, want: "no key is given"},
		{name: "a key file that does not exist", change: "rm $KEY", want: "no such file"},
		{name: "a key in a variable that is not set", signing: signing{key: "env://NO_SUCH_KEY"}, want: "NO_SUCH_KEY"},
		{
			name: "a wrong password", want: "the password is wrong",
			signing: signing{password: func() ([]byte, error) { return []byte("incorrect horse"), nil }},
		},
		{
			name: "a password that cannot be read", want: "reading the password",
			signing: signing{password: func() ([]byte, error) { return nil, io.EOF }},
		},
		{
			name: "a key that is not encrypted", want: "is not a private key that cosign has encrypted",
			change: "printf -- '-----BEGIN PRIVATE KEY-----\\nc2VjcmV0\\n-----END PRIVATE KEY-----\\n' >$KEY",
		},
		{name: "a public key", change: "cp ${KEY%.key}.pub $KEY", want: "is not a private key that cosign has encrypted"},
		{name: "a damaged key", change: "sed -i '3s/^..../AAAA/' $KEY", want: "or the file is damaged"},
		{name: "files of a dry run", change: "rm bin/release/*.provenance.json", want: "DRY_RUN=false writes it"},
		{name: "a chart that was changed", change: "echo >>" + chart, want: "is not the file that make release wrote"},
		{
			name: "files of a commit that is not the tagged one", want: "build it again from the tag",
			change: "git commit -q --allow-empty --message again; git tag --force pytorch/v0.2.0",
		},
		{name: "a controller without an image", change: "rm -r " + layouts, want: "make images"},
		{name: "an image of another commit", revision: strings.Repeat("1c", 20), want: "build it again from the tag"},
		{name: "an image of uncommitted changes", revision: "1cc8f15-dirty", want: "build it again from the tag"},
		{name: "the SBOM of another image", change: "echo >>" + sbom, want: "is not the SBOM in any image"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root, key := newRelease(t, "linux/amd64")
			secrets := secretsOf(t, key)
			if tc.revision != "" {
				built(t, root, tc.revision, "linux/amd64")
			}
			sh(t, root, "KEY="+key+"; "+tc.change)
			s := tc.signing
			s.root = root
			if s.module == "" {
				s.module = "pytorch"
			}
			if s.password == nil {
				s.password = password
			}
			switch s.key {
			case "":
				s.key = key
			case "none":
				s.key = ""
			}
			var out bytes.Buffer
			s.out = &out
			err := s.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got the error %v, want %q", err, tc.want)
			}
			for i, of := range secrets {
				if strings.Contains(err.Error(), string(of)) {
					t.Errorf("secret %d of the key is in the error", i)
				}
			}
			left := sh(t, root, "find . -name '*"+bundleSuffix+"'; grep -ls sha256-.*sig "+layouts+"/index.json || true")
			if left != "" || out.Len() > 0 {
				t.Errorf("sign printed %q and left %q", out.String(), left)
			}
		})
	}
}
