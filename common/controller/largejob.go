package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/memsize"
)

// Limits of the memory that tenants can use. Namespaces share largeJobMemory and podMemory: see package fair.
const (
	// maxCachedJob is the largest job that the cache holds completely, in bytes of memory. A job of 500 replicas with
	// ordinary templates has this size. Of a larger job the cache holds only the metadata, the phase and the progress.
	// Such a job is read from the API server when it is reconciled.
	maxCachedJob = 128 << 10
	// largeJobMemory limits the memory for large jobs that are reconciled at the same time, in bytes.
	largeJobMemory = 128 << 20
	// costOfLargeJob is the number of copies of a large job that a reconcile has in memory: as it was read, decoded, with
	// two statuses, and with a pod of the largest template.
	costOfLargeJob = 4
	// podMemory limits the memory for pods that are created at the same time, in bytes. A pod can be in memory three
	// times: as it was built, encoded, and as the API server returned it.
	podMemory = 32 << 20
)

// annotationSize holds the size of a job in memory, in bytes. Only large jobs in the cache have this annotation. If a
// user sets it, a small job is read like a large one.
const annotationSize = "batch.tensorstack.dev/size-in-memory"

// keysRead are the labels and annotations of a job that the controller reads: those of Kueue.
var keysRead = []string{
	kueuev1beta2.LabelQueueName, kueuev1beta2.LabelPriorityClass, kueuev1beta2.LabelMaxExecTime,
	kueuev1beta2.LabelMultiKueueOrigin, kueuev1beta2.PrebuiltWorkload, kueuev1beta2.AnnotationAdmissionGatedBy,
}

// maxValue limits the length of a label or annotation in the cache, in bytes.
const maxValue = 1 << 10

// onlyRead returns the labels or annotations that the controller reads.
func onlyRead(all map[string]string) map[string]string { return bounded.Pick(all, keysRead, maxValue) }

// CacheTransform returns a transform function for the cache of jobs. The function removes labels and annotations that
// the controller does not read. Of a large job it keeps only this metadata, the phase and the progress. The function is
// idempotent, because a cache transforms listed objects twice.
func CacheTransform[J framework.Job](f framework.Framework[J]) toolscache.TransformFunc {
	return func(object any) (any, error) {
		job, ok := object.(J)
		if !ok {
			return object, nil
		}
		measured := job.GetAnnotations()[annotationSize]
		job.SetManagedFields(nil)
		job.SetLabels(onlyRead(job.GetLabels()))
		annotations := onlyRead(job.GetAnnotations())
		job.SetAnnotations(annotations)
		size := memsize.Of(job)
		if size <= maxCachedJob {
			if _, err := parseSize(measured); err == nil {
				job.SetAnnotations(labels.Merge(annotations, map[string]string{annotationSize: measured}))
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
		kept.SetLabels(job.GetLabels())
		kept.SetAnnotations(labels.Merge(annotations, map[string]string{annotationSize: strconv.FormatInt(size, 10)}))
		kept.JobStatus().Phase = job.JobStatus().Phase
		kept.JobStatus().Progress = job.JobStatus().Progress
		return kept, nil
	}
}

// parseSize parses the value of annotationSize. No job in memory is larger than 2^39 bytes.
func parseSize(value string) (int64, error) { return strconv.ParseInt(value, 10, 40) }

// errNoMemory is returned for a large job that must wait until other large jobs were reconciled.
var errNoMemory = errors.New("too many large jobs are being reconciled")

// memoryDelay is the delay before a large job is reconciled again after errNoMemory. The worker is free meanwhile.
const memoryDelay = time.Second

// read reads a job from the cache, or from the API server if the job is large. It also reports whether the job is
// large. The caller must call release when it no longer needs the job. The error is errNoMemory if too many large jobs
// are being reconciled.
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
		return job, isLarge, release, fmt.Errorf("parsing annotation %s of the cached job: %w", annotationSize, err)
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

// sizeWithoutStatus returns the size of a job in the storage of the API server, in bytes and without the status.
func sizeWithoutStatus[J framework.Job](job J) int {
	status := *job.JobStatus()
	*job.JobStatus() = batchv1beta1.JobStatus{}
	content, err := json.Marshal(job)
	*job.JobStatus() = status
	if err != nil {
		return 0 // not possible, because the job was read from JSON
	}
	return len(content)
}
