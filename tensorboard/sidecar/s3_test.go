package sidecar

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// s3Server implements the part of S3 that the sidecar uses. Its only bucket is "logs". It checks access keys, but no
// signatures. The end-to-end tests use a real server.
type s3Server struct {
	accessKey string
	noMatch   bool // the server does not support If-Match

	mu       sync.Mutex
	objects  map[string]string
	fails    map[string]http.HandlerFunc // handlers of the objects that cannot be read, by key
	requests []string                    // requests for objects, as key and Range
}

// ServeHTTP handles one request at a time.
func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	data, ok := s.objects[key]
	query := r.URL.Query()
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.accessKey+"/"):
		// worst case: the error contains the headers with the credentials
		fail(w, http.StatusForbidden, "InvalidAccessKeyId",
			"No such key: "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Amz-Security-Token"))
	case query.Has("location"):
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName xml.Name `xml:"LocationConstraint"`
		}{})
	case bucket != "logs":
		fail(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case key == "":
		s.list(w, query)
	case !ok:
		fail(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	case s.fails[key] != nil:
		s.fails[key](w, r)
	default:
		s.requests = append(s.requests, strings.TrimSpace(key+" "+r.Header.Get("Range")))
		w.Header().Set("ETag", etagOf(data))
		if s.noMatch {
			r.Header.Del("If-Match")
		}
		w.Header().Set("Last-Modified", noon.Format(http.TimeFormat))
		http.ServeContent(w, r, "", noon, strings.NewReader(data))
	}
}

func etagOf(data string) string {
	return strconv.Quote(fmt.Sprintf("%x", data[:min(len(data), 8)]) + strconv.Itoa(len(data)))
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: message})
}

// list returns pages of 1000 objects.
func (s *s3Server) list(w http.ResponseWriter, query url.Values) {
	type item struct {
		Key, ETag, LastModified string
		Size                    int
	}
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		EncodingType          string
		IsTruncated           bool
		NextContinuationToken string
		Contents              []item
	}{EncodingType: "url"}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, query.Get("prefix")) || key <= query.Get("continuation-token") {
			continue
		}
		if len(result.Contents) == 1000 {
			result.IsTruncated = true
			result.NextContinuationToken, _ = url.QueryUnescape(result.Contents[999].Key)
			break
		}
		data := s.objects[key]
		result.Contents = append(result.Contents, item{
			url.QueryEscape(key), etagOf(data), noon.Format("2006-01-02T15:04:05.000Z"), len(data),
		})
	}
	_ = xml.NewEncoder(w).Encode(result)
}

// set changes the objects of the server. It waits until earlier requests are finished.
func (s *s3Server) set(objects map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.fails, s.requests = objects, nil, nil
}

// asked returns the requests since the objects were set.
func (s *s3Server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.requests)
	return s.requests
}

// inBucket returns a run for the folder "runs" of a bucket. It also returns the folder into which the Secret is
// mounted.
func inBucket(t *testing.T, s *s3Server, bucketName string) (r *run, secret string) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	secret = filepath.Join(t.TempDir(), "keys")
	secretIn(t, secret, map[string]string{
		"AWS_ACCESS_KEY_ID": s.accessKey, "AWS_SECRET_ACCESS_KEY": "hunter2hunter2", "AWS_ENDPOINT_URL": server.URL,
	})
	transport := newTransport(stalled)
	t.Cleanup(transport.CloseIdleConnections)
	return runIn(t, t.TempDir(), &bucket{
		source: S3Source{Bucket: bucketName, Prefix: "runs", Secret: secret}, transport: transport,
	}, 1<<30), secret
}

