package sidecar

import (
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
)

const (
	// projectorConfig is the name of the files that configure the projector of TensorBoard.
	projectorConfig = "projector_config.pbtxt"
	// maxProjectorConfig is the maximum number of bytes that are read of such a file. maxProjectorFiles is the maximum
	// number of files that all configurations in a folder can name together.
	maxProjectorConfig = 1 << 20
	maxProjectorFiles  = 1000
)

// projectorPath matches a path in the configuration of a projector, except the path of a checkpoint.
var projectorPath = regexp.MustCompile(`\b(?:tensor|metadata|bookmarks|image)_path\s*:\s*["']([^"'\n]+)["']`)

// projectorFiles returns the paths in the projector configurations of a folder, but at most maxProjectorFiles paths.
// It ignores configurations that cannot be read.
func projectorFiles(folder fs.FS) map[string]bool {
	named := map[string]bool{}
	_ = fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != projectorConfig || !entry.Type().IsRegular() {
			return nil
		}
		f, err := folder.Open(name)
		if err != nil {
			return nil
		}
		defer func() { _ = f.Close() }()
		config, _ := io.ReadAll(io.LimitReader(f, maxProjectorConfig))
		for _, match := range projectorPath.FindAllSubmatch(config, -1) {
			if file, err := strconv.Unquote(`"` + string(match[1]) + `"`); err == nil {
				named[path.Join(path.Dir(name), file)] = true
			}
			if len(named) == maxProjectorFiles {
				return fs.SkipAll
			}
		}
		return nil
	})
	return named
}
