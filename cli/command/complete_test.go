package command

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/jobs"
)

func TestCompletionsOf(t *testing.T) {
	var found []jobs.Job
	for _, ref := range [][2]string{{"ptjob", "digits"}, {"tfjob", "digits"}, {"dsjob", "words"}} {
		job := jobs.Job{Kind: jobs.KindNamed(ref[0]), Job: jobs.KindNamed(ref[0]).New()}
		job.SetName(ref[1])
		job.JobStatus().Phase = "Running"
		found = append(found, job)
	}
	tests := map[string]struct {
		typed string
		want  []string
	}{
		"a name of several jobs has the kind": {
			want: []string{
				"ptjob/digits\tPyTorchTrainingJob Running", "tfjob/digits\tTensorFlowTrainingJob Running",
				"words\tDeepSpeedJob Running",
			},
		},
		"other jobs are left out": {typed: "w", want: []string{"words\tDeepSpeedJob Running"}},
		"the kind is kept as it is typed": {
			typed: "DeepSpeedJob/", want: []string{"DeepSpeedJob/words\tDeepSpeedJob Running"},
		},
		"an unknown kind has no jobs": {typed: "pod/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, completionsOf(found, test.typed)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
