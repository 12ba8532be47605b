package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
)

func newList(e *environment) *cobra.Command {
	var everywhere bool
	var selector, output string
	cmd := &cobra.Command{
		Use:     "list [KIND]",
		Aliases: []string{"ls"},
		Short:   "List the jobs of all kinds",
		Example: `  # List the jobs of the current namespace
  kubectl train list

  # List the PyTorchTrainingJobs of all namespaces, with their queues, and why they do not run
  kubectl train list ptjob -A -o wide`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(jobs.ShortNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds := jobs.Kinds
			if len(args) == 1 {
				kind := jobs.KindNamed(args[0])
				if kind == nil {
					return jobs.NoKindError(args[0])
				}
				kinds = []*jobs.Kind{kind}
			}
			selected, err := labels.Parse(selector)
			if err != nil {
				return fmt.Errorf("--selector: %w", err)
			}
			c, err := e.connect()
			if err != nil {
				return err
			}
			options := []client.ListOption{client.MatchingLabelsSelector{Selector: selected}}
			if !everywhere {
				options = append(options, client.InNamespace(c.namespace))
			}
			found, err := jobs.List(cmd.Context(), c, kinds, options...)
			if len(found) == 0 && err == nil && isTable(output) {
				where := ""
				if !everywhere {
					where = " in namespace " + c.namespace
				}
				_, err = fmt.Fprintf(e.ErrOut, "No jobs found%s.\n", where)
				return err
			}
			return errors.Join(e.printJobs(found, output, everywhere, time.Now()), err)
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "list the jobs of all namespaces")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "list only the jobs whose labels match, such as team=vision")
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: wide, name, json or yaml (default: a table)")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"wide", "name", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// isTable reports whether an output format is a table.
func isTable(output string) bool { return output == "" || output == "wide" }

// printJobs prints jobs in an output format, which can be empty, wide, or a format of kubectl.
func (e *environment) printJobs(list []jobs.Job, output string, withNamespace bool, now time.Time) error {
	if isTable(output) {
		printer := printers.NewTablePrinter(printers.PrintOptions{Wide: output == "wide"})
		return printer.PrintObj(tableOf(list, withNamespace, now), e.Out)
	}
	var objects []client.Object
	for _, job := range list {
		job.GetObjectKind().SetGroupVersionKind(job.Kind.GroupVersionKind)
		job.SetManagedFields(nil)
		objects = append(objects, job.Job)
	}
	err := e.printObjects(objects, output, output != "name") // the printer of names prints no lists
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return fmt.Errorf("--output is %q: use wide, name, json, yaml, jsonpath=TEMPLATE or go-template=TEMPLATE", output)
	}
	return err
}

// printObjects prints objects, which have their kinds, in a format of kubectl. If asList is true, it prints them as the
// items of a List.
func (e *environment) printObjects(objects []client.Object, output string, asList bool) error {
	printer, err := genericclioptions.NewPrintFlags("").WithDefaultOutput(output).ToPrinter()
	if err != nil {
		return err
	}
	all := &metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: []runtime.RawExtension{}}
	for _, object := range objects {
		if asList {
			all.Items = append(all.Items, runtime.RawExtension{Object: object})
		} else if err := printer.PrintObj(object, e.Out); err != nil {
			return err
		}
	}
	if asList {
		return printer.PrintObj(all, e.Out)
	}
	return nil
}

// tableOf returns the table of jobs. Columns with a priority are only in wide tables. The other columns are those
// that kubectl get prints for each kind.
func tableOf(list []jobs.Job, withNamespace bool, now time.Time) *metav1.Table {
	table := &metav1.Table{}
	if withNamespace {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Namespace"})
	}
	for _, name := range []string{"Name", "Phase", "Ready", "Progress", "Restarts", "Disruptions", "Age"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, name := range []string{"Queue", "Reason", "Message"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1})
	}
	for _, job := range list {
		status := job.JobStatus()
		cells := []any{
			job.Ref(), status.Phase, status.Ready, progressOf(job), status.BackoffCount, status.Disruptions,
			duration.HumanDuration(now.Sub(job.GetCreationTimestamp().Time)), queueOf(job), status.Reason, job.Message(),
		}
		if withNamespace {
			cells = append([]any{job.GetNamespace()}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}