func TestAFolderOfABucketIsFetched(t *testing.T) {
	server := &s3Server{accessKey: "key-1"}
	r, _ := inBucket(t, server, "logs")
	steps := []struct {
		name      string
		objects   map[string]string
		restarted bool
		want      map[string]string
		wantAsked []string
	}{
		{name: "an empty bucket has no files"},
		{
			name: "only files that TensorBoard shows are fetched",
			objects: map[string]string{
				"runs/": "", "runs/a.tfevents": long, "runs/x y/plugins/p+q%": "2", "runs/plugins/": "", "runs/model.ckpt": "large",
				"runs-2/b.tfevents": "another folder", "b.tfevents": "another folder",
			},
			want:      map[string]string{"a.tfevents": long, "x y/plugins/p+q%": "2"},
			wantAsked: []string{"runs/a.tfevents", "runs/x y/plugins/p+q%"},
		},
		{
			name:    "files that have not changed are not fetched again",
			objects: map[string]string{"runs/a.tfevents": long, "runs/x y/plugins/p+q%": "2"},
			want:    map[string]string{"a.tfevents": long, "x y/plugins/p+q%": "2"},
		},
		{
			name:      "files that have not changed are not fetched again after a restart",
			objects:   map[string]string{"runs/a.tfevents": long, "runs/x y/plugins/p+q%": "2"},
			restarted: true,
			want:      map[string]string{"a.tfevents": long, "x y/plugins/p+q%": "2"},
		},
		{
			name:      "an event file is continued, and a file of another kind is fetched completely",
			objects:   map[string]string{"runs/a.tfevents": long + "more", "runs/x y/plugins/p+q%": "23"},
			want:      map[string]string{"a.tfevents": long + "more", "x y/plugins/p+q%": "23"},
			wantAsked: []string{"runs/a.tfevents bytes=16384-", "runs/x y/plugins/p+q%"},
		},
		{
			name:    "an event file that became shorter is removed",
			objects: map[string]string{"runs/a.tfevents": "short", "runs/x y/plugins/p+q%": "23"},
			want:    map[string]string{"x y/plugins/p+q%": "23"},
		},
		{
			name:      "an event file that was removed is fetched again, and a deleted file is removed",
			objects:   map[string]string{"runs/a.tfevents": "short"},
			want:      map[string]string{"a.tfevents": "short"},
			wantAsked: []string{"runs/a.tfevents"},
		},
		{
			name:      "an event file that was replaced is removed",
			objects:   map[string]string{"runs/a.tfevents": "another file"},
			wantAsked: []string{"runs/a.tfevents bytes=0-"},
		},
	}
	for _, s := range steps {
		server.set(s.objects)
		if s.restarted {
			r = runIn(t, r.root.Name(), r.store, 1<<30)
		}
		t.Log(s.name)
		wantError(t, r.fetch(t.Context()), "")
		wantTree(t, r, s.want)
		want := slices.Clone(s.wantAsked)
		for i := range want {
			want[i] = strings.TrimSuffix(want[i], " bytes=0-") // a request from the start of a file has no range
		}
		if diff := cmp.Diff(want, server.asked()); diff != "" {
			t.Errorf("unexpected requests (-want +got):\n%s", diff)
		}
	}
}

func TestTheFilesThatAProjectorNamesAreFetched(t *testing.T) {
	server := &s3Server{accessKey: "key-1"}
	r, _ := inBucket(t, server, "logs")
	const config = `embeddings { tensor_path: "./assets/vectors.tsv" metadata_path: "assets/labels.tsv" }`
	steps := []struct {
		name          string
		objects, want map[string]string
		wantAsked     []string
	}{
		{
			name: "they are fetched together with the configuration",
			objects: map[string]string{
				"runs/projector_config.pbtxt": config, "runs/assets/vectors.tsv": "1", "runs/assets/labels.tsv": "2",
				"runs/assets/photo.png": "3",
			},
			want: map[string]string{
				"projector_config.pbtxt": config, "assets/vectors.tsv": "1", "assets/labels.tsv": "2",
			},
			wantAsked: []string{"runs/assets/labels.tsv", "runs/assets/vectors.tsv", "runs/projector_config.pbtxt"},
		},
		{
			name: "only the changed files are fetched again",
			objects: map[string]string{
				"runs/projector_config.pbtxt": config, "runs/assets/vectors.tsv": "1", "runs/assets/labels.tsv": "22",
			},
			want: map[string]string{
				"projector_config.pbtxt": config, "assets/vectors.tsv": "1", "assets/labels.tsv": "22",
			},
			wantAsked: []string{"runs/assets/labels.tsv"},
		},
		{
			name:    "they are removed together with the configuration",
			objects: map[string]string{"runs/assets/vectors.tsv": "1", "runs/assets/labels.tsv": "22"},
		},
	}
	for _, s := range steps {
		t.Log(s.name)
		server.set(s.objects)
		wantError(t, r.fetch(t.Context()), "")
		wantTree(t, r, s.want)
		if diff := cmp.Diff(s.wantAsked, server.asked()); diff != "" {
			t.Errorf("unexpected requests (-want +got):\n%s", diff)
		}
	}
}

func TestABucketCanHaveThousandsOfObjects(t *testing.T) {
	server, want := &s3Server{accessKey: "key-1", objects: map[string]string{}}, map[string]string{}
	for i := range 1200 {
		name := fmt.Sprintf("%d/%d.tfevents", i%100, i)
		server.objects["runs/"+name], want[name] = name, name
	}
	r, _ := inBucket(t, server, "logs")
	wantError(t, r.fetch(t.Context()), "")
	wantTree(t, r, want)
	server.set(server.objects)
	wantError(t, r.fetch(t.Context()), "")
	if got := server.asked(); len(got) > 0 {
		t.Errorf("the second fetch requested %d objects, want none", len(got))
	}
}

func TestAnObjectThatChangesAfterTheListIsNotFetched(t *testing.T) {
	server := &s3Server{accessKey: "key-1"}
	r, _ := inBucket(t, server, "logs")
	server.set(map[string]string{"runs/a.tfevents": "12345", "runs/b.tfevents": "12345"})
	objects, err := r.store.list(t.Context(), nil)
	wantError(t, err, "")
	server.set(map[string]string{"runs/a.tfevents": "1234567"})
	for _, o := range objects {
		wantError(t, r.sync(t.Context(), o), "")
	}
	wantTree(t, r, nil)
}

