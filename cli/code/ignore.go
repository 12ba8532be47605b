package code

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// TrainIgnore is the name of the ignore file for kubectl train. It has the syntax of .gitignore.
const TrainIgnore = ".trainignore"

const gitIgnore = ".gitignore"

// maxIgnoreFile is the maximum size of an ignore file, in bytes.
const maxIgnoreFile = 1 << 20

// ignoredFolders are never part of the code.
var ignoredFolders = []string{".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints"}

// alwaysIgnored reports whether a file with this name is never part of the code.
func alwaysIgnored(base string) bool {
	return base == TrainIgnore || base == gitIgnore || base == ".git" || base == ".DS_Store" || path.Ext(base) == ".pyc"
}

// ignored has the patterns of ignore files.
type ignored struct {
	// prefix has the names of the folders on the way from the top of the git work tree to the folder of the code.
	prefix []string
	// The field patterns has the patterns of .gitignore files, and the field own has those of .trainignore files. Later
	// patterns have priority.
	patterns, own []gitignore.Pattern
}

// match returns what the ignore files say about a path below the folder. Among the patterns that match the path, the
// last one from a .trainignore file decides. If there is none, the last one from a .gitignore file decides, but such a
// pattern only excludes: "!" in .gitignore does not include a file with credentials.
func (r *ignored) match(name string, isDir bool) gitignore.MatchResult {
	parts := append(slices.Clone(r.prefix), strings.Split(name, "/")...)
	if result := last(r.own, parts, isDir); result != gitignore.NoMatch {
		return result
	}
	if last(r.patterns, parts, isDir) == gitignore.Exclude {
		return gitignore.Exclude
	}
	return gitignore.NoMatch
}

// last returns the result of the last pattern that matches a path.
func last(patterns []gitignore.Pattern, parts []string, isDir bool) gitignore.MatchResult {
	for _, pattern := range slices.Backward(patterns) {
		if result := pattern.Match(parts, isDir); result != gitignore.NoMatch {
			return result
		}
	}
	return gitignore.NoMatch
}

// read reads the ignore files in a folder of the code, and adds their patterns to r.
func (r *ignored) read(content fs.FS, dir string) error {
	domain := slices.Clone(r.prefix)
	if dir != "." {
		domain = append(domain, strings.Split(dir, "/")...)
	}
	for name, patterns := range map[string]*[]gitignore.Pattern{gitIgnore: &r.patterns, TrainIgnore: &r.own} {
		more, err := patternsIn(content, path.Join(dir, name), domain)
		if err != nil {
			return err
		}
		*patterns = append(*patterns, more...)
	}
	return nil
}

// rulesAbove returns the patterns of the .gitignore files in the folders above dir, up to the top of its git work
// tree. It also returns the path from this top to dir, as a list of names. Both are nil if dir is in no work tree, or
// is the top of one.
func rulesAbove(dir string) ([]gitignore.Pattern, []string, error) {
	top := dir
	for {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			break
		}
		if top == filepath.Dir(top) {
			return nil, nil, nil
		}
		top = filepath.Dir(top)
	}
	below, err := filepath.Rel(top, dir)
	if err != nil || below == "." {
		return nil, nil, err
	}
	prefix := strings.Split(filepath.ToSlash(below), "/")
	var patterns []gitignore.Pattern
	for i := range prefix {
		more, err := patternsIn(os.DirFS(top), path.Join(append(slices.Clone(prefix[:i]), gitIgnore)...), prefix[:i])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", top, err)
		}
		patterns = append(patterns, more...)
	}
	return patterns, prefix, nil
}

// patternsIn returns the patterns of an ignore file, or nil if there is no such file. The patterns apply only in the
// folder of the file and below it. The parameter domain is the path of this folder, as a list of names. Without one of
// its patterns, a file could be uploaded that must not be. So patternsIn returns an error if it cannot read all of
// them.
func patternsIn(content fs.FS, name string, domain []string) ([]gitignore.Pattern, error) {
	file, err := content.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxIgnoreFile {
		return nil, fmt.Errorf("%s has more than 1 MiB", name)
	}
	var patterns []gitignore.Pattern
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) { // some editors write a byte order mark
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		patterns = append(patterns, gitignore.ParsePattern(line, domain))
	}
	return patterns, nil
}
