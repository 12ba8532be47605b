// Package installed finds out which controllers of this project a cluster has, and whether their kinds have all
// fields that the client uses.
package installed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Controller is a controller of this project.
type Controller struct {
	// Name of the controller, such as pytorch-controller.
	Name string `json:"name"`
	// TestedVersion is the version of the controller that the client was tested with. Empty means that it is not known.
	TestedVersion string `json:"testedVersion,omitempty"`
	// Kinds are the kinds of the controller that the client uses.
	Kinds []Kind `json:"kinds"`
	// Deployments are the Deployments of the controller that the user may read.
	Deployments []Deployment `json:"deployments,omitempty"`
}

// Kind is a kind that the client uses.
type Kind struct {
	// APIVersion is the API version that the client uses.
	APIVersion string `json:"apiVersion"`
	// Kind is the name of the kind.
	Kind string `json:"kind"`
	// Served are the API versions in which the cluster has the kind. An empty list means that the kind is not installed.
	Served []string `json:"served,omitempty"`
	// MissingFields are the fields that the client knows, but the cluster does not know.
	MissingFields []string `json:"missingFields,omitempty"`
}

// Deployment is a Deployment of a controller.
type Deployment struct {
	// Namespace of the Deployment.
	Namespace string `json:"namespace"`
	// Version is the tag of the controller's image. Empty means that the image has no tag.
	Version string `json:"version,omitempty"`
}

// IsInstalled reports whether the cluster has a kind or a Deployment of the controller.
func (c Controller) IsInstalled() bool {
	return len(c.Deployments) > 0 || slices.ContainsFunc(c.Kinds, func(k Kind) bool { return len(k.Served) > 0 })
}

// ReleasedNamespace returns the namespace of the controller in the released manifests.
func (c Controller) ReleasedNamespace() string {
	return "t9k-" + strings.TrimSuffix(c.Name, "-controller")
}

// known has the kinds that the client uses, grouped by the module of their controller.
var known = append(ofJobs(), []types{
	{"tensorboard", map[schema.GroupVersionKind]any{
		tensorboardv1beta1.GroupVersion.WithKind("TensorBoard"): tensorboardv1beta1.TensorBoard{},
	}},
	{"scheduler", map[schema.GroupVersionKind]any{
		schedulerv1beta1.GroupVersion.WithKind("PodGroup"): schedulerv1beta1.PodGroup{},
		schedulerv1beta1.GroupVersion.WithKind("Queue"):    schedulerv1beta1.Queue{},
	}},
}...)

// types are the kinds of the controller in a module, with their Go types.
type types struct {
	module string
	kinds  map[schema.GroupVersionKind]any
}

// ofJobs returns the types of all job kinds.
func ofJobs() []types {
	var all []types
	for _, kind := range jobs.Kinds {
		all = append(all, types{kind.Framework(), map[schema.GroupVersionKind]any{kind.GroupVersionKind: kind.New()}})
	}
	return all
}

// Controllers returns all controllers. For each kind of a controller, the result has the API versions that the
// cluster serves, and the fields that the cluster lacks. Controllers reads the published schemas, which every user
// may read.
func Controllers(ctx context.Context, schemas openapi.ClientWithContext) ([]Controller, error) {
	served, err := servedKinds(ctx, schemas)
	if err != nil {
		return nil, fmt.Errorf("reading the kinds of the cluster: %w", err)
	}
	info, _ := debug.ReadBuildInfo() // every program that is built with modules has it
	controllers := make([]Controller, 0, len(known))
	for _, k := range known {
		c := Controller{Name: k.module + "-controller", TestedVersion: requiredVersion(info, k.module)}
		for gvk, object := range k.kinds {
			kind := Kind{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}
			for found, definition := range served {
				if found.GroupKind() != gvk.GroupKind() {
					continue
				}
				kind.Served = append(kind.Served, found.GroupVersion().String())
				if found == gvk {
					kind.MissingFields = missingFields(object, definition)
				}
			}
			slices.Sort(kind.Served)
			c.Kinds = append(c.Kinds, kind)
		}
		slices.SortFunc(c.Kinds, func(a, b Kind) int { return strings.Compare(a.Kind, b.Kind) })
		controllers = append(controllers, c)
	}
	return controllers, nil
}

