package model

import (
	"fmt"

	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// CountingRestarts returns the shape of a job whose leader counts restarts in place.
func CountingRestarts(s Shape) Shape {
	s.InPlace = true
	return s
}

// CheckRestartsInPlace checks the restarts in place in the status of a job at rest. The parameter happened is how many
// have happened.
//
//   - No restart is counted twice.
//   - While the job runs, the status has all restarts that the pod of the leader has counted, unless the controller has
//     lost its reading.
func CheckRestartsInPlace(k Kind, o Objects, trainings Trainings, happened int) (wrong []string) {
	job := o.Job()
	spec, status := k.SpecOf(job), *job.JobStatus()
	recorded := ptr.Deref(status.RestartsInPlace, batchv1beta1.RestartsInPlace{})
	if int(recorded.Count) > happened {
		wrong = append(wrong, fmt.Sprintf("the status has %d restarts in place, but there were %d", recorded.Count, happened))
	}
	for _, pod := range o.Pods() {
		training := trainings.Training(pod)
		if !spec.RestartsInPlace || !IsTrue(status, batchv1beta1.ConditionRunning) || status.Decided() || training == nil ||
			training.Restarts == 0 || training.Forgotten || IsRelabelled(pod) {
			continue
		}
		if recorded.PodUID != pod.UID || recorded.AttemptCount != training.Restarts {
			wrong = append(wrong, fmt.Sprintf("the status lacks restarts in place that %s has counted", pod.Name))
		}
	}
	return wrong
}
