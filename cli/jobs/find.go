package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/common/framework"
)

// Job is a job of any kind.
type Job struct {
	framework.Job
	Kind *Kind
	// Flags are the flags by which the user has selected the cluster and the namespace, such as "-n vision".
	Flags string
}

// Ref returns the job as the user types it, such as ptjob/digits.
func (j Job) Ref() string { return j.Kind.ShortName + "/" + j.GetName() }

// Typed returns the arguments with which the user selects the job in a command: Ref and Flags.
func (j Job) Typed() string { return strings.TrimSpace(j.Ref() + " " + j.Flags) }

// Spec returns the spec of the job in the form that all kinds share.
func (j Job) Spec() framework.JobSpec { return j.Kind.Spec(j.Job) }

// ErrNoKinds means that the cluster serves none of the job kinds.
var ErrNoKinds = errors.New("the cluster has none of the job kinds: ask an administrator to install a controller, " +
	"such as the pytorch-controller")

// Find returns the job with the given name in a namespace. The name can have the kind as a prefix, as in
// ptjob/digits. Without a prefix, Find returns an error if jobs of several kinds have the name. It also returns an
// error that names the problem if there is no such job, if the user may not read jobs, or if the cluster does not
// serve the kinds.
func Find(ctx context.Context, reader client.Reader, namespace, name string) (Job, error) {
	kinds := Kinds
	if prefix, rest, ok := strings.Cut(name, "/"); ok {
		kind := KindNamed(prefix)
		if kind == nil {
			return Job{}, NoKindError(prefix)
		}
		kinds, name = []*Kind{kind}, rest
	}
	var found []Job
	var errs []error
	served := false
	for _, kind := range kinds {
		job := kind.New()
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job)
		served = served || !meta.IsNoMatchError(err)
		switch {
		case err == nil:
			found = append(found, Job{Job: job, Kind: kind})
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			errs = append(errs, err)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		refs := make([]string, 0, len(found))
		for _, job := range found {
			refs = append(refs, job.Ref())
		}
		return Job{}, fmt.Errorf("namespace %s has several jobs named %q: use one of %s",
			namespace, name, strings.Join(refs, ", "))
	case len(errs) > 0:
		return Job{}, utilerrors.NewAggregate(errs)
	case !served && len(kinds) == 1:
		return Job{}, kinds[0].notServed()
	case !served:
		return Job{}, ErrNoKinds
	}
	return Job{}, fmt.Errorf("namespace %s has no job %q: kubectl train list shows the jobs", namespace, name)
}

// List returns the jobs of the given kinds, sorted by namespace, kind and name. It ignores kinds that the cluster
// does not serve, and returns ErrNoKinds if the cluster serves none of them. If the jobs of a kind cannot be read,
// List returns the other jobs and an error.
func List(ctx context.Context, reader client.Reader, kinds []*Kind, options ...client.ListOption) ([]Job, error) {
	var found []Job
	var errs []error
	served := false
	for _, kind := range kinds {
		list := kind.NewList()
		err := reader.List(ctx, list, options...)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // the discovery cache of kubectl can still have the kind
			continue
		}
		served = true
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, meta.EachListItem(list, func(item runtime.Object) error {
			found = append(found, Job{Job: item.(framework.Job), Kind: kind}) //nolint:forcetypeassert // a list of jobs
			return nil
		}))
	}
	if !served {
		return nil, ErrNoKinds
	}
	slices.SortStableFunc(found, Compare)
	return found, utilerrors.NewAggregate(errs)
}

// Compare compares jobs by namespace, kind and name.
func Compare(a, b Job) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.Ref(), b.Ref()))
}
