package observe

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/common/framework"
)

// Jobs follows the jobs of several kinds with watches.
type Jobs struct {
	namespace string
	changes   chan struct{}
	kinds     []*jobs.Kind
	jobs      []*collection[framework.Job]
}

// FollowAll follows the jobs of the given kinds until the context ends, with the rights of the client. It ignores
// kinds that the cluster does not serve, and returns jobs.ErrNoKinds if the cluster serves none of them. Unless
// withReplicas is true, FollowAll removes the replicas from the status of each job, since the replicas need most of
// the memory.
func FollowAll(
	ctx context.Context, from client.WithWatch, kinds []*jobs.Kind, options client.ListOptions, withReplicas bool,
) (*Jobs, error) {
	j := &Jobs{namespace: options.Namespace, changes: make(chan struct{}, 1)}
	for _, kind := range kinds {
		_, err := from.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		j.kinds = append(j.kinds, kind)
		j.jobs = append(j.jobs, newCollection(func(o client.Object) (framework.Job, bool) {
			job, ok := o.(framework.Job)
			o.SetManagedFields(nil)
			if ok && !withReplicas {
				job.JobStatus().Tasks = nil
			}
			return job, ok
		}, func() { signal(j.changes) }))
	}
	if len(j.kinds) == 0 {
		return nil, jobs.ErrNoKinds
	}
	for i, kind := range j.kinds {
		go j.jobs[i].follow(ctx, from, kind.NewList(), options)
	}
	return j, nil
}

// Changes returns a channel that receives a value after changes. One value can stand for several changes.
func (j *Jobs) Changes() <-chan struct{} { return j.changes }

// Snapshot returns the latest known state of the jobs. It returns false until the jobs of each kind have been
// requested once, whether the request succeeded or failed. It returns an error if the user may watch none of the
// kinds.
func (j *Jobs) Snapshot() (screen.Jobs, bool, error) {
	s := screen.Jobs{Namespace: j.namespace}
	var forbidden []error
	isReady := true
	for i, kind := range j.kinds {
		found, isListed, err := j.jobs[i].read()
		isReady = isReady && (isListed || err != nil)
		for _, job := range found {
			s.Items = append(s.Items, jobs.Job{Job: job, Kind: kind})
		}
		switch {
		case apierrors.IsForbidden(err):
			s.Missing = append(s.Missing, missing(kind.Resource))
			forbidden = append(forbidden, err)
		case apierrors.IsNotFound(err): // the cluster does not serve the kind anymore
		case err != nil:
			s.Trouble = err.Error()
		}
	}
	slices.SortFunc(s.Items, jobs.Compare)
	if len(forbidden) == len(j.kinds) {
		return s, true, utilerrors.NewAggregate(forbidden)
	}
	return s, isReady, nil
}
