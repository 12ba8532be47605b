package code

import (
	"bytes"
	"io"
	"path"
	"slices"
	"strings"
)

// secretFolders are the names of folders in which programs keep credentials.
var secretFolders = []string{".ssh", ".aws", ".azure", ".docker", ".gnupg", ".kube"}

// secretFiles are patterns that match the names of files that usually have credentials.
var secretFiles = []string{
	".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".s3cfg", ".htpasswd",
	".git-credentials", "credentials", "credentials.json", "kubeconfig", "*.kubeconfig", "*.pem", "*.key", "*.p12",
	"*.pfx", "*.jks", "*.keystore", "*.ppk", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "service-account*.json",
	"service_account*.json", "secrets.yaml", "secrets.yml", "secrets.json", "secrets.toml",
}

// noSecrets are the names of files that match a pattern of secretFiles, but are only examples without credentials.
var noSecrets = []string{".env.example", ".env.sample", ".env.template", ".env.dist"}

// maxKeyFile is the maximum size, in bytes, of a file that secret searches for a private key.
const maxKeyFile = 64 << 10

// secret returns the reason why a file is likely to have credentials, or "" otherwise. Such a file is left out by
// default, because everybody who may read the namespace can read the code.
func (f *Folder) secret(name string, size int64) string {
	base := strings.ToLower(path.Base(name))
	if slices.Contains(noSecrets, base) {
		return ""
	}
	for _, pattern := range secretFiles {
		if ok, err := path.Match(pattern, base); err == nil && ok {
			return "probably has credentials, by its name"
		}
	}
	if size <= maxKeyFile && f.hasPrivateKey(name) {
		return "has a private key"
	}
	return ""
}

// hasPrivateKey reports whether a file has a private key in PEM format. The key can begin on a line of its own, or be
// the field private_key of a JSON object. If hasPrivateKey cannot read the file, it reports false, and Tar returns
// the error later.
func (f *Folder) hasPrivateKey(name string) bool {
	file, err := f.content.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return false
	}
	// The five dashes must be at the beginning of a line. Texts that are only about keys, such as this source file, have
	// them only within a line.
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("-----BEGIN ")) && bytes.HasSuffix(line, []byte("PRIVATE KEY-----")) {
			return true
		}
	}
	return bytes.Contains(content, []byte(`"private_key": "-----BEGIN `))
}
