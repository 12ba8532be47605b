package receiver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/common/progress"
)

// followed is a file that a follower reads, and the lines of the last poll.
type followed struct {
	follower
	t     *testing.T
	lines []string
}

func follow(t *testing.T, path string) *followed {
	f := &followed{follower: follower{path: path}, t: t}
	f.line = func(line []byte) { f.lines = append(f.lines, string(line)) }
	return f
}

// want polls the file once, and compares the new lines with the wanted ones.
func (f *followed) want(want ...string) {
	f.t.Helper()
	f.lines = nil
	if err := f.poll(); err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.lines); diff != "" {
		f.t.Errorf("unexpected lines (-want +got):\n%s", diff)
	}
}

// add appends text to the file.
func (f *followed) add(text string) {
	f.t.Helper()
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		f.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		f.t.Fatal(err)
	}
}

// newFile returns the path of a file that does not exist.
func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "reports")
}

func TestEachCompleteLineIsReadOnce(t *testing.T) {
	t.Parallel()
	f := follow(t, newFile(t))
	f.want()
	f.add("a\nb\n\n \r\nc")
	f.want("a", "b")
	f.want()
	f.add("c\r\n")
	f.want("cc")
}

func TestTheFileCanBeWrittenByAllUsers(t *testing.T) {
	t.Parallel()
	f := follow(t, newFile(t))
	f.want()
	info, err := os.Stat(f.path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), os.FileMode(0o666); got != want {
		t.Errorf("the mode of the file is %s, want %s", got, want)
	}
}

func TestAnExistingFileKeepsItsContentAndMode(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	if err := os.WriteFile(path, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	follow(t, path).want("a")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), os.FileMode(0o600); got != want {
		t.Errorf("the mode of the file is %s, want %s", got, want)
	}
}

func TestAFileThatChangesOtherwiseIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, f *followed){
		"the file was truncated": func(t *testing.T, f *followed) {
			if err := os.WriteFile(f.path, []byte("new\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the file was replaced by one of the same size": func(t *testing.T, f *followed) {
			// Replace the file twice. If the file system reused the inode number of a replaced file, the last file would have
			// the inode number of the first one.
			for range 2 {
				if err := os.WriteFile(f.path+"2", []byte("new\nline\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(f.path+"2", f.path); err != nil {
					t.Fatal(err)
				}
			}
		},
		"the file was removed and created again": func(t *testing.T, f *followed) {
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
			f.want()
			f.add("new\nline\nother\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := follow(t, newFile(t))
			f.want()
			f.add("old line\n")
			f.want("old line")
			change(t, f)
			f.lines = nil
			if err := f.poll(); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(f.lines, "new") {
				t.Errorf("the lines are %q, want the first line of the new file", f.lines)
			}
		})
	}
}

func TestLinesThatAreTooLongAreSkipped(t *testing.T) {
	t.Parallel()
	f := follow(t, newFile(t))
	f.want()
	longest := strings.Repeat("x", progress.MaxBody)
	f.add(longest + "\n" + longest + "x\nshort\n")
	f.want(longest, "short")
	f.add(strings.Repeat(longest, 3))
	f.want()
	f.add(longest)
	f.want()
	f.add("rest\nshort\n")
	f.want("short")
}

func TestOnlyTheEndOfManyLinesIsRead(t *testing.T) {
	t.Parallel()
	f := follow(t, newFile(t))
	f.want()
	var text strings.Builder
	for i := 0; text.Len() < 3*maxRead; i++ {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	f.add(text.String() + "last\n")
	f.lines = nil
	if err := f.poll(); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(text.String()+"last", "\n")
	want := all[len(all)-len(f.lines):]
	if diff := cmp.Diff(want, f.lines); diff != "" {
		t.Errorf("the lines are not the last ones (-want +got):\n%s", diff)
	}
	size := len(strings.Join(f.lines, "\n")) + 1
	if size > maxRead || size < maxRead-20 {
		t.Errorf("%d bytes were read, want %d except the first line", size, maxRead)
	}
}

func TestALargeFileIsTruncatedAfterItWasRead(t *testing.T) {
	t.Parallel()
	f := follow(t, newFile(t))
	f.want()
	size := func() int64 {
		t.Helper()
		info, err := os.Stat(f.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	f.add(strings.Repeat(" ", maxFile) + "\nhalf")
	f.want()
	if got := size(); got <= maxFile {
		t.Errorf("the file was truncated to %d bytes before all of it was read", got)
	}
	f.add(" line\n")
	f.want("half line")
	if got := size(); got != 0 {
		t.Errorf("the file has %d bytes, want 0", got)
	}
	f.add("next\n")
	f.want("next")
}

func TestOnlyARegularFileIsRead(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		create func(path string) error
		want   string
	}{
		"a symbolic link is not followed": {
			func(path string) error { return os.Symlink(secret, path) },
			"must be a regular file, but is a symbolic link: remove it",
		},
		"a symbolic link to a missing file is not followed": {
			func(path string) error { return os.Symlink(secret+"2", path) },
			"must be a regular file, but is a symbolic link: remove it",
		},
		"a FIFO does not block": {
			func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"must be a regular file, but is p---------: remove it",
		},
		"a folder is an error": {func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			if err := tc.create(path); err != nil {
				t.Fatal(err)
			}
			f := follow(t, path)
			if err := f.poll(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
			if len(f.lines) > 0 {
				t.Errorf("the lines are %q, want none", f.lines)
			}
			// When the program has removed the invalid file, the receiver reads a new one.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			f.want()
		})
	}
	if _, err := os.Stat(secret + "2"); !os.IsNotExist(err) {
		t.Errorf("the target of the link was created: %v", err)
	}
}

// If a second follower read the file from its beginning, the lines that the first follower has read would count as
// progress again.
func TestASecondFollowerBeginsAtTheEndOfTheFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ before, after, want string }{
		"complete lines are skipped":       {before: "old\n", after: "new\n", want: "new"},
		"the rest of a line is skipped":    {before: "old", after: " end\nnew\n", want: "new"},
		"without lines, nothing is missed": {after: "new\n", want: "new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "reports")
			write := func(text string) {
				file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				_, err = file.WriteString(text)
				if err := errors.Join(err, file.Close()); err != nil {
					t.Fatal(err)
				}
			}
			first := follower{path: path, line: func([]byte) {}}
			if err := first.poll(); err != nil {
				t.Fatal(err)
			}
			write(tc.before)
			var got []string
			second := follower{path: path, line: func(line []byte) { got = append(got, string(line)) }}
			for _, text := range []string{"", tc.after} {
				write(text)
				if err := second.poll(); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("unexpected lines (-want +got):\n%s", diff)
			}
		})
	}
}
