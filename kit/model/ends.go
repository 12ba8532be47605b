package model

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// CleanUp sets the cleanUpPolicy.
func CleanUp(policy batchv1beta1.CleanUpPolicy) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.CleanUpPolicy = policy }
}

// Deadline sets activeDeadlineSeconds.
func Deadline(seconds int64) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.ActiveDeadlineSeconds = &seconds }
}

// TimeToLive sets ttlSecondsAfterFinished.
func TimeToLive(seconds int32) Policy {
	return func(p *batchv1beta1.RunPolicy) { p.TTLSecondsAfterFinished = &seconds }
}
