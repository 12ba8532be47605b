package preview

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"tensorstack.dev/jobs/cli/jobs"
)

// KindOf returns the kind of the job in a document, or nil if the document is of another kind. It returns an error if
// the document is of the API group of jobs, but this group does not have the kind or the version.
func KindOf(d Document) (*jobs.Kind, error) {
	isInGroup := false
	for _, kind := range jobs.Kinds {
		if kind.GroupVersionKind == d.Kind {
			return kind, nil
		}
		isInGroup = isInGroup || kind.Group == d.Kind.Group
	}
	if isInGroup {
		return nil, &meta.NoKindMatchError{GroupKind: d.Kind.GroupKind(), SearchedVersions: []string{d.Kind.Version}}
	}
	return nil, nil //nolint:nilnil // the document is of another kind
}

// Admit returns the job of the given kind in a document, with the defaults of the API server. It returns the error of
// the API server if the API server would reject the job. A job whose manifest names no namespace gets the given one. If
// isForced is true, Admit rejects a job whose manifest names another namespace.
func Admit(ctx context.Context, kind *jobs.Kind, d Document, namespace string, isForced bool) (jobs.Job, error) {
	if d.Namespace != "" && d.Namespace != namespace {
		if isForced { // kubectl returns the same error
			return jobs.Job{}, fmt.Errorf("the namespace from the provided object %q does not match the namespace %q. "+
				"You must pass '--namespace=%s' to perform this operation", d.Namespace, namespace, d.Namespace)
		}
		namespace = d.Namespace
	}
	definition, err := kind.Definition()
	if err != nil {
		return jobs.Job{}, err
	}
	object, err := definition.Create(ctx, namespace, d.Content)
	if err != nil {
		return jobs.Job{}, err
	}
	job := jobs.Job{Job: kind.New(), Kind: kind}
	return job, runtime.DefaultUnstructuredConverter.FromUnstructured(object, job.Job)
}
