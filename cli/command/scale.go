package command

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/common/report"
)

func newScale(e *environment) *cobra.Command {
	flags := newChangeFlags("scaled")
	cmd := &cobra.Command{
		Use:   "scale JOB REPLICAS",
		Short: "Change the number of replicas of an elastic job",
		Long: `Change the number of replicas of an elastic job: its field spec.elastic.expectedReplicas.

The number must be within spec.elastic.minReplicas and spec.elastic.maxReplicas. The training goes on meanwhile. The
command waits until the job has this number of replicas and all of them run. If the job is paused, it does not wait: the
job gets the replicas when it is resumed.`,
		Example: `  # Let a job train with 4 replicas, and wait until they run
  kubectl train scale digits 4

  # Wait for at most 2 minutes
  kubectl train scale digits 4 --timeout=2m`,
		Args:              jobAndReplicas,
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || n < 0 {
				return fmt.Errorf("%q is no number of replicas", args[1])
			}
			replicas := int32(n)
			return e.change(cmd.Context(), args[0], flags, changePlan{
				check: func(job jobs.Job) error { return jobs.CheckScale(job, replicas) },
				patch: func(job jobs.Job) (client.Patch, error) {
					return mergePatch(job, replicas, "elastic", "expectedReplicas"), nil
				},
				goal: jobs.HasReplicas(replicas),
				later: func(job jobs.Job) string {
					switch {
					case job.Spec().RunMode.Pausing():
						return fmt.Sprintf("%s is paused. It gets the replicas when you resume it: kubectl train resume %s",
							job.Ref(), job.Typed())
					case job.Spec().RunsElsewhere():
						return fmt.Sprintf("MultiKueue runs %s in another cluster, and its number of replicas changes there when you "+
							"pause and resume it: kubectl train pause %[2]s, and then kubectl train resume %[2]s", job.Ref(), job.Typed())
					}
					return ""
				},
				done: "the job is being scaled to " + report.Count(int(replicas), "replica"),
			})
		},
	}
	cmd.SetFlagErrorFunc(explainNegative)
	flags.add(cmd, "all replicas run")
	return cmd
}
