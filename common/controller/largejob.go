package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/memsize"
)

// The memory for what tenants choose. A share of it goes to each namespace: see package fair.
const (
	// maxCachedJob is the largest job that the cache holds whole, in bytes of memory: a job of 500 replicas with ordinary
	// templates. The cache holds the metadata and the phase of a larger one, which is read from the API server when it is
	// reconciled.
	maxCachedJob = 128 << 10
	// largeJobMemory is for the large jobs that are reconciled at the same time, in bytes.
	largeJobMemory = 128 << 20
	// costOfLargeJob is how often a large job is in memory while it is reconciled: as it was read, decoded, with two
	// statuses, and with a pod of the largest template.
	costOfLargeJob = 4
	// podMemory is for the pods that are created at the same time, in bytes. Each may be in memory three times: as it was
	// built, encoded, and as the API server returned it.
	podMemory = 32 << 20
)

// annotationSize has the size of a job in memory, in bytes. Large jobs have it in the cache, and nowhere else. A user
// who sets it has a small job read like a large one.
const annotationSize = "batch.tensorstack.dev/size-in-memory"

// CacheTransform returns the function that makes of a job what the cache holds. It keeps no labels and no annotations
// of users, which nobody reads, and of a large job only metadata and the phase. A cache transforms the objects of a
// list twice, so that the result of the function stays as it is.
func CacheTransform[J framework.Job](f framework.Framework[J]) toolscache.TransformFunc {
	return func(object any) (any, error) {
		job, ok := object.(J)
		if !ok {
			return object, nil
		}
		measured := job.GetAnnotations()[annotationSize]
		job.SetManagedFields(nil)
		job.SetAnnotations(nil)
		job.SetLabels(nil)
		size := memsize.Of(job)
		if size <= maxCachedJob {
			if _, err := parseSize(measured); err == nil {
				job.SetAnnotations(map[string]string{annotationSize: measured})
			}
			return job, nil
		}
		kept := f.NewJob()
		kept.SetNamespace(job.GetNamespace())
		kept.SetName(job.GetName())
		kept.SetUID(job.GetUID())
		kept.SetResourceVersion(job.GetResourceVersion())
		kept.SetGeneration(job.GetGeneration())
		kept.SetCreationTimestamp(job.GetCreationTimestamp())
		kept.SetDeletionTimestamp(job.GetDeletionTimestamp())
		kept.SetAnnotations(map[string]string{annotationSize: strconv.FormatInt(size, 10)})
		kept.JobStatus().Phase = job.JobStatus().Phase
		return kept, nil
	}
}

// parseSize returns the value of annotationSize. Nothing that is in memory has more than 40 bits of bytes.
func parseSize(value string) (int64, error) { return strconv.ParseInt(value, 10, 40) }

// errNoMemory is the error of a large job that has to wait until others are done.
var errNoMemory = errors.New("too many large jobs are reconciled")

// memoryDelay is how long a large job waits before it is tried again. No worker waits with it.
const memoryDelay = time.Second

// read reads a job: from the cache, or a large one from the API server. The caller calls release when it no longer
// needs the job. It reports whether the job is large. The error is errNoMemory if too many large jobs are reconciled.
func (r *Reconciler[J]) read(
	ctx context.Context, key client.ObjectKey,
) (job J, isLarge bool, release func(), err error) {
	release = func() {}
	job = r.framework.NewJob()
	if err := r.client.Get(ctx, key, job); err != nil {
		return job, false, release, err
	}
	size, isLarge := job.GetAnnotations()[annotationSize]
	if !isLarge {
		return job, isLarge, release, nil
	}
	bytes, err := parseSize(size)
	if err != nil {
		return job, isLarge, release, fmt.Errorf("reading the size of a job that the cache holds: %w", err)
	}
	memory := bytes * costOfLargeJob
	if !r.largeJobs.TryAcquire(key.Namespace, memory) {
		return job, isLarge, release, errNoMemory
	}
	job = r.framework.NewJob()
	if err := r.apiReader.Get(ctx, key, job); err != nil {
		r.largeJobs.Release(key.Namespace, memory)
		return job, isLarge, release, err
	}
	return job, isLarge, func() { r.largeJobs.Release(key.Namespace, memory) }, nil
}

// sizeWithoutStatus returns how many bytes the API server stores of a job that it returned, besides the status.
func sizeWithoutStatus[J framework.Job](job J) int {
	status := *job.JobStatus()
	*job.JobStatus() = batchv1beta1.JobStatus{}
	content, err := json.Marshal(job)
	*job.JobStatus() = status
	if err != nil {
		return 0 // it was read from JSON
	}
	return len(content)
}
