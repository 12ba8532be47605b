package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

func newResume(e *environment) *cobra.Command {
	flags := newChangeFlags("resumed")
	var roleTypes []string
	cmd := &cobra.Command{
		Use:   "resume JOB [flags] [-- ARGS...]",
		Short: "Resume a paused job, also with other arguments",
		Long: `Resume a paused job: create its pods again. The command waits until the job runs.

ARGS replace the args of the training program, for example to continue from a checkpoint. They are written to the job
and also apply to later restarts:

- DeepSpeedJob: the script, module or program in spec.config.run, with its arguments.
- All other kinds: the args of the main container. With torchrunConfig, and in a job of kubectl train run, these are
  the program and its arguments.

ARGS change the type of the leader, and the types that have the same command and args as the leader. To change other
types, name them with --type. If spec.runMode.pause.resumeSpecs sets the args of a type, ARGS cannot replace them.`,
		Example: `  # Resume a job, and wait until it runs
  kubectl train resume digits

  # Resume a job that may wait in its queue for long
  kubectl train resume digits --wait=false

  # Continue a training of kubectl train run with other arguments of its program
  kubectl train resume digits -- train.py --epochs=20 --checkpoint=/ckpt/model.pt

  # Change the arguments of the workers only
  kubectl train resume digits --type=worker -- --epochs=20`,
		Args:              oneJobBefore("the arguments of the training follow --"),
		ValidArgsFunction: e.complete(completeJobs),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, programArgs := args[0], args[1:]
			if len(programArgs) == 0 && len(roleTypes) > 0 {
				return fmt.Errorf("--type chooses which types get other ARGS: add -- and the ARGS")
			}
			plan := changePlan{
				check: jobs.CheckResume,
				patch: func(job jobs.Job) (client.Patch, error) {
					return mergePatch(job, false, "runMode", "pause", "enabled"), nil
				},
				goal: jobs.HasResumed,
				done: "the job is resumed",
			}
			if len(programArgs) > 0 {
				plan.check = func(job jobs.Job) error {
					if err := jobs.CheckResume(job); err != nil {
						return err
					}
					if !job.Spec().RunMode.Pausing() {
						return fmt.Errorf("%s is not paused, and the args of a job can be changed only while it is paused: "+
							"pause it with kubectl train pause %s", job.Ref(), job.Typed())
					}
					return nil
				}
				plan.before = jobs.IsPaused
				plan.patch = func(job jobs.Job) (client.Patch, error) {
					patch, changed, err := jobs.ResumeWithArgs(job, roleTypes, programArgs)
					if err == nil && len(job.Spec().Roles) > 1 {
						_, err = fmt.Fprintf(e.ErrOut, "The args of these types change: %s\n", strings.Join(changed, ", "))
					}
					return client.RawPatch(types.JSONPatchType, patch), err
				}
			}
			return e.change(cmd.Context(), name, flags, plan)
		},
	}
	cmd.Flags().StringSliceVar(&roleTypes, "type", nil, "types whose args ARGS replace, such as worker")
	flags.add(cmd, "the job runs")
	return cmd
}
