// Package code selects those files of a folder that a training needs, and packs them.
package code

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"tensorstack.dev/jobs/common/report"
)

// File is a file of the code.
type File struct {
	// Path is relative to the folder, with slashes.
	Path string
	// Size is the number of bytes.
	Size int64
	// Executable reports whether the owner of the file can execute it.
	Executable bool
}

// LeftOut is a file or folder that is not part of the code, although no pattern of an ignore file excludes it.
type LeftOut struct {
	// Path is relative to the folder, with slashes.
	Path string
	// Reason completes the sentence "<path> is left out: it ...".
	Reason string
	// IsSecret reports whether the file or folder probably has credentials.
	IsSecret bool
}

// Folder is the code of a training.
type Folder struct {
	// Path is the absolute path of the folder.
	Path string
	// Files are sorted by path.
	Files []File
	// LeftOut is sorted by path.
	LeftOut []LeftOut

	content fs.FS
}

// Read rejects code with more than maxFiles files or maxSize bytes. Training data belongs on a PersistentVolumeClaim
// instead.
const (
	maxFiles = 10_000
	maxSize  = 1 << 30
)

// Read returns the code in the folder dir. It never reads a file outside this folder, except .gitignore files in the
// folders above it. If the code has too many files or bytes, Read stops early. The error then names the largest
// top-level files and folders among those read so far.
func Read(dir string) (*Folder, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// mayRead needs the real path, because a symbolic link can lead to a folder with credentials.
	switch absolute, err = filepath.EvalSymlinks(absolute); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no folder %s", dir)
	case err != nil:
		return nil, err
	}
	home, _ := os.UserHomeDir() // on an error, home is empty, and mayRead omits the check for the home directory
	if err := mayRead(absolute, home); err != nil {
		return nil, err
	}
	switch info, err := os.Stat(absolute); {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is a file: name its folder, and the program after --, as in: kubectl train run %s -- %s",
			dir, filepath.Dir(dir), filepath.Base(dir))
	}
	// The root keeps symbolic links from leading out of the folder.
	root, err := os.OpenRoot(absolute)
	if err != nil {
		return nil, err
	}
	above, prefix, err := rulesAbove(absolute)
	if err != nil {
		return nil, err
	}
	folder, err := selectFiles(root.FS(), ignored{prefix: prefix, patterns: above})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	folder.Path = absolute
	return folder, nil
}

// mayRead returns an error if a folder is unlikely to be the code of a training, and likely to have secrets.
func mayRead(dir, home string) error {
	if home != "" {
		if resolved, err := filepath.EvalSymlinks(home); err == nil {
			home = resolved
		}
		if below, err := filepath.Rel(dir, home); err == nil && filepath.IsLocal(below) {
			return fmt.Errorf("%s contains your home directory: name the folder of the training", dir)
		}
	}
	if dir == filepath.Dir(dir) {
		return fmt.Errorf("%s is the root of the file system: name the folder of the training", dir)
	}
	for part := range strings.SplitSeq(filepath.ToSlash(dir), "/") {
		if slices.Contains(secretFolders, part) {
			return fmt.Errorf("%s is in a folder for credentials (%s): name the folder of the training", dir, part)
		}
	}
	return nil
}

// selectFiles selects the files of the code from the content of a folder. The parameter rules has the patterns of the
// ignore files above the folder. selectFiles also applies the ignore files within the folder.
func selectFiles(content fs.FS, rules ignored) (*Folder, error) {
	folder := &Folder{content: content}
	links := map[string]bool{}
	var size int64
	err := fs.WalkDir(content, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return folder.enter(name, &rules)
		}
		if alwaysIgnored(entry.Name()) || rules.match(name, false) == gitignore.Exclude {
			return nil
		}
		file, reason := folder.look(name, entry)
		if reason != "" {
			folder.LeftOut = append(folder.LeftOut, LeftOut{Path: name, Reason: reason})
			return nil
		}
		// A file that probably has credentials is left out, unless it matches a pattern in .trainignore that begins with
		// "!". In .gitignore, such a pattern is not enough: it allows the file in git, but not in the code.
		if reason = folder.secret(name, file.Size); reason != "" && rules.match(name, false) != gitignore.Include {
			folder.LeftOut = append(folder.LeftOut, LeftOut{Path: name, Reason: reason, IsSecret: true})
			return nil
		}
		folder.Files = append(folder.Files, file)
		if entry.Type()&fs.ModeSymlink != 0 {
			links[name] = true
		} else {
			size += file.Size
		}
		if size > maxSize || len(folder.Files) > maxFiles {
			return errTooLarge
		}
		return nil
	})
	folder.leaveOutLinks(links)
	if err == nil && folder.Size() > maxSize {
		err = errTooLarge
	}
	if errors.Is(err, errTooLarge) {
		return nil, fmt.Errorf("%w; so far the largest: %s", err, folder.largest())
	}
	return folder, err
}

