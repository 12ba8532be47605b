package controller

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kueue"
	"tensorstack.dev/jobs/common/large"
	"tensorstack.dev/jobs/common/memsize"
)

// Limits of the memory that tenants can use. Namespaces share largeJobMemory and podMemory: see package fair.
const (
	// maxCachedJob is the size of the largest job that the cache holds completely, in bytes of memory. A job of 500
	// replicas with ordinary templates has this size. Of a larger job, the cache holds only the metadata, the phase and
	// the progress. The controller reads such a job from the API server when it reconciles the job.
	maxCachedJob = 128 << 10
	// maxProgress is the size of the largest progress that the cache keeps for a large job, in bytes of memory. The
	// progress that the controller writes into the status is always smaller.
	maxProgress = 16 << 10
	// largeJobMemory is the maximum memory, in bytes, for all large jobs that are reconciled at the same time.
	largeJobMemory = 128 << 20
	// costOfLargeJob is the memory that a reconcile of a large job needs, in multiples of the size of the job. It has
	// room for the response of the API server, the decoded job, two statuses, and a pod of the largest template.
	costOfLargeJob = 4
	// podMemory is the maximum memory, in bytes, for all pods that are created at the same time. A pod can be in memory
	// three times: as it was built, encoded, and as the API server returned it.
	podMemory = 32 << 20
)

// keysRead are the keys of the labels and annotations of a job that the controller reads, except the annotations with
// kueuev1beta2.PrefixParameter. All of them belong to Kueue.
var keysRead = []string{
	kueuev1beta2.LabelQueueName, kueuev1beta2.LabelPriorityClass, kueuev1beta2.LabelMaxExecTime,
	kueuev1beta2.LabelMultiKueueOrigin, kueuev1beta2.PrebuiltWorkload, kueuev1beta2.AnnotationAdmissionGatedBy,
}

// maxValue is the maximum length, in bytes, of the value that the cache keeps for a key in keysRead.
const maxValue = 1 << 10

// onlyRead returns the labels or annotations that the controller reads.
func onlyRead(all map[string]string) map[string]string {
	kept := bounded.Pick(all, keysRead, maxValue)
	if parameters := kueue.Parameters(all); parameters != nil {
		kept = labels.Merge(kept, parameters)
	}
	return kept
}

// CacheTransform returns a transform function for the cache of jobs. The function removes the labels and annotations
// that the controller does not read. Of a large job, it keeps only the other metadata, the phase and the progress.
// The function is idempotent, because a cache transforms listed objects twice.
func CacheTransform[J framework.Job](f framework.Framework[J]) toolscache.TransformFunc {
	return large.Kind[J]{
		Most: maxCachedJob,
		New:  f.NewJob,
		Strip: func(job J) {
			job.SetManagedFields(nil)
			job.SetLabels(onlyRead(job.GetLabels()))
			job.SetAnnotations(onlyRead(job.GetAnnotations()))
		},
		Keep: func(into, from J) {
			into.JobStatus().Phase = from.JobStatus().Phase
			if progress := from.JobStatus().Progress; memsize.Of(progress) <= maxProgress {
				into.JobStatus().Progress = progress
			}
		},
	}.Transform
}

// sizeWithoutStatus returns the number of bytes that a job takes in the storage of the API server, without its
// status.
func sizeWithoutStatus[J framework.Job](job J) int {
	status := *job.JobStatus()
	*job.JobStatus() = batchv1beta1.JobStatus{}
	content, err := json.Marshal(job)
	*job.JobStatus() = status
	if err != nil {
		return 0 // not possible: a job that was read from JSON can be written as JSON
	}
	return len(content)
}
