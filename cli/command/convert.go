package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/cli/convert"
	"tensorstack.dev/jobs/cli/manifest"
	"tensorstack.dev/jobs/cli/printable"
)

func newConvert(e *environment) *cobra.Command {
	var files []string
	var recursive bool
	output := "yaml"
	var options convert.Options
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert manifests of Kubeflow's PyTorchJob, TFJob and MPIJob",
		Long: `Convert manifests of Kubeflow's PyTorchJob, TFJob and MPIJob into PyTorchTrainingJobs,
TensorFlowTrainingJobs and DeepSpeedJobs. The command prints the result and changes nothing. It needs no cluster.

In YAML, comments explain what the result cannot keep by itself:

  Not mapped          the field has no counterpart
  Changed             the counterpart has a different meaning
  Rejected            the API server rejects the result until you change this field
  Kubeflow's default  the manifest does not set the field, and the defaults differ

A summary is on stderr. Objects of other kinds are printed unchanged. Objects that cannot be converted are comments, and
the exit code is 1. MPIJobs are converted if they train with DeepSpeed. TrainJobs are not converted.`,
		Example: `  # Convert a manifest, and read the comments before you apply the result
  kubectl train convert -f pytorchjob.yaml > ptjob.yaml
  kubectl apply -f ptjob.yaml

  # Convert all manifests in a folder and below it
  kubectl train convert -R -f manifests/

  # Convert a job of the cluster
  kubectl get pytorchjob digits -o yaml | kubectl train convert -f -

  # Convert an MPIJob that trains with DeepSpeed although its command does not show it
  kubectl train convert --deepspeed -f mpijob.yaml`,
		Args:              manifestsOf(&files),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return e.convert(files, recursive, output, options)
		},
	}
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "manifest, folder of manifests, or - for stdin")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "also read the folders below the folders of -f")
	addEnum(cmd, &output, "output", "o", "output format: yaml, or json without comments", "yaml", "json")
	cmd.Flags().BoolVar(&options.DeepSpeed, "deepspeed", false,
		"convert every MPIJob as one that trains with DeepSpeed, even if its manifest does not show it")
	cobra.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
	return cmd
}

// convert converts the manifests in files and folders.
func (e *environment) convert(names []string, recursive bool, output string, options convert.Options) error {
	var all []convert.Object
	var summary []string
	count, refused := 0, 0
	problem := manifest.Each(names, recursive, e.In, func(file string, content []byte) error {
		objects, err := convert.Manifest(content, options)
		for _, object := range objects {
			if object.Kind != "" { // a document with only comments is an Object without a kind
				count++
			}
			if object.Err != nil {
				refused++
			}
			summary = append(summary, summaryOf(file, object, output)...)
		}
		all = append(all, objects...)
		return err
	})
	text := convert.YAML(all)
	if output == "json" {
		var err error
		if text, err = convert.JSON(all); err != nil {
			return err
		}
	}
	if _, err := e.Out.Write(text); err != nil {
		return err
	}
	for _, line := range summary {
		fmt.Fprintln(e.ErrOut, printable.Escaped(line)) // escaped, since others can have chosen the name of the file
	}
	switch {
	case problem == nil && count == 0:
		return errors.New("the manifests have no objects")
	case refused > 0:
		return errors.Join(problem, fmt.Errorf("%d of %d objects cannot be converted", refused, count))
	}
	return problem
}

// summaryOf returns the lines of the summary about an object. The lines always include the remarks about an unchanged
// object. They include the remarks about a converted object only if the output is JSON, since YAML has these remarks
// as comments.
func summaryOf(file string, object convert.Object, output string) []string {
	name := fmt.Sprintf("%s: %s %s", file, object.Kind, object.Name)
	counts := map[convert.Effect]int{}
	var remarks []string
	for _, remark := range object.Remarks {
		counts[remark.Effect]++
		remarks = append(remarks, "  "+remark.String())
	}
	switch {
	case object.Kind == "":
		return nil // only comments
	case object.Err != nil:
		return []string{fmt.Sprintf("%s is not converted: %v", name, object.Err)}
	case object.Result == "" && len(remarks) == 0:
		return []string{name + " is unchanged"}
	case object.Result == "":
		return append([]string{name + " is unchanged, but refers to Kubeflow"}, remarks...)
	}
	line := fmt.Sprintf("%s becomes a %s: %d not mapped, %d changed, %d defaults of Kubeflow", name, object.Result,
		counts[convert.NotMapped], counts[convert.Changed], counts[convert.Default])
	if rejected := counts[convert.Rejected]; rejected > 0 {
		line += fmt.Sprintf(", %d rejected by the API server", rejected)
	}
	if output == "json" {
		return append([]string{line}, remarks...)
	}
	return []string{line}
}
