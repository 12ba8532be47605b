package kueue

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/bounded"
)

// IsCopy reports whether MultiKueue has created the job as a copy of a job of another cluster.
func IsCopy(job metav1.Object) bool {
	return job.GetLabels()[kueuev1beta2.LabelMultiKueueOrigin] != "" && Prebuilt(job) != ""
}

// Prebuilt returns the name of the Workload that was created before the job, or an empty string if the job names
// none.
func Prebuilt(job metav1.Object) string {
	return cmp.Or(job.GetAnnotations()[kueuev1beta2.PrebuiltWorkload], job.GetLabels()[kueuev1beta2.PrebuiltWorkload])
}

// maxParameters is the maximum number of annotations of a job that become parameters of admission checks.
// maxParameter is the maximum length of the value of a parameter, in bytes. A ProvisioningRequest accepts values of
// up to 255 characters.
const (
	maxParameters = 16
	maxParameter  = 255
)

// Parameters returns the annotations of a job that become parameters of its ProvisioningRequests. If there are more
// than 16, it returns the first 16 by name. It truncates the values to 255 bytes. It returns nil if there are none.
func Parameters(annotations map[string]string) map[string]string {
	var names []string
	for name := range annotations {
		if strings.HasPrefix(name, kueuev1beta2.PrefixParameter) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return bounded.Pick(annotations, names[:min(len(names), maxParameters)], maxParameter)
}

// MaxTime returns how long a Workload of the job can be admitted, in seconds. Nil means no limit.
func MaxTime(job metav1.Object) *int32 {
	seconds, err := strconv.ParseInt(job.GetLabels()[kueuev1beta2.LabelMaxExecTime], 10, 32)
	if err != nil || seconds <= 0 {
		return nil
	}
	return new(int32(seconds))
}
