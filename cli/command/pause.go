package command

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

func newPause(e *environment) *cobra.Command {
	flags := newChangeFlags("paused")
	cmd := &cobra.Command{
		Use:   "pause JOB",
		Short: "Pause a job and free its resources",
		Long: `Pause a job: delete its pods, and keep the job with its counts and its history.

The pods are deleted gracefully. A program that saves its work on SIGTERM has the grace period of its pod to do so. The
command waits until all pods are gone. Pausing a job that is paused changes nothing.`,
		Example: `  # Pause a job, and wait until its pods are gone
  kubectl train pause digits

  # Pause a job without waiting for its pods
  kubectl train pause ptjob/digits --wait=false

  # Show the job as it would be, without pausing it
  kubectl train pause digits --dry-run=server -o yaml`,
		Args:              oneJob,
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.change(cmd.Context(), args[0], flags, changePlan{
				check: jobs.CheckPause,
				patch: func(job jobs.Job) (client.Patch, error) { return pausePatch(job), nil },
				goal:  jobs.IsPaused,
				done:  "the job is being paused",
			})
		},
	}
	flags.add(cmd, "all pods of the job are gone")
	return cmd
}

// pausePatch returns the merge patch that pauses a job.
func pausePatch(job jobs.Job) client.Patch {
	return mergePatch(job, true, "runMode", "pause", "enabled")
}
