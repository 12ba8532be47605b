// Package jobs finds and reads jobs of all kinds.
package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/deepspeed"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	deepspeedconfig "tensorstack.dev/jobs/deepspeed/config"
	"tensorstack.dev/jobs/pytorch"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	pytorchconfig "tensorstack.dev/jobs/pytorch/config"
	"tensorstack.dev/jobs/tensorflow"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
	tensorflowconfig "tensorstack.dev/jobs/tensorflow/config"
)

// Kind is a job kind.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural name of the resource, and ShortName is its short name.
	Resource, ShortName string
	// Controller is the name of the controller of this kind, such as pytorch-controller.
	Controller string
	// New returns an empty job.
	New func() framework.Job
	// Spec returns the spec of a job of this kind in the form that all kinds share.
	Spec func(framework.Job) framework.JobSpec
	// MainContainers are the names that mark the main container of a template, in order of preference.
	MainContainers []string
	// CRD is the manifest of the CustomResourceDefinition. Manifests are the manifests of the controller.
	CRD, Manifests []byte
	// NewList returns an empty list of jobs.
	NewList func() client.ObjectList

	preview     previewer
	isKindOf    func(framework.Job) bool
	addToScheme func(*runtime.Scheme) error
}

// Kinds are all job kinds.
var Kinds = []*Kind{
	kindOf(pytorchv1beta1.GroupVersion.WithKind("PyTorchTrainingJob"), "ptjob", pytorch.Controller(),
		&pytorchv1beta1.PyTorchTrainingJobList{}, pytorchconfig.CRD, pytorchconfig.Controller),
	kindOf(tensorflowv1beta1.GroupVersion.WithKind("TensorFlowTrainingJob"), "tfjob", tensorflow.Controller(),
		&tensorflowv1beta1.TensorFlowTrainingJobList{}, tensorflowconfig.CRD, tensorflowconfig.Controller),
	kindOf(deepspeedv1beta1.GroupVersion.WithKind("DeepSpeedJob"), "dsjob", deepspeed.Controller(),
		&deepspeedv1beta1.DeepSpeedJobList{}, deepspeedconfig.CRD, deepspeedconfig.Controller),
}

// kindOf returns the kind of the jobs that a controller runs.
func kindOf[J framework.Job](
	gvk schema.GroupVersionKind, shortName string, controller manager.Controller[J], list client.ObjectList,
	crd, manifests []byte,
) *Kind {
	return &Kind{
		GroupVersionKind: gvk,
		Resource:         strings.ToLower(gvk.Kind) + "s",
		ShortName:        shortName,
		Controller:       controller.Name,
		New:              func() framework.Job { return controller.Framework.NewJob() },
		Spec: func(job framework.Job) framework.JobSpec {
			return controller.Framework.JobSpec(job.(J)) //nolint:forcetypeassert // the caller passes a job of this kind
		},
		MainContainers: controller.Framework.MainContainers(),
		CRD:            crd,
		Manifests:      manifests,
		preview:        previewerOf(gvk, controller),
		isKindOf: func(job framework.Job) bool {
			_, ok := job.(J)
			return ok
		},
		NewList: func() client.ObjectList {
			return list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy has the same type
		},
		addToScheme: controller.AddToScheme,
	}
}

// KindOf returns the kind of a job, or nil if the Go type of the job belongs to no job kind.
func KindOf(job framework.Job) *Kind {
	for _, kind := range Kinds {
		if kind.isKindOf(job) {
			return kind
		}
	}
	return nil
}

// KindNamed returns the kind with the given name, or nil. Like kubectl, it accepts the kind, the plural and the short
// name, and also the plural and the singular with the group. It ignores the case of letters.
func KindNamed(name string) *Kind {
	name = strings.ToLower(name)
	for _, kind := range Kinds {
		singular := strings.ToLower(kind.Kind)
		if slices.Contains([]string{
			kind.ShortName, singular, kind.Resource, singular + "." + kind.Group, kind.Resource + "." + kind.Group,
		}, name) {
			return kind
		}
	}
	return nil
}

// CheckServed returns an error if the cluster does not serve the kind, or cannot be reached.
func (k *Kind) CheckServed(mapper meta.RESTMapper) error {
	_, err := mapper.RESTMapping(k.GroupKind(), k.Version)
	if meta.IsNoMatchError(err) {
		return k.notServed()
	}
	return err
}

// notServed returns the error about a kind that the cluster does not serve.
func (k *Kind) notServed() error {
	return fmt.Errorf("the cluster has no %s: ask an administrator to install its controller", k.Resource)
}

// ShortNames returns the short names of all kinds.
func ShortNames() []string {
	names := make([]string, 0, len(Kinds))
	for _, kind := range Kinds {
		names = append(names, kind.ShortName)
	}
	return names
}

// NoKindError returns the error about a name that is no job kind.
func NoKindError(name string) error {
	names := ShortNames()
	last := len(names) - 1
	return fmt.Errorf("%q is no job kind: use %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

// Scheme returns a scheme with the types of Kubernetes and of all job kinds.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	errs := []error{clientgoscheme.AddToScheme(scheme)}
	for _, kind := range Kinds {
		errs = append(errs, kind.addToScheme(scheme))
	}
	return scheme, errors.Join(errs...)
}
