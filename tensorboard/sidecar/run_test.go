package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// memory is a store that has its objects in memory. The version of an object is its content.
type memory struct {
	objects map[string]string
	fails   map[string]error // the errors that open returns, by object
	cut     int64            // bytes of each response that arrive before the connection breaks; 0 means all
	sent    atomic.Int64     // the number of sent bytes
	opened  atomic.Int64
	broken  error // the error that list returns
}

func (m *memory) list(context.Context, map[string]bool) ([]object, error) {
	var list []object
	for name, data := range m.objects {
		list = append(list, object{path: name, size: int64(len(data)), version: data})
	}
	return list, m.broken
}

func (m *memory) open(_ context.Context, o object, from int64, _ string) (*content, error) {
	m.opened.Add(1)
	if err := m.fails[o.path]; err != nil {
		return nil, err
	}
	data := m.objects[o.path]
	if from > int64(len(data)) {
		return nil, errShorter
	}
	var body io.Reader = strings.NewReader(data[from:])
	if m.cut > 0 {
		body = io.MultiReader(io.LimitReader(body, m.cut), brokenReader{})
	}
	return &content{
		ReadCloser: io.NopCloser(&counter{body, &m.sent}), start: from, size: int64(len(data)), version: data,
	}, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the connection broke") }

type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// runIn returns a run in a folder, which can already contain files.
func runIn(t *testing.T, folder string, s store, limit int64) *run {
	t.Helper()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	r, err := newRun(s, root, &quota{limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantTree checks the files in the folder of a run, and that the quota counts their size.
func wantTree(t *testing.T, r *run, want map[string]string) {
	t.Helper()
	if want == nil {
		want = map[string]string{}
	}
	got := tree(t, r.root.Name())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
	var size int64
	for _, data := range got {
		if data != "/" && !strings.HasPrefix(data, "-> ") {
			size += int64(len(data))
		}
	}
	if used := r.quota.used.Load(); used != size {
		t.Errorf("the quota counts %d bytes, want %d", used, size)
	}
}

// long is longer than the overlap.
var long = strings.Repeat("0123456789abcdef", overlap/8)

func TestARunIsSynchronizedWithItsSource(t *testing.T) {
	type step struct {
		source    map[string]string
		cut       int64
		fails     map[string]error
		restarted bool // the sidecar restarts before the fetch
		limit     *int64
		want      map[string]string
		wantError string
		wantSent  *int64
	}
	tests := map[string][]step{
		"only the overlap and the new data of an event file are sent": {
			{source: map[string]string{"a.tfevents": long}, want: map[string]string{"a.tfevents": long}},
			{
				source: map[string]string{"a.tfevents": long + "more"}, want: map[string]string{"a.tfevents": long + "more"},
				wantSent: ptr.To[int64](overlap + 4),
			},
		},
		"nothing is sent for files that have not changed": {
			{
				source: map[string]string{"a.tfevents": "1", "plugins/b": "2"},
				want:   map[string]string{"a.tfevents": "1", "plugins/b": "2"},
			},
			{
				source: map[string]string{"a.tfevents": "1", "plugins/b": "2"},
				want:   map[string]string{"a.tfevents": "1", "plugins/b": "2"}, wantSent: ptr.To[int64](0),
			},
		},
		"the download of an event file is resumed after an error": {
			{
				source: map[string]string{"a.tfevents": long}, cut: 1000, want: map[string]string{"a.tfevents": long[:1000]},
				wantError: "the connection broke",
			},
			{source: map[string]string{"a.tfevents": long}, want: map[string]string{"a.tfevents": long}},
		},
		"the download of an event file makes progress despite repeated errors": {
			{
				source: map[string]string{"a.tfevents": long + long}, cut: overlap + 1000,
				want: map[string]string{"a.tfevents": long[:overlap+1000]}, wantError: "the connection broke",
			},
			{
				source: map[string]string{"a.tfevents": long + long}, cut: overlap + 1000,
				want: map[string]string{"a.tfevents": long[:overlap+2000]}, wantError: "the connection broke",
			},
			{source: map[string]string{"a.tfevents": long + long}, want: map[string]string{"a.tfevents": long + long}},
		},
		"the download of an event file is resumed after a restart of the sidecar": {
			{
				source: map[string]string{"a.tfevents": long}, cut: 1000, want: map[string]string{"a.tfevents": long[:1000]},
				wantError: "the connection broke",
			},
			{
				source: map[string]string{"a.tfevents": long}, restarted: true, want: map[string]string{"a.tfevents": long},
				wantSent: new(int64(len(long))),
			},
		},
		"an incomplete file of another kind is not shown": {
			{
				source: map[string]string{"plugins/a": long}, cut: 1000, want: map[string]string{"plugins": "/"},
				wantError: "the connection broke",
			},
			{source: map[string]string{"plugins/a": long}, want: map[string]string{"plugins/a": long}},
		},
		"a file of another kind does not change until the new version is complete": {
			{source: map[string]string{"plugins/a": "old"}, want: map[string]string{"plugins/a": "old"}},
			{
				source: map[string]string{"plugins/a": "newer"}, cut: 2, want: map[string]string{"plugins/a": "old"},
				wantError: "the connection broke",
			},
			{source: map[string]string{"plugins/a": "newer"}, want: map[string]string{"plugins/a": "newer"}},
		},
		"an event file that became shorter is removed, and fetched by the next fetch": {
			{source: map[string]string{"a.tfevents": "12345"}, want: map[string]string{"a.tfevents": "12345"}},
			{source: map[string]string{"a.tfevents": "123"}},
			{source: map[string]string{"a.tfevents": "123"}, want: map[string]string{"a.tfevents": "123"}},
		},
		"an event file that was replaced by one of the same size is removed first": {
			{source: map[string]string{"a.tfevents": "12345"}, want: map[string]string{"a.tfevents": "12345"}},
			{source: map[string]string{"a.tfevents": "x2345"}},
			{source: map[string]string{"a.tfevents": "x2345"}, want: map[string]string{"a.tfevents": "x2345"}},
		},
		"an event file that was replaced by a longer one is removed first": {
			{source: map[string]string{"a.tfevents": "12345"}, want: map[string]string{"a.tfevents": "12345"}},
			{source: map[string]string{"a.tfevents": "abcdefg"}},
			{source: map[string]string{"a.tfevents": "abcdefg"}, want: map[string]string{"a.tfevents": "abcdefg"}},
		},
		"an event file that was replaced while the sidecar did not run is removed first": {
			{source: map[string]string{"a.tfevents": "12345"}, want: map[string]string{"a.tfevents": "12345"}},
			{source: map[string]string{"a.tfevents": "abcde"}, restarted: true},
			{source: map[string]string{"a.tfevents": "abcde"}, want: map[string]string{"a.tfevents": "abcde"}},
		},
		"files that are no longer in the source are removed, with their folders": {
			{
				source: map[string]string{"a.tfevents": "1", "b/c/d.tfevents": "2"},
				want:   map[string]string{"a.tfevents": "1", "b/c/d.tfevents": "2"},
			},
			{source: map[string]string{"a.tfevents": "1"}, want: map[string]string{"a.tfevents": "1"}},
			{source: map[string]string{}, want: nil},
		},
		"a file can become a folder, and a folder can become a file": {
			{
				source: map[string]string{"a.tfevents": "1", "b.tfevents/c.tfevents": "2"},
				want:   map[string]string{"a.tfevents": "1", "b.tfevents/c.tfevents": "2"},
			},
			{
				source: map[string]string{"a.tfevents/c.tfevents": "1", "b.tfevents": "2"},
				want:   map[string]string{"a.tfevents/c.tfevents": "1", "b.tfevents": "2"},
			},
		},
		"a file that fails does not affect the others": {
			{
				source:    map[string]string{"a.tfevents": "1", "b.tfevents": "2", "c.tfevents": "3"},
				fails:     map[string]error{"b.tfevents": errors.New("denied")},
				want:      map[string]string{"a.tfevents": "1", "c.tfevents": "3"},
				wantError: `1 of 3 files cannot be fetched, for example "b.tfevents": denied`,
			},
			{
				source: map[string]string{"a.tfevents": "1", "b.tfevents": "2", "c.tfevents": "3"},
				want:   map[string]string{"a.tfevents": "1", "b.tfevents": "2", "c.tfevents": "3"},
			},
		},
		"an object that changed after it was listed is fetched by the next fetch": {
			{
				source: map[string]string{"a.tfevents": "1", "plugins/b": "2"},
				fails:  map[string]error{"a.tfevents": errChanged, "plugins/b": errChanged},
			},
			{
				source: map[string]string{"a.tfevents": "1", "plugins/b": "2"},
				want:   map[string]string{"a.tfevents": "1", "plugins/b": "2"},
			},
		},
		"empty files are created, and can grow": {
			{
				source: map[string]string{"a.tfevents": "", "plugins/b": ""},
				want:   map[string]string{"a.tfevents": "", "plugins/b": ""},
			},
			{
				source: map[string]string{"a.tfevents": "1", "plugins/b": "2"},
				want:   map[string]string{"a.tfevents": "1", "plugins/b": "2"},
			},
		},
		"nothing is fetched while the limit is reached": {
			{
				source: map[string]string{"a.tfevents": "12345"}, limit: ptr.To[int64](8),
				want: map[string]string{"a.tfevents": "12345"},
			},
			{
				source:    map[string]string{"a.tfevents": "12345", "b.tfevents": "1234", "plugins/c": "12345"},
				limit:     ptr.To[int64](8),
				want:      map[string]string{"a.tfevents": "12345"},
				wantError: `the limit of fetched logs is reached: 8 for all sources (--fetch-limit)`,
			},
			{
				source: map[string]string{"b.tfevents": "1234"}, limit: ptr.To[int64](8),
				want: map[string]string{"b.tfevents": "1234"},
			},
		},
		"existing files count towards the limit after a restart": {
			{
				source: map[string]string{"a.tfevents": "12345"}, limit: ptr.To[int64](8),
				want: map[string]string{"a.tfevents": "12345"},
			},
			{
				source: map[string]string{"a.tfevents": "12345", "b.tfevents": "1234"}, limit: ptr.To[int64](8), restarted: true,
				want: map[string]string{"a.tfevents": "12345"}, wantError: "the limit of fetched logs is reached",
			},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			folder, source := t.TempDir(), &memory{}
			r := runIn(t, folder, source, 1<<30)
			for i, s := range steps {
				source.objects, source.cut, source.fails = s.source, s.cut, s.fails
				source.sent.Store(0)
				if s.restarted {
					r = runIn(t, folder, source, 1<<30)
				}
				if s.limit != nil {
					r.quota.limit = *s.limit
				}
				t.Logf("step %d", i)
				wantError(t, r.fetch(t.Context()), s.wantError)
				wantTree(t, r, s.want)
				if got := source.sent.Load(); s.wantSent != nil && got != *s.wantSent {
					t.Errorf("%d bytes were sent, want %d", got, *s.wantSent)
				}
			}
		})
	}
}

func TestAnEventFileGrowsInPlace(t *testing.T) {
	source := &memory{objects: map[string]string{"a.tfevents": "1"}}
	r := runIn(t, t.TempDir(), source, 1<<30)
	wantError(t, r.fetch(t.Context()), "")
	reader, err := r.root.Open("a.tfevents") // keep the file open, as TensorBoard does
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	source.objects["a.tfevents"] = "123"
	wantError(t, r.fetch(t.Context()), "")
	if got, err := io.ReadAll(reader); err != nil || string(got) != "123" {
		t.Errorf("a process that has the file open reads %q, %v", got, err)
	}
}

func TestAListingThatFailsRemovesNothing(t *testing.T) {
	source := &memory{objects: map[string]string{"a.tfevents": "1"}}
	r := runIn(t, t.TempDir(), source, 1<<30)
	wantError(t, r.fetch(t.Context()), "")
	source.objects, source.broken = nil, errors.New("no such bucket")
	wantError(t, r.fetch(t.Context()), "no such bucket")
	wantTree(t, r, map[string]string{"a.tfevents": "1"})
}

func TestAFetchEndsEarlyIfTheServerIsUnavailable(t *testing.T) {
	tests := map[string]struct {
		err       error
		wantTries int64
		wantError string
	}{
		"a fetch ends early if the server does not respond": {
			errors.New("connection refused"), maxFailures + downloads - 1,
			"too many failures; the next fetch tries again: connection refused",
		},
		"a fetch tries all files if the server refuses them": {
			refused{errors.New("denied")}, 100, "100 of 100 files cannot be fetched, for example",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			source := &memory{objects: map[string]string{}, fails: map[string]error{}}
			for i := range 100 {
				name := fmt.Sprintf("%d.tfevents", i)
				source.objects[name], source.fails[name] = "1", tc.err
			}
			wantError(t, runIn(t, t.TempDir(), source, 1<<30).fetch(t.Context()), tc.wantError)
			if got := source.opened.Load(); got > tc.wantTries {
				t.Errorf("got %d attempts, want at most %d", got, tc.wantTries)
			}
		})
	}
}

func TestFilesAreWrittenOnlyToTheFolderOfTheRun(t *testing.T) {
	longest := strings.Repeat("n", 246) + ".tfevents"
	tests := map[string]struct {
		before    map[string]string
		source    map[string]string
		want      map[string]string
		wantError string
	}{
		"a path that leads to a parent folder is refused": {
			source: map[string]string{
				"../other/a.tfevents": "bad", "x/../../other/a.tfevents": "bad", "..": "bad", "good.tfevents": "good",
			},
			want:      map[string]string{"good.tfevents": "good"},
			wantError: "3 of 4 files cannot be fetched",
		},
		"an absolute path is refused": {
			source:    map[string]string{"/etc/a.tfevents": "bad", "good.tfevents": "good"},
			want:      map[string]string{"good.tfevents": "good"},
			wantError: `"/etc/a.tfevents": its name is not a valid path in this folder`,
		},
		"a path that is not in canonical form is refused": {
			source: map[string]string{
				"x//a.tfevents": "bad", "x/./a.tfevents": "bad", "./x/a.tfevents": "bad", "x/a.tfevents": "good",
			},
			want:      map[string]string{"x/a.tfevents": "good"},
			wantError: "3 of 4 files cannot be fetched",
		},
		"a path that is not possible in a file system is refused": {
			source: map[string]string{
				"": "bad", ".": "bad", "a\x00.tfevents": "bad", "\xff.tfevents": "bad", "n" + longest: "bad", longest: "good",
			},
			want:      map[string]string{longest: "good"},
			wantError: "5 of 6 files cannot be fetched",
		},
		"a path with the suffix of incomplete files is refused": {
			source:    map[string]string{"plugins/a": "good", "plugins/.a" + partialSuffix: "bad"},
			want:      map[string]string{"plugins/a": "good"},
			wantError: "which the sidecar reserves",
		},
		"a path can have many elements": {
			source: map[string]string{strings.Repeat("d/", 500) + "a.tfevents": "good"},
			want:   map[string]string{strings.Repeat("d/", 500) + "a.tfevents": "good"},
		},
		"a path can have any other characters": {
			source: map[string]string{
				`a\..\b ?*'"$(x)` + "\n.tfevents": "good", "héllo/wörld.tfevents": "good", "...tfevents": "good",
			},
			want: map[string]string{
				`a\..\b ?*'"$(x)` + "\n.tfevents": "good",
				"héllo/wörld.tfevents":            "good",
				"...tfevents":                     "good",
			},
		},
		"a file below another file is refused": {
			source: map[string]string{"a.tfevents": "good", "a.tfevents/b.tfevents": "bad", "a.tfevents/plugins/c": "bad"},
			want:   map[string]string{"a.tfevents": "good"},
			wantError: `2 of 3 files cannot be fetched, for example "a.tfevents/b.tfevents": ` +
				`"a.tfevents" is a file, not a folder`,
		},
		"links with the name of a file or folder are replaced": {
			before: map[string]string{
				"a.tfevents": "-> ../other/file",
				"x":          "-> ../other",
				"y":          "-> /",
				"plugins/z":  "-> ../../other/file",
			},
			source: map[string]string{
				"a.tfevents":       "good",
				"x/file.tfevents":  "good",
				"y/etc/a.tfevents": "good",
				"plugins/z":        "good",
			},
			want: map[string]string{
				"a.tfevents":       "good",
				"x/file.tfevents":  "good",
				"y/etc/a.tfevents": "good",
				"plugins/z":        "good",
			},
		},
		"other links are removed": {
			before: map[string]string{"x": "-> ../other"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			logs := t.TempDir()
			other := map[string]string{"other/file": "of another run"}
			put(t, logs, other)
			put(t, logs, map[string]string{"run": "/"})
			put(t, filepath.Join(logs, "run"), tc.before)
			r := runIn(t, filepath.Join(logs, "run"), &memory{objects: tc.source}, 1<<30)
			wantError(t, r.fetch(t.Context()), tc.wantError)
			wantTree(t, r, tc.want)
			all := tree(t, logs)
			maps.DeleteFunc(all, func(name, _ string) bool { return name == "run" || strings.HasPrefix(name, "run/") })
			if diff := cmp.Diff(other, all); diff != "" {
				t.Errorf("files of other runs were changed (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzFilesAreWrittenOnlyToTheFolderOfTheRun fetches two objects into a folder that already contains a link to
// another folder. The paths of the objects and of the link can be any text.
func FuzzFilesAreWrittenOnlyToTheFolderOfTheRun(f *testing.F) {
	for _, seed := range [][3]string{
		{"../other/file", "a.tfevents", "a.tfevents"},
		{"a.tfevents", "a.tfevents/b.tfevents", "b"},
		{"plugins/a", "/plugins/a", "plugins"},
		{".", "..", "..."},
		{"a/../../b.tfevents", "a//b.tfevents", "a"},
		{"\x00", "\xff", "x"},
		{"plugins/.partial", "plugins/", "plugins/.partial"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, first, second, link string) {
		logs := t.TempDir()
		other := map[string]string{"other/file": "of another run"}
		put(t, logs, other)
		put(t, logs, map[string]string{"run": "/"})
		root, err := os.OpenRoot(filepath.Join(logs, "run"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = root.MkdirAll(filepath.Dir(link), 0o755)
		_ = root.Symlink(filepath.Join(logs, "other"), link)
		source := &memory{objects: map[string]string{first: "first", second: "second"}}
		r, err := newRun(source, root, &quota{limit: 1 << 20})
		if err != nil {
			t.Skip(err)
		}
		before := r.fetch(t.Context())
		got := tree(t, filepath.Join(logs, "run"))
		if after := r.fetch(t.Context()); (before == nil) != (after == nil) {
			t.Errorf("the first fetch returned %v, the second %v", before, after)
		}
		if diff := cmp.Diff(got, tree(t, filepath.Join(logs, "run"))); diff != "" {
			t.Errorf("the second fetch changed the folder (-first +second):\n%s", diff)
		}
		for name, data := range got {
			if data != source.objects[name] || !fs.ValidPath(name) {
				t.Errorf("file %q contains %q", name, data)
			}
		}
		all := tree(t, logs)
		maps.DeleteFunc(all, func(name, _ string) bool { return name == "run" || strings.HasPrefix(name, "run/") })
		if diff := cmp.Diff(other, all); diff != "" {
			t.Errorf("files of other runs were changed (-want +got):\n%s", diff)
		}
	})
}

func TestOnlyFilesThatDashboardsReadAreFetched(t *testing.T) {
	named := map[string]bool{"assets/vectors.tsv": true}
	tests := map[string]bool{
		"events.out.tfevents.1700000000.host": true,
		"train/events.out.tfevents.1.host.v2": true,
		"plugins/profile/1/host.xplane.pb":    true,
		"a/plugins/b":                         true,
		"projector_config.pbtxt":              true,
		"train/projector_config.pbtxt":        true,
		"assets/vectors.tsv":                  true,
		"assets/others.tsv":                   false,
		"model.ckpt-1000.data-00000-of-00001": false,
		"plugins":                             false,
		"myplugins/a":                         false,
		"tfevents/checkpoint":                 false,
		"pytorch_model.bin":                   false,
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isShown(name, named); got != want {
				t.Errorf("got %t, want %t", got, want)
			}
		})
	}
}

func TestAFileIsRecognizedByItsVersionOrItsTime(t *testing.T) {
	tests := map[string]struct {
		have     file
		version  string
		modified time.Time
		want     bool
	}{
		"a file with the same time is known":          {file{size: 1, modified: noon}, "v1", noon, true},
		"a file with another time is unknown":         {file{size: 1, modified: noon}, "v1", noon.Add(time.Second), false},
		"a file is unknown if the object has no time": {file{size: 1, modified: noon}, "v1", time.Time{}, false},
		"a file with another size is unknown":         {file{size: 2, modified: noon}, "v1", noon, false},
		"a file with another version is unknown":      {file{size: 1, modified: noon, version: "v0"}, "v1", noon, false},
		"a file with the same version is known":       {file{size: 1, version: "v1"}, "v1", noon, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.have.is(1, tc.version, tc.modified); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
