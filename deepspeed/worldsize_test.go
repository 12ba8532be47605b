package deepspeed

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

func TestTheWorkersFitInOneArgument(t *testing.T) {
	t.Parallel()
	const tooLong = "the launcher of DeepSpeed passes the names of all 1024 workers and the program in one argument"
	of := func(workers, slots int32, config v1beta1.Config) *v1beta1.DeepSpeedJob {
		config.SlotsPerWorker = &slots
		return jobOf(&config, training(), func(j *v1beta1.DeepSpeedJob) { j.Spec.Worker.Replicas = &workers })
	}
	for name, tc := range map[string]struct {
		job  *v1beta1.DeepSpeedJob
		want string
	}{
		"1,000 workers with one slot":        {job: of(1000, 1, *running())},
		"1,024 workers with 16 slots":        {job: of(1024, 16, *running()), want: tooLong},
		"1,024 workers with a customCommand": {job: of(1024, 16, v1beta1.Config{CustomCommand: "train"})},
		"a program with very long arguments": {
			job: of(1, 1, v1beta1.Config{Run: &v1beta1.RunType{
				Python: strings.Split(strings.Repeat(strings.Repeat("x", 4096)+" ", 32), " "),
			}}),
			want: "the launcher of DeepSpeed passes",
		},
		"a job in debug mode": {job: jobOf(nil, training(), debugging, func(j *v1beta1.DeepSpeedJob) {
			j.Spec.Worker.Replicas = ptr.To[int32](2000)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := wire(tc.job, 0)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)):
				t.Errorf("got error %v, want %s...", err, tc.want)
			}
		})
	}
}
