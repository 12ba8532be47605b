package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// secret is a value in the template of a job. The program of the job also prints this value.
const secret = "hunter2"

// testLog checks the log of the controller for a job. The log has one line for each event and for each change of the
// phase. It contains nothing from the templates or from the output of replicas.
func testLog(t *testing.T, k model.Kind) {
	t.Parallel()
	printsAndFails := func(index int) step {
		return happensTo(index, model.Exits(3, "the password "+secret+" is wrong"))
	}
	for name, tc := range map[string]struct {
		shape Shape
		steps []step
		want  []string
	}{
		"a job that succeeds": {
			shape: two(onFailure, scopeJob),
			steps: []step{run, exits(0, 0), passes(time.Minute)},
			want: []string{
				`"Created" "phase"="Pending" "reason"="Creating" "attempt"=0 "backoffCount"=0 "replicas"=2`,
				`"Running" "phase"="Running" "reason"="ReplicasRunning" "attempt"=0 "backoffCount"=0`,
				`"EndDecided" "phase"="Running" "reason"="LeaderSucceeded" "attempt"=0 "backoffCount"=0`,
				`"Completed" "phase"="Succeeded" "reason"="LeaderSucceeded" "attempt"=0 "backoffCount"=0`,
			},
		},
		"a job that restarts and then fails": {
			shape: two(onFailure, scopeJob, func(p *batchv1beta1.RunPolicy) { p.BackoffLimit = new(int32(1)) }),
			steps: []step{run, printsAndFails(1), passes(time.Minute), run, printsAndFails(0), passes(time.Minute)},
			want: []string{
				`"Created" "phase"="Pending" "reason"="Creating" "attempt"=0 "backoffCount"=0 "replicas"=2`,
				`"Running" "phase"="Running" "reason"="ReplicasRunning" "attempt"=0 "backoffCount"=0`,
				`"Restarting" "phase"="Pending" "reason"="Restarting" "attempt"=1 "backoffCount"=1 ` +
					`"replica"="job-worker-1" "cause"="Error" "counted"=true "exitCode"=3 "restarted"=2`,
				`"Created" "phase"="Pending" "reason"="Restarting" "attempt"=1 "backoffCount"=1 "replicas"=2`,
				`"Running" "phase"="Running" "reason"="ReplicasRunning" "attempt"=1 "backoffCount"=1`,
				`"EndDecided" "phase"="Running" "reason"="BackoffLimitExceeded" "attempt"=1 "backoffCount"=1`,
				`"Failed" "phase"="Failed" "reason"="BackoffLimitExceeded" "attempt"=1 "backoffCount"=1 ` +
					`"replica"="job-worker-0" "cause"="Error" "counted"=true "exitCode"=3`,
			},
		},
		"a job that is paused": {
			shape: two(onFailure, scopeJob),
			steps: []step{run, paused, resumed, run},
			want: []string{
				`"Created" "phase"="Pending" "reason"="Creating" "attempt"=0 "backoffCount"=0 "replicas"=2`,
				`"Running" "phase"="Running" "reason"="ReplicasRunning" "attempt"=0 "backoffCount"=0`,
				`"PhaseChanged" "phase"="Pending" "reason"="Pausing" "attempt"=0 "backoffCount"=0 "was"="Running"`,
				`"Paused" "phase"="Paused" "reason"="Paused" "attempt"=0 "backoffCount"=0`,
				`"Resumed" "phase"="Resuming" "reason"="Creating" "attempt"=0 "backoffCount"=0`,
				`"Created" "phase"="Resuming" "reason"="Creating" "attempt"=0 "backoffCount"=0 "replicas"=2`,
				`"Running" "phase"="Running" "reason"="ReplicasRunning" "attempt"=0 "backoffCount"=0`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, k)
			var got []string
			w.logger = funcr.New(func(_, line string) {
				got = append(got,
					strings.TrimPrefix(line, `"level"=0 "msg"=`))
			}, funcr.Options{})
			tc.shape.Template.Spec.Containers = []corev1.Container{{
				Name: k.MainContainer, Image: "training", Args: []string{"--password=" + secret},
				Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}},
			}}
			w.do(append([]step{created(tc.shape)}, tc.steps...)...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the log is not as expected (-want +got):\n%s", diff)
			}
			if strings.Contains(strings.Join(got, "\n"), secret) {
				t.Errorf("the log contains the secret %q", secret)
			}
		})
	}
}
