package stages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tree has the files of a working tree, including uncommitted changes. It has neither PendingFile nor files that git
// ignores.
type Tree struct {
	// Hash is git's hash of the files.
	Hash string
	// Files maps the path of each file to its mode and hash, as git prints them.
	Files map[string]string
}

// ReadTree reads a working tree.
func ReadTree(ctx context.Context, root string) (Tree, error) {
	folder, err := os.MkdirTemp("", "tree-")
	if err != nil {
		return Tree{}, err
	}
	defer os.RemoveAll(folder)
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(folder, "index"))
		output, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s in %s: %w", args[0], root, err)
		}
		return strings.TrimRight(string(output), "\n"), nil
	}
	for _, args := range [][]string{
		{"read-tree", "HEAD"}, {"add", "--all"}, {"update-index", "--force-remove", PendingFile},
	} {
		if _, err := git(args...); err != nil {
			return Tree{}, err
		}
	}
	hash, err := git("write-tree")
	if err != nil {
		return Tree{}, err
	}
	listing, err := git("ls-tree", "-r", "-z", hash)
	if err != nil {
		return Tree{}, err
	}
	tree := Tree{Hash: hash, Files: map[string]string{}}
	for entry := range strings.SplitSeq(strings.TrimRight(listing, "\x00"), "\x00") {
		object, file, _ := strings.Cut(entry, "\t")
		tree.Files[file] = object
	}
	return tree, nil
}

// digest returns a short hash of a text and of some files. The function "selects" reports whether a file is one of
// them.
func (t Tree) digest(selects func(file string) bool, text string) string {
	entries := []string{text}
	for file, object := range t.Files {
		if selects(file) {
			entries = append(entries, file+"\t"+object)
		}
	}
	slices.Sort(entries)
	sum := sha256.Sum256([]byte(strings.Join(entries, "\n")))
	return hex.EncodeToString(sum[:8])
}
