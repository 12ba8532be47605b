package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/cli/jobs"
)

// elasticJob returns an elastic job of 2 to 4 replicas with the given fields of its spec and its status.
func elasticJob(t *testing.T, spec, status string) jobs.Job {
	t.Helper()
	if !strings.Contains(status, "observedGeneration") {
		status = "observedGeneration: 3, " + status
	}
	return parse(t, `{kind: DeepSpeedJob, metadata: {name: words, generation: 3}, spec: {
		elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, expectedReplicas: 2}, `+spec+`
		worker: {template: {spec: {containers: [{name: main}]}}}}, status: {`+status+`}}`)
}

const (
	pausedSpec = "runMode: {pause: {enabled: true}}, "
	runs       = "conditions: [{type: Running, status: 'True', reason: ReplicasRunning, message: all run}]"
	failedAt   = `phase: Failed, conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded,
		message: "replica words-worker-0 failed; its last output:\nno data"}]`
	succeededAt = `phase: Running, conditions: [{type: SuccessCriteriaMet, status: 'True', reason: LeaderSucceeded,
		message: ok}]`
	debugSpec = "runMode: {debug: {enabled: true}}, "
)

func TestGoals(t *testing.T) {
	tests := map[string]struct {
		goal         jobs.Goal
		spec, status string
		wantWait     string
		wantErr      string
		wantFailed   bool
	}{
		"a job is paused when its condition is True": {
			goal: jobs.IsPaused, spec: pausedSpec,
			status: "conditions: [{type: Paused, status: 'True', reason: Paused, message: the job is paused}]",
		},
		"a job is being paused while it has pods": {
			goal: jobs.IsPaused, spec: pausedSpec,
			status:   "conditions: [{type: Paused, status: 'False', reason: Pausing, message: 'remaining pods: 1'}]",
			wantWait: "Pausing: remaining pods: 1",
		},
		"an older status says nothing about a pause": {
			goal: jobs.IsPaused, spec: pausedSpec,
			status:   "observedGeneration: 2, conditions: [{type: Paused, status: 'True', reason: Paused, message: old}]",
			wantWait: "the controller has not seen the latest spec yet",
		},
		"another controller has not seen the change": {
			goal: jobs.IsPaused, spec: pausedSpec + "managedBy: example.com/controller, ", status: "observedGeneration: 2",
			wantWait: "the controller example.com/controller, which spec.managedBy names, has not seen the latest spec",
		},
		"a pause ends when somebody resumes the job": {
			goal: jobs.IsPaused, status: runs, wantErr: "dsjob/words was resumed meanwhile",
		},
		"a job that has failed cannot be paused": {
			goal: jobs.IsPaused, spec: pausedSpec, status: failedAt, wantFailed: true,
			wantErr: "dsjob/words has failed (BackoffLimitExceeded: replica words-worker-0 failed)",
		},
		"a job that will succeed cannot be paused": {
			goal: jobs.IsPaused, spec: pausedSpec, status: succeededAt,
			wantErr: "dsjob/words has succeeded (LeaderSucceeded: ok)",
		},
		"a job runs when its condition is True": {goal: jobs.IsRunning, status: runs},
		"a job that runs again can have succeeded": {
			goal: jobs.HasResumed, status: succeededAt,
		},
		"a shell cannot be opened in a job that has succeeded": {
			goal: jobs.IsRunning, status: succeededAt, wantErr: "dsjob/words has succeeded (LeaderSucceeded: ok)",
		},
		"a job in a queue does not run": {
			goal:     jobs.HasResumed,
			status:   "conditions: [{type: Running, status: 'False', reason: Queued, message: the queue is full}]",
			wantWait: "the job is in a queue: Queued: the queue is full",
		},
		"a new job does not run": {
			goal: jobs.IsRunning, status: "phase: Pending", wantWait: "the controller creates the pods",
		},
		"a job that somebody pauses does not run": {
			goal: jobs.HasResumed, spec: pausedSpec, status: runs,
			wantErr: "dsjob/words is paused: resume it with kubectl train resume dsjob/words",
		},
		"a job is scaled when all replicas run": {
			goal:   jobs.HasReplicas(2),
			status: runs + ", tasks: [{type: worker, replicas: [{name: words-worker-0}, {name: words-worker-1}]}]",
		},
		"a job is not scaled while it has more replicas": {
			goal: jobs.HasReplicas(2),
			status: runs + `, tasks: [{type: worker,
				replicas: [{name: words-worker-0}, {name: words-worker-1}, {name: words-worker-2}]}]`,
			wantWait: "ReplicasRunning: all run",
		},
		"a scale ends when somebody scales the job to another number": {
			goal: jobs.HasReplicas(4), status: runs, wantErr: "dsjob/words was scaled to another number of replicas meanwhile",
		},
		"a scale ends when somebody pauses the job": {
			goal: jobs.HasReplicas(2), spec: pausedSpec, status: runs, wantErr: "dsjob/words was paused meanwhile: it gets 2 " +
				"replicas when you resume it with kubectl train resume dsjob/words",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			waitsFor, err := test.goal(elasticJob(t, test.spec, test.status))
			message := ""
			if err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff([]string{test.wantWait, test.wantErr}, []string{waitsFor, message}); diff != "" {
				t.Error(diff)
			}
			if got := errors.Is(err, jobs.ErrFailed); got != test.wantFailed {
				t.Errorf("the error means that the job has failed: %t, want %t", got, test.wantFailed)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	scale := func(n int32) func(jobs.Job) error {
		return func(job jobs.Job) error { return jobs.CheckScale(job, n) }
	}
	tests := map[string]struct {
		check        func(jobs.Job) error
		spec, status string
		want         string
	}{
		"a running job can be paused":  {check: jobs.CheckPause, status: runs},
		"a running job can be resumed": {check: jobs.CheckResume, status: runs},
		"a failed job cannot be resumed": {
			check: jobs.CheckResume, status: failedAt, want: "dsjob/words has failed (BackoffLimitExceeded: replica " +
				"words-worker-0 failed), so it cannot be resumed: create another job to train again",
		},
		"a job without its code cannot be resumed": {
			check: func(job jobs.Job) error {
				job.SetAnnotations(map[string]string{jobs.AnnotationPreparing: "1"})
				return jobs.CheckResume(job)
			},
			want: "dsjob/words does not have its code yet, which kubectl train run uploads: wait until it is uploaded. If the " +
				"command was killed, delete the job with kubectl train delete dsjob/words",
		},
		"a job can have its least replicas": {check: scale(2), status: runs},
		"a job can have its most replicas":  {check: scale(4), status: runs},
		"a job cannot have fewer replicas": {
			check: scale(1), status: runs,
			want: "dsjob/words can have 2 to 4 replicas, as its spec.elastic specifies, and not 1",
		},
		"a job that has ended cannot scale": {
			check: scale(3), status: succeededAt,
			want: "dsjob/words has succeeded (LeaderSucceeded: ok), so there is nothing to scale",
		},
		"a job in debug mode has a shell": {check: jobs.CheckDebug, spec: debugSpec, status: runs},
		"a debug job that ended has no shell": {
			check: jobs.CheckDebug, spec: debugSpec, status: succeededAt,
			want: "dsjob/words has succeeded (LeaderSucceeded: ok)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.check(elasticJob(t, test.spec, test.status)); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
