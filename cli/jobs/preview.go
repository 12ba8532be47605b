package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/network"
)

// Installation has the settings with which a job controller is installed. The objects that the controller creates
// depend on them.
type Installation struct {
	// Image is the image of the controller. The containers that the controller adds to pods run the same image.
	Image string
	// Namespace is the namespace of the controller.
	Namespace string
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local.
	ClusterDomain string
	// HelperResources are the requests and limits of containers that the controller adds and that cannot have the
	// resources of the main container.
	HelperResources corev1.ResourceList
	// HoldLeaders reports whether the pods of leaders have a finalizer.
	HoldLeaders bool
	// NetworkPolicies are the settings of the NetworkPolicies of jobs.
	NetworkPolicies network.Policies
}

// Released returns the settings of an installation with the released manifests of the controller.
func (k *Kind) Released() (Installation, error) {
	released := Installation{
		ClusterDomain: "cluster.local", HelperResources: controller.DefaultOptions().HelperResources,
	}
	for decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader(k.Manifests)); ; {
		var manifest appsv1.Deployment
		err := decoder.Decode(&manifest)
		switch {
		case errors.Is(err, io.EOF):
			return released, nil
		case err != nil:
			return released, fmt.Errorf("reading the manifests of the controller of %ss: %w", k.Kind, err)
		case manifest.Kind == "Namespace":
			released.Namespace = manifest.Name
		case manifest.Kind == "Deployment":
			for _, c := range manifest.Spec.Template.Spec.Containers {
				released.Image = c.Image
			}
		}
	}
}

// Preview returns the objects that the controller would create for the job if the job were new.
func (j Job) Preview(installed Installation) (controller.Preview, error) {
	options := controller.DefaultOptions()
	options.Image, options.ClusterDomain = installed.Image, installed.ClusterDomain
	options.HelperResources = installed.HelperResources
	options.HoldLeaders, options.NetworkPolicies = installed.HoldLeaders, installed.NetworkPolicies
	return j.Kind.preview(j.Job, options, installed.Namespace)
}

// previewer returns the objects that the controller of a kind creates for a job of this kind. The parameter namespace
// is the namespace of the controller.
type previewer func(job framework.Job, options controller.Options, namespace string) (controller.Preview, error)

// previewerOf returns the previewer of the jobs that a controller runs.
func previewerOf[J framework.Job](gvk schema.GroupVersionKind, c framework.Controller[J]) previewer {
	return func(job framework.Job, options controller.Options, namespace string) (controller.Preview, error) {
		options.ProgressReader = network.ControllerPods(namespace, c.Name)
		//nolint:forcetypeassert // the caller passes a job of this kind
		return controller.NewPreview(c.Framework, gvk, job.(J), options)
	}
}
