package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/signature"
	"golang.org/x/term"
)

const (
	// passwordVariable is the environment variable with the password of the key. cosign reads the same variable.
	passwordVariable = "COSIGN_PASSWORD"
	// environment is the prefix in env://VARIABLE, which names the environment variable with the key. cosign uses the
	// same prefix.
	environment = "env://"
)

// keyTypes are the PEM types of keys that cosign has encrypted.
var keyTypes = map[string]bool{"ENCRYPTED SIGSTORE PRIVATE KEY": true, "ENCRYPTED COSIGN PRIVATE KEY": true}

// loadKey returns the signer of a private key from `cosign generate-key-pair`. The name is a file, or env://VARIABLE
// for an environment variable that holds the key. Errors contain no part of the key or the password.
func loadKey(name string, password func() ([]byte, error)) (signature.Signer, error) {
	content, err := readKey(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil || !keyTypes[block.Type] {
		return nil, fmt.Errorf("%s is not a private key that cosign has encrypted: "+
			"create one with `cosign generate-key-pair`, or encrypt one with `cosign import-key-pair`", name)
	}
	pass, err := password()
	if err != nil {
		return nil, fmt.Errorf("reading the password of %s: %w", name, err)
	}
	der, err := encrypted.Decrypt(block.Bytes, pass)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be decrypted: the password is wrong, or the file is damaged", name)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s does not contain a PKCS #8 key", name)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s is not an ECDSA key with the curve P-256: create one with `cosign generate-key-pair`",
			name)
	}
	return signature.LoadECDSASigner(key, crypto.SHA256)
}

func readKey(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New("no key is given: set KEY to a file from `cosign generate-key-pair`, or to env://VARIABLE")
	}
	variable, ok := strings.CutPrefix(name, environment)
	if !ok {
		return os.ReadFile(name)
	}
	content, ok := os.LookupEnv(variable)
	if !ok {
		return nil, fmt.Errorf("the environment variable %s, which should hold the key, is not set", variable)
	}
	return []byte(content), nil
}

// readPassword returns the password from the environment, or asks for it on the terminal.
func readPassword() ([]byte, error) {
	if password, ok := os.LookupEnv(passwordVariable); ok {
		return []byte(password), nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, fmt.Errorf("there is no terminal to ask for the password: set %s, or run this on a terminal",
			passwordVariable)
	}
	fmt.Fprint(os.Stderr, "Password of the key: ")
	password, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(os.Stderr)
	return password, err
}
