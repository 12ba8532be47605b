package sidecar

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tensorstack.dev/jobs/common/report"
)

// answers is an http.RoundTripper that always returns the same response.
type answers struct {
	code int
	body string
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Body: io.NopCloser(strings.NewReader(a.body)), Request: r,
	}, nil
}

// FuzzFetch checks the limits of Fetch for any response, because any pod can respond in place of a sidecar.
func FuzzFetch(f *testing.F) {
	f.Add(200, `{"idleSeconds":1,"sources":[{"run":"r","source":"s","error":"e"}]}`)
	f.Add(200, `{"sources":null}`)
	f.Add(200, `{"sources":[[],{},"`)
	f.Add(500, "\xff")
	f.Fuzz(func(t *testing.T, code int, body string) {
		got, err := Fetch(t.Context(), &http.Client{Transport: answers{code, body}}, "127.0.0.1:8080")
		if err != nil {
			if len(err.Error()) > report.MaxNote {
				t.Errorf("the error has %d bytes, want at most %d", len(err.Error()), report.MaxNote)
			}
			return
		}
		if len(got.Sources) > maxSources {
			t.Errorf("got %d sources, want at most %d", len(got.Sources), maxSources)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Fetch(t.Context(), &http.Client{Transport: answers{http.StatusOK, string(text)}}, "127.0.0.1:8080")
		if len(text) > maxStatus {
			return // JSON encodes some characters with more bytes, so the text can be too large for Fetch
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("a decoded status changes when it is encoded and decoded again: %v (-once +again):\n%s", err, diff)
		}
	})
}

// FuzzContentRange checks that any Content-Range of a web server results in a valid range or an error.
func FuzzContentRange(f *testing.F) {
	f.Add("bytes 5-9/10")
	f.Add("bytes 5-9/*")
	f.Add("bytes 5-9/-1")
	f.Add("-/")
	f.Fuzz(func(t *testing.T, value string) {
		start, size, err := contentRange(http.Header{"Content-Range": {value}})
		if err == nil && (start < 0 || size < 0 && !strings.HasSuffix(value, "/*")) {
			t.Errorf("%q is parsed as offset %d and size %d, which is invalid", value, start, size)
		}
	})
}
