package explore

import (
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// pauseExplorations returns the small jobs that are paused and resumed.
func pauseExplorations() []exploration {
	return []exploration{
		{
			name:     "a job that restarts as a whole is paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeJob, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resumingEdits,
			budget: twoEdits,
		},
		{
			name:     "a job whose replicas restart alone is paused and resumed",
			shape:    model.Two(model.OnFailure, model.ScopeReplica, model.Limit(1)),
			failures: []string{"fails", "is deleted"}, edits: resumingEdits,
			budget: twoEdits,
		},
		{
			name:     "a job is created paused and resumed later",
			shape:    model.Pausing(model.Two(model.OnFailure, model.ScopeJob)),
			failures: []string{"fails", "is deleted"}, edits: resumingEdits,
			budget: twoEdits,
		},
	}
}

// Edits that pause, resume and resize the job.
var (
	pauses = edit{
		name: "pauses the job", may: func(s *state) bool { return !s.shape.RunMode.Pausing() },
		do: func(m *machine) { m.edit(model.Pause) },
	}
	resumes = edit{
		name: "resumes the job", may: func(s *state) bool { return s.shape.RunMode.Pausing() },
		do: func(m *machine) { m.edit(model.Resume) },
	}
	// resizes changes the field replicas and resumes the job in one update. The CRD allows a change of replicas only
	// while the job is paused.
	resizes = edit{
		name: "reduces the job to one replica and resumes it",
		may: func(s *state) bool {
			return s.shape.RunMode.Pausing() && s.live.Objects.Job().JobStatus().Phase == batchv1beta1.JobPhasePaused
		},
		do: func(m *machine) { m.edit(func(s *model.Shape) { s.Replicas, s.RunMode = 1, nil }) },
	}
)
