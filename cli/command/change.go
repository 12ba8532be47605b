package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

// The values of the flag --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// changeFlags are the flags of commands that change a job: those about the wait, the output format and --dry-run.
type changeFlags struct {
	waitFlags

	print  *genericclioptions.PrintFlags
	dryRun string
}

// newChangeFlags returns the flags of a command that changes a job. The command prints the operation, such as
// "paused", after the name of the job.
func newChangeFlags(operation string) *changeFlags {
	return &changeFlags{print: genericclioptions.NewPrintFlags(operation)}
}

// add adds the flags to a command.
func (f *changeFlags) add(cmd *cobra.Command, until string) {
	f.waitFlags.add(cmd, until)
	f.print.AddFlags(cmd)
	addDryRun(cmd, &f.dryRun)
}

// addDryRun adds the flag --dry-run to a command.
func addDryRun(cmd *cobra.Command, value *string) {
	*value = dryRunNone
	addEnum(cmd, value, "dry-run", "",
		`"client" only prints the result; "server" sends the request, but the API server changes nothing; or "none"`,
		dryRunNone, dryRunClient, dryRunServer)
}

// dryRunNote returns the text that a command appends to its message because of the flag --dry-run.
func dryRunNote(dryRun string) string {
	switch dryRun {
	case dryRunClient:
		return " (dry run)"
	case dryRunServer:
		return " (server dry run)"
	default:
		return ""
	}
}

// isDryRun reports whether the command must not change the job.
func (f *changeFlags) isDryRun() bool { return f.dryRun != dryRunNone }

// printer returns a function that prints a job as the flags specify.
func (f *changeFlags) printer(e *environment) (func(*unstructured.Unstructured) error, error) {
	if err := f.print.Complete("%s" + dryRunNote(f.dryRun)); err != nil {
		return nil, err
	}
	printer, err := f.print.ToPrinter()
	if err != nil {
		return nil, err
	}
	return func(object *unstructured.Unstructured) error { return printer.PrintObj(object, e.Out) }, nil
}

// changePlan describes how a command changes a job.
type changePlan struct {
	// check returns an error if the job cannot be changed.
	check func(jobs.Job) error
	// before is the state that the job must reach before the change. Nil means none.
	before jobs.Goal
	// patch returns the patch that changes the job.
	patch func(jobs.Job) (client.Patch, error)
	// goal is the state that the change leads to.
	goal jobs.Goal
	// later returns the reason why the job cannot reach the goal yet, or an empty text. If there is a reason, the
	// command prints it and does not wait. A nil function means that there is never a reason.
	later func(jobs.Job) string
	// done describes the change in the message of a command that ends before the job has reached the goal.
	done string
}

// change changes a job, waits until the job has reached the goal, and prints the result.
func (e *environment) change(ctx context.Context, name string, flags *changeFlags, plan changePlan) error {
	printObject, err := flags.printer(e)
	if err != nil {
		return err
	}
	c, job, err := e.connectTo(ctx, name)
	if err != nil {
		return err
	}
	if err := plan.check(job); err != nil {
		return err
	}
	if plan.before != nil && !flags.isDryRun() {
		if err := e.await(ctx, c, job, plan.before, flags.timeout, "nothing has changed"); err != nil {
			return err
		}
		if job, err = c.find(ctx, job.Ref()); err != nil {
			return err
		}
	}
	patch, err := plan.patch(job)
	if err != nil {
		return err
	}
	object, err := c.patch(ctx, job, patch, flags.dryRun)
	if err != nil {
		return err
	}
	if !flags.isDryRun() {
		later := ""
		if plan.later != nil {
			later = plan.later(job)
		}
		switch {
		case later != "":
			_, _ = fmt.Fprintln(e.ErrOut, later)
		case flags.wait:
			if err := e.await(ctx, c, job, plan.goal, flags.timeout, plan.done); err != nil {
				return err
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(job), object); err != nil {
				return err
			}
		}
	}
	return printObject(object)
}

// patch changes a job with a patch, and returns the changed job. In a dry run, the API server or the client only
// computes the result. The result is unstructured, so that it keeps fields that only a newer version of the API has.
func (c *cluster) patch(
	ctx context.Context, job jobs.Job, patch client.Patch, dryRun string,
) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(job.Kind.GroupVersionKind)
	key := client.ObjectKeyFromObject(job)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	switch dryRun {
	case dryRunClient:
		if err := c.Get(ctx, key, object); err != nil {
			return nil, err
		}
		return patched(object, patch)
	case dryRunServer:
		return object, c.Patch(ctx, object, patch, client.DryRunAll)
	default:
		return object, c.Patch(ctx, object, patch)
	}
}

// patched returns a copy of an object to which a JSON patch or a merge patch is applied.
func patched(object *unstructured.Unstructured, patch client.Patch) (*unstructured.Unstructured, error) {
	content, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	changes, err := patch.Data(object)
	if err != nil {
		return nil, err
	}
	if patch.Type() == types.JSONPatchType {
		operations, err := jsonpatch.DecodePatch(changes)
		if err != nil {
			return nil, err
		}
		content, err = operations.Apply(content)
		if err != nil {
			return nil, err
		}
	} else if content, err = jsonpatch.MergePatch(content, changes); err != nil {
		return nil, err
	}
	result := &unstructured.Unstructured{}
	return result, result.UnmarshalJSON(content)
}

// mergePatch returns the merge patch that sets the field at a path in the spec to a value. The patch has the UID of
// the object, so the API server rejects the patch if another object has the name now.
func mergePatch(object client.Object, value any, path ...string) client.Patch {
	for _, field := range slices.Backward(path) {
		value = map[string]any{field: value}
	}
	patch, _ := json.Marshal(map[string]any{ // cannot fail: the maps have only booleans, numbers and texts
		"metadata": map[string]any{"uid": object.GetUID()}, "spec": value,
	})
	return client.RawPatch(types.MergePatchType, patch)
}
