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

// maxDescription is the length, in bytes, after which the description of an error is cut off. A description can
// contain any text from a server.
const maxDescription = 500

// queries matches the queries of the URLs in a text. A query can contain signatures.
var queries = regexp.MustCompile(`\?[^\s"']+`)

// ownAddresses matches the local address of a connection, which precedes the remote address in an error. The local
// port is different each time.
var ownAddresses = regexp.MustCompile(`\S+:\d+->`)

// describe returns a description of an error in one line, without the given secrets, the URL of the request and the
// queries of other URLs. Its text is the same each time that the same error occurs.
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

// withoutURL removes the URL that the HTTP client adds to its errors. The URL can contain a signature, and the log
// and the status name the source anyway.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