var errTooLarge = fmt.Errorf("more than %d files or %d GiB: keep data on a claim (--claim), and name it in %s",
	maxFiles, maxSize>>30, TrainIgnore)

// enter reads the ignore files of a folder. It returns fs.SkipDir if the folder is not part of the code.
func (f *Folder) enter(name string, rules *ignored) error {
	base := path.Base(name)
	switch {
	case name == ".":
		return rules.read(f.content, name)
	case slices.Contains(ignoredFolders, base), rules.match(name, true) == gitignore.Exclude:
		return fs.SkipDir
	case slices.Contains(secretFolders, base):
		f.LeftOut = append(f.LeftOut, LeftOut{Path: name, Reason: "is a folder for credentials", IsSecret: true})
		return fs.SkipDir
	}
	if _, err := fs.Stat(f.content, path.Join(name, "pyvenv.cfg")); err == nil {
		f.LeftOut = append(f.LeftOut, LeftOut{
			Path: name, Reason: "is a virtual environment of this machine; the packages must be in the image",
		})
		return fs.SkipDir
	}
	return rules.read(f.content, name)
}

// look returns the File with this name, or the reason why the file is left out.
func (f *Folder) look(name string, entry fs.DirEntry) (File, string) {
	info, err := fs.Stat(f.content, name) // follows symbolic links within the folder
	switch linked := entry.Type()&fs.ModeSymlink != 0; {
	case err != nil && linked:
		return File{}, "is a symbolic link that leads out of the folder, or nowhere"
	case err != nil:
		return File{}, "cannot be read: " + err.Error()
	case linked && info.IsDir():
		return File{}, "is a symbolic link to a folder"
	case !info.Mode().IsRegular():
		return File{}, "is no regular file"
	case strings.HasPrefix(name, ".."):
		return File{}, "has a name that begins with two dots, and Kubernetes cannot mount it"
	}
	return File{Path: name, Size: info.Size(), Executable: info.Mode()&0o100 != 0}, ""
}

// leaveOutLinks leaves out each symbolic link whose target is not part of the code. Otherwise, a link that somebody
// else has put into the folder could add a file with credentials or a file in .git to the code. The parameter links
// has the paths of all symbolic links in f.Files.
func (f *Folder) leaveOutLinks(links map[string]bool) {
	var code []fs.FileInfo
	for _, file := range f.Files {
		if info, err := fs.Stat(f.content, file.Path); err == nil && !links[file.Path] {
			code = append(code, info)
		}
	}
	f.Files = slices.DeleteFunc(f.Files, func(file File) bool {
		if !links[file.Path] {
			return false
		}
		target, err := fs.Stat(f.content, file.Path)
		isCode := err == nil && slices.ContainsFunc(code, func(c fs.FileInfo) bool { return os.SameFile(c, target) })
		if !isCode {
			f.LeftOut = append(f.LeftOut, LeftOut{Path: file.Path, Reason: "is a symbolic link to a file that is left out"})
		}
		return !isCode
	})
	slices.SortStableFunc(f.LeftOut, func(a, b LeftOut) int { return cmp.Compare(a.Path, b.Path) })
}

// largest describes the three largest files or folders at the top level of the code, for a message.
func (f *Folder) largest() string {
	type part struct {
		name string
		size int64
		n    int
	}
	var parts []part
	for _, file := range f.Files {
		top, _, _ := strings.Cut(file.Path, "/")
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == top })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{name: top})
		}
		parts[i].size += file.Size
		parts[i].n++
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	var names []string
	for _, p := range parts[:min(3, len(parts))] {
		names = append(names, fmt.Sprintf("%s (%s, %s)", p.name, report.Count(p.n, "file"), Bytes(p.size)))
	}
	return strings.Join(names, ", ")
}

// Size returns the number of bytes of all files.
func (f *Folder) Size() int64 {
	var size int64
	for _, file := range f.Files {
		size += file.Size
	}
	return size
}

// Content returns the content of a file of the code.
func (f *Folder) Content(name string) ([]byte, error) { return fs.ReadFile(f.content, name) }

// Bytes returns the text for a number of bytes in a message, such as "3.1 MiB".
func Bytes(n int64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch {
	case n < kib:
		return fmt.Sprintf("%d B", n)
	case n < mib:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	case n < gib:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/gib)
}
