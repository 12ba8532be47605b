package view

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// unrecorded returns the number of restarts in place in a reading of a pod that are not recorded. The count of a pod
// never decreases, so what is recorded for the pod is never counted again.
func unrecorded(recorded *batchv1beta1.RestartsInPlace, pod types.UID, reading Reading) int32 {
	if known := ptr.Deref(recorded, batchv1beta1.RestartsInPlace{}); known.PodUID == pod {
		return max(0, reading.Restarts-known.AttemptCount)
	}
	return reading.Restarts
}

// NewRestartsInPlace returns the recorded restarts in place with those that the current pod of the leader has counted
// since, and the number of the latter. If this number is 0, the result is nil.
func (v *View) NewRestartsInPlace() (all *batchv1beta1.RestartsInPlace, added int32) {
	if !v.Job.Spec.RestartsInPlace || len(v.Replicas) == 0 || !v.Replicas[0].IsCurrent() {
		return nil, 0
	}
	pod, recorded := v.Replicas[0].Pod.UID, v.Job.Status.RestartsInPlace
	reading := v.ReadingOf(v.Replicas[0])
	if added = unrecorded(recorded, pod, reading); added == 0 {
		return nil, 0
	}
	known := ptr.Deref(recorded, batchv1beta1.RestartsInPlace{})
	last := slices.Concat(reading.LastRestarts[:min(len(reading.LastRestarts), int(added))], known.Last)
	all = &batchv1beta1.RestartsInPlace{
		Count: known.Count + min(added, math.MaxInt32-known.Count), AttemptCount: reading.Restarts, PodUID: pod,
		Last: last[:min(len(last), batchv1beta1.KeptRestartsInPlace)],
	}
	return all.DeepCopy(), added
}
