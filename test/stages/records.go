package stages

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Records has the result of the last run of each stage on this machine: the stage failed, or it passed with the
// recorded files. The folder can be deleted at any time. Then no stage has a result.
type Records struct{ Folder string }

// Failed reports whether a stage has failed and has not passed since.
func (r Records) Failed(stage string) bool {
	_, err := os.Stat(filepath.Join(r.Folder, "failed", stage))
	return err == nil
}

// Passed reports whether the last run of a stage passed with the files that have the given hash or digest.
func (r Records) Passed(stage, files string) bool {
	content, err := os.ReadFile(filepath.Join(r.Folder, "passed", stage))
	return err == nil && slices.Contains(strings.Fields(string(content)), files)
}

// Pass records that a stage passed. The parameter files identifies the tested files in two ways: by the hash of the
// tree, and by the digest of the files that the stage tests.
func (r Records) Pass(stage string, files ...string) error {
	return r.move(stage, "failed", "passed", strings.Join(files, "\n")+"\n")
}

// Fail records that a stage failed.
func (r Records) Fail(stage string) error { return r.move(stage, "passed", "failed", "") }

// move deletes the record of a stage in one folder and writes a record in another folder.
func (r Records) move(stage, from, to, content string) error {
	if err := os.Remove(filepath.Join(r.Folder, from, stage)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.Folder, to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Folder, to, stage), []byte(content), 0o644)
}
