package sidecar

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/minio/minio-go/v7"
)

// maxDescription is how long the description of an error may be, in bytes: servers decide on what is in it.
const maxDescription = 500

// queries are those of the URLs in a text. They may be signatures.
var queries = regexp.MustCompile(`\?[^\s"']+`)

// ownAddresses are those that connections go out from, before the address that they go to. They are others each time.
var ownAddresses = regexp.MustCompile(`\S+:\d+->`)

// describe says what is wrong, in one line for humans, without the secrets and without what may be secret. It is the
// same each time that the same is wrong.
func describe(err error, secrets ...string) string {
	err = withoutURL(err)
	text := err.Error()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		text = fmt.Sprintf("the server has sent nothing for %s", stalled)
	}
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.Code != "" &&
		!strings.Contains(text, response.Code) {
		text = strings.Replace(text, response.Error(), response.Code+": "+response.Error(), 1)
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = ownAddresses.ReplaceAllString(text, "")
	text = queries.ReplaceAllString(text, "?...")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "..."
	}
	return text
}

// withoutURL removes the URL that the HTTP client puts before its errors: who reads them knows the source, and its
// query may be a signature.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
