package localcluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// TrainingFrameworks returns the names of the frameworks that have a training image, and "tensorboard".
func TrainingFrameworks() []string {
	var names []string
	for _, image := range trainingImages {
		if !slices.Contains(names, image.Framework) {
			names = append(names, image.Framework)
		}
	}
	return names
}

// TrainingImages builds the training images of the named frameworks and loads them into the real node. A name can be
// followed by a colon and a version. Without a version, the name means the newest version. Without names,
// TrainingImages builds the newest image of each framework. It does not build images that are cached, and does not
// load images that the node has already. If the nodes are simulated, it does nothing.
func (c *Cluster) TrainingImages(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		names = TrainingFrameworks()
	}
	images, err := trainingImagesOf(names)
	if err != nil {
		return err
	}
	kind, err := c.NodeKind()
	if err != nil {
		return err
	}
	if kind == Simulated {
		c.Progress.Printf("the nodes are simulated: there is nothing to build or load")
		return nil
	}
	return c.eachTrainingImage(ctx, images, c.loadTrainingImage)
}

// trainingImagesOf returns the images of the named frameworks. The names have the format that TrainingImages
// describes. trainingImagesOf returns an error for an unknown framework or version.
func trainingImagesOf(names []string) ([]trainingImage, error) {
	var images []trainingImage
	for _, name := range names {
		framework, version, hasVersion := strings.Cut(name, ":")
		i := slices.IndexFunc(trainingImages, func(image trainingImage) bool {
			return image.Framework == framework && (!hasVersion || image.Version == version)
		})
		if i < 0 {
			var known []string
			for _, image := range trainingImages {
				known = append(known, image.Framework+":"+image.Version)
			}
			return nil, fmt.Errorf("there is no training image for %q, only for %s", name, strings.Join(known, ", "))
		}
		images = append(images, trainingImages[i])
	}
	return images, nil
}

// eachTrainingImage builds images, unless they are cached, and calls the function do with the path of each archive.
// It builds two images at a time, because builds spend much time on downloads.
func (c *Cluster) eachTrainingImage(
	ctx context.Context, images []trainingImage, do func(ctx context.Context, image trainingImage, path string) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, image := range images {
		group.Go(func() error {
			path, unlock, err := c.buildTrainingImage(ctx, image)
			if err != nil {
				return err
			}
			defer unlock()
			return do(ctx, image, path)
		})
	}
	return group.Wait()
}

// loadTrainingImage loads the archive of an image into the real node, unless the node has the image.
func (c *Cluster) loadTrainingImage(ctx context.Context, image trainingImage, path string) error {
	tag := image.tag()
	loaded := c.Paths.state("containerd", unpackedMarks, filepath.Base(path))
	if exists(loaded) && c.hasImage(ctx, "docker.io/"+tag) {
		c.Progress.Printf("%s is already loaded", tag)
		return nil
	}
	if err := c.Progress.Step("load "+tag, func() error { return c.importImage(ctx, path) }); err != nil {
		return err
	}
	if err := removeSuperseded(filepath.Dir(loaded), image.name()); err != nil {
		return err
	}
	return writeFile(loaded, nil)
}
