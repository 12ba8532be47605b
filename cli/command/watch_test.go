package command

import (
	"testing"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
)

func TestOutcomeOfAll(t *testing.T) {
	t.Parallel()
	finished := jobs.Job{Kind: jobs.Kinds[0], Job: jobs.Kinds[0].New()}
	finished.JobStatus().Phase = "Succeeded"
	const noJobs = "no jobs match: kubectl train list shows the jobs"
	for name, test := range map[string]struct {
		jobs    screen.Jobs
		until   string
		want    bool
		wantErr string
	}{
		"jobs that have finished are done":     {screen.Jobs{Items: []jobs.Job{finished}}, untilFinished, true, ""},
		"no jobs are an error":                 {screen.Jobs{}, untilFinished, true, noJobs},
		"without a state, the command goes on": {screen.Jobs{Items: []jobs.Job{finished}}, "", false, ""},
		"jobs of a kind that cannot be read at present can go on": {
			screen.Jobs{Items: []jobs.Job{finished}, Trouble: "connection refused"}, untilFinished, false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := outcomeOfAll(test.jobs, test.until)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if got != test.want || message != test.wantErr {
				t.Errorf("got %t and %q, want %t and %q", got, message, test.want, test.wantErr)
			}
		})
	}
}
