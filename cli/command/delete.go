package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/common/plan/view"
)

// deletion has the flags of the command delete.
type deletion struct {
	waitFlags

	cascade, dryRun, output string
}

func newDelete(e *environment) *cobra.Command {
	d := deletion{cascade: "background"}
	cmd := &cobra.Command{
		Use:   "delete JOB",
		Short: "Delete a job with everything that it owns",
		Long: `Delete a job with everything that it owns: its pods, its Service and its TensorBoard.

The pods are deleted gracefully. The command waits until the job and its pods are gone. With --cascade=orphan, the pods
and the other objects stay, and the pods keep running.`,
		Example: `  # Delete a job, and wait until its pods are gone
  kubectl train delete digits

  # Delete a job without waiting for its pods
  kubectl train delete ptjob/digits --wait=false`,
		Args:              oneJob,
		ValidArgsFunction: e.complete(completeJobs),
		RunE:              func(cmd *cobra.Command, args []string) error { return e.delete(cmd.Context(), args[0], d) },
	}
	addEnum(cmd, &d.cascade, "cascade", "",
		`"background" deletes the objects of the job after it; "foreground" deletes them before it; "orphan" keeps them`,
		"background", "foreground", "orphan")
	addEnum(cmd, &d.output, "output", "o", `output format: "name" prints only the name (default: a message)`, "name")
	addDryRun(cmd, &d.dryRun)
	d.add(cmd, "the job and its pods are gone")
	return cmd
}

// options returns the options of the request that deletes a job.
func (d deletion) options(job jobs.Job) []client.DeleteOption {
	policies := map[string]metav1.DeletionPropagation{
		"background": metav1.DeletePropagationBackground,
		"foreground": metav1.DeletePropagationForeground,
		"orphan":     metav1.DeletePropagationOrphan,
	}
	uid := job.GetUID()
	options := []client.DeleteOption{client.PropagationPolicy(policies[d.cascade]), client.Preconditions{UID: &uid}}
	if d.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	return options
}

// delete deletes a job, waits until the job and its pods are gone, and prints the result.
func (e *environment) delete(ctx context.Context, name string, d deletion) error {
	c, job, err := e.connectTo(ctx, name)
	if err != nil {
		return err
	}
	if d.dryRun != dryRunClient {
		if err := c.Delete(ctx, job.Job, d.options(job)...); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	if d.dryRun == dryRunNone && d.wait {
		if err := e.awaitDeletion(ctx, c, job, d); err != nil {
			return err
		}
	}
	kind := strings.ToLower(job.Kind.Kind) + "." + job.Kind.Group
	if d.output == "name" {
		_, err = fmt.Fprintf(e.Out, "%s/%s\n", kind, job.GetName())
		return err
	}
	_, err = fmt.Fprintf(e.Out, "%s %q deleted from %s namespace%s\n", kind, job.GetName(), job.GetNamespace(),
		dryRunNote(d.dryRun))
	return err
}

// awaitDeletion waits until a job is gone and, unless --cascade is orphan, until the pods of the job are gone, too.
func (e *environment) awaitDeletion(ctx context.Context, c *cluster, job jobs.Job, d deletion) error {
	return e.waiting(ctx, d.timeout, "the job is being deleted", func(ctx context.Context, tell func(string)) error {
		err := c.observeJob(ctx, job, func(now *jobs.Job) (bool, error) {
			if now == nil {
				return true, nil
			}
			waitsFor := "the job still exists"
			if finalizers := now.GetFinalizers(); len(finalizers) > 0 {
				waitsFor += ", with the finalizers " + strings.Join(finalizers, ", ")
			}
			tell(waitsFor)
			return false, nil
		})
		if err != nil || d.cascade == "orphan" {
			return err
		}
		return c.observe(ctx, &corev1.PodList{}, func(objects map[string]client.Object) (bool, error) {
			left := 0
			for _, pod := range objects {
				if owner := metav1.GetControllerOf(pod); owner != nil && owner.UID == job.GetUID() {
					left++
				}
			}
			tell(fmt.Sprintf("remaining pods: %d", left))
			return left == 0, nil
		}, podsOf(job)...)
	})
}

// podsOf returns the options that select the pods of a job.
func podsOf(job jobs.Job) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(job.GetNamespace()),
		client.MatchingLabels(view.SelectorLabels(job.Kind.Kind, job.GetName())),
	}
}
