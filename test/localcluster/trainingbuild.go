package localcluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
)

// buildTrainingImage builds an image unless it is cached. It returns the path of the archive. The archive is locked
// until the caller calls unlock.
func (c *Cluster) buildTrainingImage(ctx context.Context, image trainingImage) (path string, unlock func(), err error) {
	file, err := image.file()
	if err != nil {
		return "", nil, err
	}
	path = c.Paths.cache("images", file)
	if unlock, err = lockFile(path + ".lock"); err != nil {
		return "", nil, err
	}
	if exists(path) {
		return path, unlock, nil
	}
	programs := map[string]string{"mmdebstrap": "mmdebstrap"}
	if image.Requirements != "" {
		programs["pip3"] = "python3-pip"
	}
	err = c.installPackages(ctx, packagesOfMissing(programs)...)
	if err == nil {
		err = c.Progress.Step("build "+image.tag()+" (minutes)", func() error { return buildTraining(ctx, image, path) })
	}
	if err != nil {
		unlock()
	}
	return path, unlock, err
}

func buildTraining(ctx context.Context, image trainingImage, path string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".training-")
	if err != nil {
		return err
	}
	defer func() {
		if len(mountsBelow(tmp)) == 0 { // otherwise files in /dev and /sys of the host could be deleted
			_ = os.RemoveAll(tmp)
		}
	}()
	// apt runs as a separate user, which must be able to read its downloads.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	rootfs, extra := filepath.Join(tmp, "rootfs.tar"), filepath.Join(tmp, "extra.tar")
	packages := filepath.Join(tmp, "packages")
	if err := installRequirements(ctx, image, tmp, packages); err != nil {
		return err
	}
	if err := bootstrap(ctx, image, tmp, packages, rootfs); err != nil {
		return err
	}
	files := []file{{name: "usr/local/bin/python", link: "/usr/bin/python3"}}
	if image.Name == "" {
		digits, err := packageFile(ctx, tmp, trainingBase.DataFrom, trainingBase.DataPath)
		if err != nil {
			return err
		}
		files = append(files,
			file{name: "data/", mode: 0o755},
			file{name: "data/" + filepath.Base(trainingBase.DataPath), mode: 0o644, data: digits})
	}
	for name, text := range image.Files {
		files = append(files, file{name: name, mode: 0o755, data: []byte(text)})
	}
	if err := writeTar(extra, files...); err != nil {
		return err
	}
	config := trainingBase.Config
	config.Env = slices.Concat(config.Env, image.Env)
	if err := writeImage(path, image.tag(), config, rootfs, extra); err != nil {
		return err
	}
	return removeSuperseded(filepath.Dir(path), image.name())
}

// removeSuperseded removes the archives of older builds of an image from a folder, because an archive can have a
// gigabyte. It keeps the archives of current builds.
func removeSuperseded(folder, name string) error {
	var current []string
	for _, image := range trainingImages {
		file, err := image.file()
		if err != nil {
			return err
		}
		current = append(current, file)
	}
	files, _ := filepath.Glob(filepath.Join(folder, name+"-*.tar"))
	for _, f := range files {
		if !slices.Contains(current, filepath.Base(f)) {
			_ = os.Remove(f)
		}
	}
	return nil
}
