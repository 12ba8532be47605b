// Package jobs finds and reads jobs of all kinds.
package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/crd"
	"tensorstack.dev/jobs/common/framework"
)

// Kind is a job kind.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural name of the resource. ShortName is the short name of the resource or, without a short name,
	// the singular name.
	Resource, ShortName string
	// Controller is the name of the controller of this kind, such as pytorch-controller.
	Controller string
	// New returns an empty job.
	New func() framework.Job
	// Spec returns the spec of a job of this kind in the form that all kinds share.
	Spec func(framework.Job) framework.JobSpec
	// MainContainers are the names that mark the main container of a template, in order of preference.
	MainContainers []string
	// Definition returns the CustomResourceDefinition, which it parses at the first call.
	Definition func() (*crd.Definition, error)
	// Manifests are the manifests of the controller.
	Manifests []byte
	// Trainings makes jobs from Python programs. Nil means that the kind has no such jobs.
	Trainings *Trainings
	// NewList returns an empty list of jobs.
	NewList func() client.ObjectList

	preview     previewer
	isKindOf    func(framework.Job) bool
	addToScheme func(*runtime.Scheme) error
}

// Trainings makes jobs of a kind from Python programs. See framework.TrainingFramework.
type Trainings struct {
	MaxProcesses int32
	CanScale     bool
	New          func(framework.Training) framework.Job
}

// kindOf returns the kind of the jobs that a controller runs. It panics if the manifest of the CRD or the scheme does
// not have the kind.
func kindOf[J framework.Job](controller framework.Controller[J], definition, manifests []byte) *Kind {
	names, err := namesOf(definition)
	if err != nil {
		panic(fmt.Errorf("the CRD of %s: %w", controller.Name, err))
	}
	scheme := runtime.NewScheme()
	if err := controller.AddToScheme(scheme); err != nil {
		panic(fmt.Errorf("the scheme of %s: %w", controller.Name, err))
	}
	gvks, _, err := scheme.ObjectKinds(controller.Framework.NewJob())
	if err != nil {
		panic(fmt.Errorf("the scheme of %s: %w", controller.Name, err))
	}
	k := &Kind{
		GroupVersionKind: gvks[0],
		Resource:         names.Plural,
		ShortName:        append(names.ShortNames, names.Singular)[0],
		Controller:       controller.Name,
		New:              func() framework.Job { return controller.Framework.NewJob() },
		Spec: func(job framework.Job) framework.JobSpec {
			return controller.Framework.JobSpec(job.(J)) //nolint:forcetypeassert // the caller passes a job of this kind
		},
		MainContainers: controller.Framework.MainContainers(),
		Definition:     sync.OnceValues(func() (*crd.Definition, error) { return crd.Parse(definition) }),
		Manifests:      manifests,
		preview:        previewerOf(gvks[0], controller),
		isKindOf: func(job framework.Job) bool {
			_, ok := job.(J)
			return ok
		},
		NewList: func() client.ObjectList {
			list, err := scheme.New(gvks[0].GroupVersion().WithKind(names.ListKind))
			if err != nil {
				panic(err) // cannot happen: all kinds have lists
			}
			return list.(client.ObjectList) //nolint:forcetypeassert // it is the list of a kind
		},
		addToScheme: controller.AddToScheme,
	}
	if trainings, ok := controller.Framework.(framework.TrainingFramework[J]); ok {
		k.Trainings = &Trainings{
			MaxProcesses: trainings.MaxProcesses(), CanScale: trainings.CanScale(),
			New: func(t framework.Training) framework.Job { return trainings.NewTraining(t) },
		}
	}
	return k
}

// names are names of a kind.
type names struct {
	Plural, Singular, ListKind string
	ShortNames                 []string
}

// namesOf returns the names in the manifest of a CRD. In a manifest of controller-gen, the names come before the
// schema, so namesOf does not parse the long schema.
func namesOf(definition []byte) (names, error) {
	begin, _, _ := bytes.Cut(definition, []byte("\n  scope:"))
	var found struct{ Spec struct{ Names names } }
	err := yaml.Unmarshal(begin, &found)
	if err == nil && found.Spec.Names.Singular == "" {
		err = errors.New("it has no names before the scope")
	}
	return found.Spec.Names, err
}

// Framework returns the name of the framework of the kind, such as pytorch.
func (k *Kind) Framework() string { return strings.TrimSuffix(k.Controller, "-controller") }

// Frameworks returns the names of the frameworks of all kinds, in the order of Kinds.
func Frameworks() []string {
	names := make([]string, 0, len(Kinds))
	for _, kind := range Kinds {
		names = append(names, kind.Framework())
	}
	return names
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

// Described returns the names of all kinds with their short names, for a sentence.
func Described() string {
	var names []string
	for _, kind := range Kinds {
		names = append(names, kind.Kind+" ("+kind.ShortName+")")
	}
	return Listed(names, "and")
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
	return fmt.Errorf("%q is no job kind: use %s", name, Listed(ShortNames(), "or"))
}

// Listed joins names with commas, and the last two with a word.
func Listed(names []string, word string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
}

// Scheme returns a scheme with the types of Kubernetes, of Kueue and of all job kinds.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	errs := []error{clientgoscheme.AddToScheme(scheme), kueuev1beta2.AddToScheme(scheme)}
	for _, kind := range Kinds {
		errs = append(errs, kind.addToScheme(scheme))
	}
	return scheme, errors.Join(errs...)
}
