package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/network"
)

// Released returns the options of a controller that is installed with its released manifests.
func (k *Kind) Released() (controller.Options, error) {
	released := controller.DefaultOptions()
	released.ClusterDomain = "cluster.local"
	for decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader(k.Manifests)); ; {
		var manifest appsv1.Deployment
		err := decoder.Decode(&manifest)
		switch {
		case errors.Is(err, io.EOF):
			return released, nil
		case err != nil:
			return released, fmt.Errorf("reading the manifests of the controller of %ss: %w", k.Kind, err)
		case manifest.Kind == "Namespace":
			released.ProgressReader = network.ControllerPods(manifest.Name, k.Controller)
		case manifest.Kind == "Deployment":
			for _, c := range manifest.Spec.Template.Spec.Containers {
				released.Image = c.Image
			}
		}
	}
}

// Preview returns the objects that a controller with the given options would create for the job if the job were new.
func (j Job) Preview(o controller.Options) (controller.Preview, error) {
	return j.Kind.preview(j.Job, o)
}

// previewer returns the objects that the controller of a kind creates for a job of this kind.
type previewer func(job framework.Job, options controller.Options) (controller.Preview, error)

// previewerOf returns the previewer of the jobs that a controller runs.
func previewerOf[J framework.Job](gvk schema.GroupVersionKind, c framework.Controller[J]) previewer {
	return func(job framework.Job, options controller.Options) (controller.Preview, error) {
		//nolint:forcetypeassert // the caller passes a job of this kind
		return controller.NewPreview(c.Framework, gvk, job.(J), options)
	}
}
