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
	// passwordVariable has the password of the key, as for cosign.
	passwordVariable = "COSIGN_PASSWORD"
	// environment begins the name of a key that is in a variable, as for cosign.
	environment = "env://"
)

// keyTypes are the headers of keys that cosign has encrypted.
var keyTypes = map[string]bool{"ENCRYPTED SIGSTORE PRIVATE KEY": true, "ENCRYPTED COSIGN PRIVATE KEY": true}

// loadKey returns the signer of a key as `cosign generate-key-pair` makes it: in a file, or in a variable of the
// environment if it is named env://VARIABLE. The errors have nothing of the key or the password in them.
func loadKey(name string, password func() ([]byte, error)) (signature.Signer, error) {
	content, err := readKey(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil || !keyTypes[block.Type] {
		return nil, fmt.Errorf("%s is not a private key that cosign has encrypted: "+
			"`cosign generate-key-pair` makes one, `cosign import-key-pair` encrypts one", name)
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
		return nil, fmt.Errorf("%s is encrypted and has no PKCS #8 key in it", name)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s is not an ECDSA key with the curve P-256, which `cosign generate-key-pair` makes", name)
	}
	return signature.LoadECDSASigner(key, crypto.SHA256)
}

func readKey(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New("no key is given: KEY is a file of `cosign generate-key-pair`, or env://VARIABLE")
	}
	variable, ok := strings.CutPrefix(name, environment)
	if !ok {
		return os.ReadFile(name)
	}
	content, ok := os.LookupEnv(variable)
	if !ok {
		return nil, fmt.Errorf("the variable %s, which should have the key, is not set", variable)
	}
	return []byte(content), nil
}

// readPassword returns the password of the environment, or asks for it on the terminal.
func readPassword() ([]byte, error) {
	if password, ok := os.LookupEnv(passwordVariable); ok {
		return []byte(password), nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, fmt.Errorf("set %s, or run this on a terminal", passwordVariable)
	}
	fmt.Fprint(os.Stderr, "Password of the key: ")
	password, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(os.Stderr)
	return password, err
}
