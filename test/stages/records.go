package stages

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Records store in a folder of this machine which stages have failed, and on which trees stages have passed. An empty
// folder is an empty record, so the folder can be deleted at any time.
type Records struct{ Folder string }

// keptTrees is the number of trees in the records.
const keptTrees = 20

// Failed reports whether a stage has failed on any tree and has not passed since.
func (r Records) Failed(stage string) bool {
	_, err := os.Stat(filepath.Join(r.Folder, "failed", stage))
	return err == nil
}

// Passed returns the stages that have passed on a tree.
func (r Records) Passed(tree string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(r.Folder, "passed", tree))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(content)), err
}

// Pass records that a stage passed on a tree.
func (r Records) Pass(tree, stage string) error {
	if err := os.Remove(filepath.Join(r.Folder, "failed", stage)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	passed, err := r.Passed(tree)
	if err != nil || slices.Contains(passed, stage) {
		return err
	}
	r.forgetOldTrees()
	return write(filepath.Join(r.Folder, "passed", tree), strings.Join(append(passed, stage), "\n")+"\n")
}

// Fail records that a stage failed on a tree.
func (r Records) Fail(tree, stage string) error {
	return write(filepath.Join(r.Folder, "failed", stage), tree+"\n")
}

// forgetOldTrees removes the records of trees that were not written for the longest time, so that there is room for one
// more.
func (r Records) forgetOldTrees() {
	entries, err := os.ReadDir(filepath.Join(r.Folder, "passed"))
	if err != nil || len(entries) < keptTrees {
		return
	}
	changed := func(e fs.DirEntry) int64 {
		if info, err := e.Info(); err == nil {
			return info.ModTime().UnixNano()
		}
		return 0
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(changed(a), changed(b)) })
	for _, e := range entries[:len(entries)-keptTrees+1] {
		_ = os.Remove(filepath.Join(r.Folder, "passed", e.Name()))
	}
}

func write(file, content string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o644)
}