// requiredVersion returns the version of the module with which a program was built. It is empty if the program does
// not contain the module, or was built in a working copy, in which the module has no version.
func requiredVersion(info *debug.BuildInfo, module string) string {
	for _, d := range info.Deps {
		if d.Path == "tensorstack.dev/jobs/"+module && d.Version != "(devel)" {
			return d.Version
		}
	}
	return ""
}

// servedKinds returns the schemas of all kinds that the cluster serves in the API group tensorstack.dev and the groups
// below it. All groups that the client uses are among them.
func servedKinds(
	ctx context.Context, schemas openapi.ClientWithContext,
) (map[schema.GroupVersionKind]*spec.Schema, error) {
	paths, err := schemas.PathsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	served := map[schema.GroupVersionKind]*spec.Schema{}
	for path, document := range paths { // a path is, for example, apis/batch.tensorstack.dev/v1beta1
		group, _, _ := strings.Cut(strings.TrimPrefix(path, "apis/"), "/")
		if !strings.HasSuffix("."+group, ".tensorstack.dev") || strings.Count(path, "/") != 2 {
			continue
		}
		content, err := document.SchemaWithContext(ctx, runtime.ContentTypeJSON)
		if err != nil {
			return nil, err
		}
		var parsed spec3.OpenAPI
		if err := json.Unmarshal(content, &parsed); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if parsed.Components == nil {
			continue
		}
		for _, definition := range parsed.Components.Schemas {
			var gvks []schema.GroupVersionKind
			// Types that are no kinds do not have the extension.
			if err := definition.Extensions.GetObject("x-kubernetes-group-version-kind", &gvks); err != nil || len(gvks) != 1 {
				continue
			}
			served[gvks[0]] = definition
		}
	}
	return served, nil
}

// AddDeployments adds its Deployments to each controller. A Deployment in the namespace of the released manifests
// comes first. If the user may not list the Deployments of all namespaces, AddDeployments adds only the Deployments
// in the given namespace, and returns the error of the API server.
func AddDeployments(ctx context.Context, reader client.Reader, namespace string, controllers []Controller) error {
	var found appsv1.DeploymentList
	ofProject := client.MatchingLabels{"app.kubernetes.io/part-of": "tensorstack-jobs"}
	err := reader.List(ctx, &found, ofProject)
	if apierrors.IsForbidden(err) && reader.List(ctx, &found, ofProject, client.InNamespace(namespace)) != nil {
		return err
	}
	for _, d := range found.Items {
		// The labels are not enough, since every user can create a Deployment with them. So the name of the ServiceAccount
		// must match, too.
		name := d.Spec.Template.Labels["app.kubernetes.io/name"]
		i := slices.IndexFunc(controllers, func(c Controller) bool { return c.Name == name })
		if i < 0 || d.Spec.Template.Spec.ServiceAccountName != name {
			continue
		}
		for _, container := range d.Spec.Template.Spec.Containers {
			if container.Name == "controller" {
				found := Deployment{Namespace: d.Namespace, Version: tagOf(container.Image)}
				controllers[i].Deployments = append(controllers[i].Deployments, found)
			}
		}
	}
	for _, c := range controllers {
		isOther := func(d Deployment) int {
			if d.Namespace == c.ReleasedNamespace() {
				return 0
			}
			return 1
		}
		slices.SortFunc(c.Deployments, func(a, b Deployment) int {
			return cmp.Or(isOther(a)-isOther(b), cmp.Compare(a.Namespace, b.Namespace))
		})
	}
	return err
}

// tag matches the part of an image's name after the last slash. The group of the expression is the tag of the image.
var tag = regexp.MustCompile(`^[^:@]*:([\w][\w.-]{0,127})(?:@.*)?$`)

// tagOf returns the tag of an image. It is empty if the image has no valid tag.
func tagOf(image string) string {
	if match := tag.FindStringSubmatch(image[strings.LastIndex(image, "/")+1:]); match != nil {
		return match[1]
	}
	return ""
}