func TestAnObjectThatGrowsAfterTheListIsFetchedIfTheServerIgnoresIfMatch(t *testing.T) {
	server := &s3Server{accessKey: "key-1", noMatch: true}
	r, _ := inBucket(t, server, "logs")
	server.set(map[string]string{"runs/a.tfevents": "12345", "runs/plugins/b": "1"})
	objects, err := r.store.list(t.Context(), nil)
	wantError(t, err, "")
	server.set(map[string]string{"runs/a.tfevents": "1234567", "runs/plugins/b": "12"})
	for _, o := range objects {
		wantError(t, r.sync(t.Context(), o), "")
	}
	wantTree(t, r, map[string]string{"a.tfevents": "1234567", "plugins/b": "12"})
	server.set(server.objects)
	wantError(t, r.fetch(t.Context()), "")
	if got := server.asked(); len(got) > 0 {
		t.Errorf("the second fetch requested %q, want none", got)
	}
}

func TestTheNextFetchUsesAChangedSecret(t *testing.T) {
	server := &s3Server{accessKey: "key-1", objects: map[string]string{"runs/a.tfevents": "1"}}
	r, secret := inBucket(t, server, "logs")
	address, _ := readOptional(secret, fileEndpoint)
	wantError(t, r.fetch(t.Context()), "")

	server.mu.Lock()
	server.accessKey, server.objects = "key-2", map[string]string{"runs/a.tfevents": "12"}
	server.mu.Unlock()
	wantError(t, r.fetch(t.Context()), "InvalidAccessKeyId: No such key: AWS4-HMAC-SHA256 Credential=***/")
	wantTree(t, r, map[string]string{"a.tfevents": "1"})

	secretIn(t, secret, nil)
	wantError(t, r.fetch(t.Context()), "the Secret keys is missing")

	secretIn(t, secret, map[string]string{
		".s3cfg": "host_base = " + address + "\naccess_key = key-2\nsecret_key = hunter3hunter3\n",
	})
	wantError(t, r.fetch(t.Context()), "")
	wantTree(t, r, map[string]string{"a.tfevents": "12"})
}

func TestErrorsOfABucketAreDescribedWithoutSecrets(t *testing.T) {
	tests := map[string]struct {
		bucket string
		secret map[string]string // changes to the valid Secret
		fails  http.HandlerFunc
		want   string
	}{
		"the bucket does not exist":         {bucket: "other", want: "NoSuchBucket: The specified bucket does not exist"},
		"the name of the bucket is invalid": {bucket: "B!", want: "Bucket name"},
		"nothing listens at the address": {
			bucket: "logs", secret: map[string]string{fileEndpoint: "http://127.0.0.1:1"}, want: "connection refused",
		},
		"the keys are wrong": {
			bucket: "logs", secret: map[string]string{fileAccessKey: "hunter1", fileSessionToken: "hunter3"},
			want: "InvalidAccessKeyId: No such key: AWS4-HMAC-SHA256 Credential=***/",
		},
		"access to a file is denied": {
			bucket: "logs", fails: func(w http.ResponseWriter, _ *http.Request) {
				fail(w, http.StatusForbidden, "AccessDenied", "Access Denied.")
			},
			want: `"a.tfevents": AccessDenied: Access Denied.`,
		},
		"the error of the server is long and has several lines": {
			bucket: "logs", fails: func(w http.ResponseWriter, _ *http.Request) {
				fail(w, http.StatusForbidden, "AccessDenied", "a\nb\x1b[31m"+strings.Repeat("c", 10_000))
			},
			want: `AccessDenied: a b`,
		},
		"a key is at the position where the text is truncated": {
			bucket: "logs", fails: func(w http.ResponseWriter, _ *http.Request) {
				fail(w, http.StatusForbidden, "AccessDenied", strings.Repeat("c", maxDescription-len("AccessDenied: ")-4)+"key-1")
			},
			want: `AccessDenied: ccc`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := &s3Server{accessKey: "key-1", objects: map[string]string{"runs/a.tfevents": "1"}}
			server.fails = map[string]http.HandlerFunc{"runs/a.tfevents": tc.fails}
			if tc.fails == nil {
				server.fails = nil
			}
			r, secret := inBucket(t, server, tc.bucket)
			put(t, secret, tc.secret)
			err := r.fetch(t.Context())
			if err == nil {
				t.Fatal("got no error")
			}
			got := describe(err)
			if !strings.Contains(got, tc.want) || strings.Contains(got, "hunter") || strings.Contains(got, "key-") ||
				strings.ContainsAny(got, "\n\x1b") || len(got) > maxDescription+3 {
				t.Errorf("got %q, want one short line with %q and without secrets", got, tc.want)
			}
		})
	}
}
