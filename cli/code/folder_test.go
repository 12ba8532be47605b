package code

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes files into a new folder and returns its path. Content that begins with "-> " makes a symbolic link.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "digits")
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			err = os.Symlink(target, file)
		} else {
			err = os.WriteFile(file, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pathsOf returns the paths of the files of the code. leftOut maps each path that is left out to the reason.
func pathsOf(t *testing.T, dir string) (paths []string, leftOut map[string]string) {
	t.Helper()
	folder, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folder.Files {
		paths = append(paths, file.Path)
	}
	leftOut = map[string]string{}
	for _, left := range folder.LeftOut {
		leftOut[left.Path] = left.Reason
	}
	return paths, leftOut
}

func TestReadSelectsFiles(t *testing.T) {
	t.Parallel()
	const (
		credentials = "probably has credentials, by its name"
		link        = "is a symbolic link that leads out of the folder, or nowhere"
		leftOut     = "is a symbolic link to a file that is left out"
	)
	for _, test := range []struct {
		name    string
		files   map[string]string
		want    []string
		leftOut map[string]string
	}{
		{
			name:  "all files are sorted by path, also those in folders",
			files: map[string]string{"train.py": "", "models/net.py": "", "config.yaml": ""},
			want:  []string{"config.yaml", "models/net.py", "train.py"},
		},
		{
			name: "files that only this machine needs are ignored",
			files: map[string]string{
				"train.py": "", ".git/config": "", "__pycache__/train.pyc": "", "old.pyc": "", ".DS_Store": "",
				"a/__pycache__/x": "", ".gitignore": "", ".trainignore": "",
			},
			want: []string{"train.py"},
		},
		{
			name: "a pattern of .gitignore matches at any depth, unless it has a slash",
			files: map[string]string{
				".gitignore": "*.ckpt\n/data\n# comment\n\nruns/\n", "train.py": "", "a.ckpt": "", "b/c.ckpt": "",
				"data/x": "", "b/data/y": "", "b/runs/z": "", "runs": "",
			},
			want: []string{"b/data/y", "runs", "train.py"},
		},
		{
			name:  "a .gitignore in a folder applies to this folder",
			files: map[string]string{"a/.gitignore": "*.txt\n!keep.txt\n", "a/x.txt": "", "a/keep.txt": "", "b/x.txt": ""},
			want:  []string{"a/keep.txt", "b/x.txt"},
		},
		{
			name: ".trainignore has priority over .gitignore",
			files: map[string]string{
				".gitignore": "*.json\n", ".trainignore": "!model.json\nnotes/\n",
				"model.json": "", "other.json": "", "notes/a": "",
			},
			want: []string{"model.json"},
		},
		{
			name: "files that probably have credentials are left out",
			files: map[string]string{
				"train.py": "", ".env": "", "prod.env": "", ".env.example": "", ".netrc": "", "keys/ID_RSA": "",
				".aws/credentials": "", "server.pem": "", "key.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\n", "credentials.py": "",
				"about.py": `text = "-----BEGIN PRIVATE KEY-----"`,
				"gcp.json": `{"private_key": "-----BEGIN PRIVATE KEY-----\nabc"}`,
			},
			want: []string{".env.example", "about.py", "credentials.py", "train.py"},
			leftOut: map[string]string{
				".aws": "is a folder for credentials", ".env": credentials, ".netrc": credentials, "prod.env": credentials,
				"keys/ID_RSA": credentials, "server.pem": credentials, "key.txt": "has a private key",
				"gcp.json": "has a private key",
			},
		},
		{
			name: ".trainignore can include a file that looks like one with credentials",
			files: map[string]string{
				".trainignore": "!default.env\n", "default.env": "", "other.env": "", ".gitignore": "!other.env\n",
			},
			want: []string{"default.env"}, leftOut: map[string]string{"other.env": credentials},
		},
		{
			name: "a symbolic link is followed only to a file in the folder",
			files: map[string]string{
				"train.py": "", "same.py": "-> train.py", "out": "-> /etc/passwd", "up": "-> ../x", "lost": "-> nowhere",
				"folder": "-> a", "a/b": "",
			},
			want:    []string{"a/b", "same.py", "train.py"},
			leftOut: map[string]string{"out": link, "up": link, "lost": link, "folder": "is a symbolic link to a folder"},
		},
		{
			name: "a symbolic link does not make a file part of the code",
			files: map[string]string{
				"train.py": "", ".env": "", ".git/config": "", "data/x": "", ".gitignore": "/data\n/set.csv\n",
				"a.txt": "-> .env", "b.txt": "-> .git/config", "c.txt": "-> data/x", "d.txt": "-> a.txt", "e.py": "-> f.py",
				"f.py": "-> train.py", "set.csv": "-> data/x",
			},
			want: []string{"e.py", "f.py", "train.py"},
			leftOut: map[string]string{
				".env": credentials, "a.txt": leftOut, "b.txt": leftOut, "c.txt": leftOut, "d.txt": leftOut,
			},
		},
		{
			name:  "a virtual environment is left out",
			files: map[string]string{"train.py": "", "env/pyvenv.cfg": "", "env/lib/x.py": ""},
			want:  []string{"train.py"},
			leftOut: map[string]string{
				"env": "is a virtual environment of this machine; the packages must be in the image",
			},
		},
		{
			name: "the patterns after a long line of an ignore file count",
			files: map[string]string{
				"train.py": "", "a.ckpt": "", ".gitignore": "#" + strings.Repeat("-", 100<<10) + "\n*.ckpt\n",
			},
			want: []string{"train.py"},
		},
		{
			name:  "a byte order mark is not part of the first pattern",
			files: map[string]string{"train.py": "", "a.ckpt": "", ".gitignore": "\ufeff*.ckpt\r\n"},
			want:  []string{"train.py"},
		},
		{
			name:  "a folder with the name of an ignore file has no patterns",
			files: map[string]string{"train.py": "", ".gitignore/a.py": ""},
			want:  []string{".gitignore/a.py", "train.py"},
		},
		{
			name:    "Kubernetes cannot mount a name that begins with two dots",
			files:   map[string]string{"..data": "", "train.py": ""},
			want:    []string{"train.py"},
			leftOut: map[string]string{"..data": "has a name that begins with two dots, and Kubernetes cannot mount it"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, leftOut := pathsOf(t, write(t, test.files))
			if test.leftOut == nil {
				test.leftOut = map[string]string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.leftOut, leftOut); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadHonorsIgnoreFilesOfTheWorkTreeAbove(t *testing.T) {
	t.Parallel()
	top := write(t, map[string]string{
		".git/HEAD": "", ".gitignore": "*.ckpt\n/experiments/first/data/\n", "experiments/.gitignore": "*.log\n",
		"experiments/first/train.py": "", "experiments/first/a.ckpt": "", "experiments/first/data/x": "",
		"experiments/first/a.log": "",
	})
	got, _ := pathsOf(t, filepath.Join(top, "experiments/first"))
	if diff := cmp.Diff([]string{"train.py"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestReadRejectsFolders(t *testing.T) {
	large := strings.Repeat("*.ckpt\n", 1<<18)
	home := write(t, map[string]string{
		"a/train.py": "", ".ssh/a/train.py": "", "large/.gitignore": large,
		"tree/.git/HEAD": "", "tree/.gitignore": large, "tree/below/train.py": "",
		"loop/.git/HEAD": "", "loop/.gitignore": "-> .gitignore", "loop/below/train.py": "",
	})
	t.Setenv("HOME", home)
	for _, test := range []struct{ name, dir, want string }{
		{"the home directory", home, "contains your home directory"},
		{"a folder above the home directory", filepath.Dir(home), "contains your home directory"},
		{"the root of the file system", "/", "contains your home directory"},
		{"a folder in a folder for credentials", home + "/.ssh/a", "is in a folder for credentials (.ssh)"},
		{"a folder with a large ignore file", home + "/large", home + "/large: .gitignore has more than 1 MiB"},
		{"a folder below a large ignore file", home + "/tree/below", home + "/tree: .gitignore has more than 1 MiB"},
		{"a folder below an ignore file that cannot be read", home + "/loop/below", "too many levels of symbolic links"},
		{"a file", home + "/a/train.py", "kubectl train run " + home + "/a -- train.py"},
		{"a folder that does not exist", home + "/b", "there is no folder " + home + "/b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Read(test.dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestReadNamesTheLargestPartsOfTooMuch(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"train.py": "1", "data/a": ""})
	if err := os.Truncate(filepath.Join(dir, "data/a"), maxSize+1); err != nil { // a sparse file
		t.Fatal(err)
	}
	const want = "and name it in .trainignore; so far the largest: data (1 file, 1.0 GiB)"
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want one with %q", err, want)
	}
}

func TestTheSameCodeHasTheSameDigest(t *testing.T) {
	t.Parallel()
	files := map[string]string{"train.py": "print()", "models/net.py": ""}
	digestOf := func(change func(dir string) error) Digest {
		dir := write(t, files)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		folder, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := folder.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	first := digestOf(func(string) error { return nil })
	if again := digestOf(func(string) error { return nil }); again != first {
		t.Errorf("copies have the digests %v and %v", first, again)
	}
	if other := digestOf(func(dir string) error {
		return os.Chmod(filepath.Join(dir, "train.py"), 0o700)
	}); other == first {
		t.Error("the digest does not depend on the mode")
	}
	if other := digestOf(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "train.py"), []byte("print(1"), 0o600)
	}); other == first {
		t.Error("the digest does not depend on the content")
	}
}

func TestTarFailsIfAFileChanges(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"longer": "print(1)", "shorter": ""} {
		t.Run("a file becomes "+name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{"train.py": "print()"})
			folder, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			const want = "train.py: the file has changed while it was read"
			if err := folder.Tar(io.Discard); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got the error %v, want %q", err, want)
			}
		})
	}
}

func TestDigestHasTheSizeOfTheArchive(t *testing.T) {
	t.Parallel()
	folder, err := Read(write(t, map[string]string{"train.py": "print()"}))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := folder.Tar(&archive); err != nil {
		t.Fatal(err)
	}
	digest, err := folder.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if digest.Size != int64(archive.Len()) {
		t.Errorf("the digest has the size %d, and the archive %d", digest.Size, archive.Len())
	}
}
