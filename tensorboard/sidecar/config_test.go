package sidecar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadConfigValidatesTheConfiguration(t *testing.T) {
	tests := map[string]struct {
		json      string
		want      Config
		wantError string
	}{
		"there can be sources of all kinds": {
			json: `{"pathPrefix": "/tb/ns/x", "sources": [
				{"run": "claim-logs", "link": "/claims/claim/logs"},
				{"run": "bucket-runs", "s3": {"bucket": "b", "prefix": "runs/", "secret": "/secrets/name"}},
				{"run": "host-file", "http": {"url": "http://host/file?signature=1"}}]}`,
			want: Config{PathPrefix: "/tb/ns/x", Sources: []Source{
				{Run: "claim-logs", Link: "/claims/claim/logs"},
				{Run: "bucket-runs", S3: &S3Source{Bucket: "b", Prefix: "runs/", Secret: "/secrets/name"}},
				{Run: "host-file", HTTP: &HTTPSource{URL: "http://host/file?signature=1"}},
			}},
		},
		"the prefix and the sources can be empty": {json: `{"sources": []}`, want: Config{Sources: []Source{}}},
		"a file that is not JSON is refused":      {json: `{`, wantError: "unexpected end of JSON input"},
		"a prefix that ends with a slash is refused": {
			json: `{"pathPrefix": "/tb/"}`, wantError: "pathPrefix must begin with a slash and not end with one",
		},
		"a prefix that is not absolute is refused": {
			json: `{"pathPrefix": "tb"}`, wantError: "pathPrefix must begin with a slash and not end with one",
		},
		"two sources with the same run are refused": {
			json:      `{"sources": [{"run": "a", "link": "/claims/a"}, {"run": "a", "http": {"url": "http://host/a"}}]}`,
			wantError: `sources[1]: another source also has run "a"`,
		},
		"a run outside of the folder of logs is refused": {
			json: `{"sources": [{"run": "..", "link": "/claims/a"}]}`, wantError: "sources[0]: run must be the name of a folder",
		},
		"a run below another run is refused": {
			json: `{"sources": [{"run": "a/b", "link": "/claims/a"}]}`, wantError: "run must be the name of a folder",
		},
		"a source without a run is refused": {
			json: `{"sources": [{"link": "/claims/a"}]}`, wantError: "run must be the name of a folder",
		},
		"a run whose name is too long is refused": {
			json:      `{"sources": [{"run": "` + strings.Repeat("a", 256) + `", "link": "/claims/a"}]}`,
			wantError: "of at most 255 bytes",
		},
		"a source without a location is refused": {
			json: `{"sources": [{"run": "a"}]}`, wantError: "exactly one of link, s3 and http must be set",
		},
		"a source with two locations is refused": {
			json:      `{"sources": [{"run": "a", "link": "/claims/a", "http": {"url": "http://host/a"}}]}`,
			wantError: "exactly one of link, s3 and http must be set",
		},
		"a relative link is refused": {
			json: `{"sources": [{"run": "a", "link": "../etc"}]}`, wantError: "link must be an absolute path",
		},
		"a bucket without a Secret is refused": {
			json: `{"sources": [{"run": "a", "s3": {"bucket": "b"}}]}`, wantError: "s3 needs bucket and secret",
		},
		"a file URL is refused": {
			json:      `{"sources": [{"run": "a", "http": {"url": "file:///etc/passwd"}}]}`,
			wantError: "http.url must begin with http://<host>/",
		},
		"a URL with a password is refused": {
			json:      `{"sources": [{"run": "a", "http": {"url": "http://me:hunter2@host/a"}}]}`,
			wantError: "must not have a user name or password",
		},
		"an invalid URL is refused": {
			json: `{"sources": [{"run": "a", "http": {"url": "http://host/%hunter2"}}]}`, wantError: "http.url is not a URL",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(tc.json), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(file)
			wantError(t, err, tc.wantError)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains a secret: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Fatalf("got error %v, want one with %q", err, want)
	}
}

func TestTheAddressOfASourceHasNoSecrets(t *testing.T) {
	tests := map[string]struct {
		source Source
		want   string
	}{
		"a claim has the path of its link": {Source{Link: "/claims/c/logs"}, "/claims/c/logs"},
		"a bucket has an S3 address": {
			Source{S3: &S3Source{Bucket: "b", Prefix: "runs/", Secret: "/secrets/s"}}, "s3://b/runs/",
		},
		"a signed URL has no query": {
			Source{HTTP: &HTTPSource{URL: "https://host:8443/a/b%2Fc?X-Amz-Signature=1#f"}}, "https://host:8443/a/b%2Fc",
		},
		"an invalid URL is not shown": {Source{HTTP: &HTTPSource{URL: "https://host/%x?key=1"}}, "an HTTP source"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.source.String()); diff != "" {
				t.Errorf("unexpected address (-want +got):\n%s", diff)
			}
		})
	}
}
