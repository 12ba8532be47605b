package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/preview"
	"tensorstack.dev/jobs/cli/printable"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/network"
)

// planFlags are the flags of kubectl train plan.
type planFlags struct {
	filenames       []string
	recursive       bool
	output, replica string
	// installed has the options of the controllers from the flags, and controllerNamespace is their namespace. Both
	// override the released manifests.
	installed           controller.Options
	controllerNamespace string
}

func newPlan(e *environment) *cobra.Command {
	f := planFlags{}
	cmd := &cobra.Command{
		Use:   "plan -f FILENAME",
		Short: "Show the objects that a controller would create for a job, without a cluster",
		Long: `Show the objects that a job controller would create for the jobs in manifests: the pods of all replicas with their
command lines and environments, the Service, and what else the job needs.

The command needs no cluster and no kubeconfig. The code of the controllers builds the objects. The jobs are validated
like by the API server with strict validation: the command fails with the same errors. It does not validate the pods,
and it does not know the admission policies, quotas and defaults of a cluster.

For a job with a queue, the pods are those that are created after the admission. Random values are left out: the keys
in Secrets, and tokens. The UID of the job is ` + string(controller.UnknownUID) + `, unless the manifest has one. So
kubectl get -o yaml of an existing job shows the objects of that job as if it were new.

The objects depend on the installation of the controller. The defaults of --controller-image and --controller-namespace
are those of the released manifests. An administrator can have changed them, and the other settings.`,
		Example: `  # Show a summary of the pods and other objects of the jobs in a file
  kubectl train plan -f job.yaml

  # Show one pod in full
  kubectl train plan -f job.yaml --replica digits-worker-0 -o yaml

  # Show how a change of the manifest changes the objects
  diff <(kubectl train plan -f old.yaml -o yaml) <(kubectl train plan -f new.yaml -o yaml)

  # Validate all jobs in a folder
  kubectl train plan -R -f jobs/ -o name

  # Show the objects of an existing job, in an installation with NetworkPolicies
  kubectl get ptjob digits -o yaml | kubectl train plan -f - --network-policies`,
		Args:              manifestsOf(&f.filenames),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.plan(cmd.Context(), f)
		},
	}
	files := genericclioptions.FileNameFlags{
		Usage:     "files or folders with the manifests of jobs, or - for the standard input",
		Filenames: &f.filenames, Recursive: &f.recursive,
	}
	files.AddFlags(cmd.Flags())
	addEnum(cmd, &f.output, "output", "o", "output format: name, json or yaml (default: a summary)",
		"name", "json", "yaml")
	cmd.Flags().StringVar(&f.replica, "replica", "", "show only the pod with this name")
	cmd.Flags().StringVar(&f.installed.Image, "controller-image", "",
		"image of the controller, which the containers that it adds run (default: the released image)")
	cmd.Flags().StringVar(&f.controllerNamespace, "controller-namespace", "",
		"namespace of the controller, which NetworkPolicies allow to read progress (default: the released namespace)")
	cmd.Flags().StringVar(&f.installed.ClusterDomain, "cluster-domain", "cluster.local", "DNS domain of the cluster")
	cmd.Flags().BoolVar(&f.installed.HoldLeaders, "hold-leaders", false,
		"the controller runs with --hold-leaders: the pods of leaders have a finalizer")
	f.installed.HelperResources = controller.DefaultOptions().HelperResources
	manager.AddResourceFlag(cmd.Flags(), &f.installed.HelperResources, "helper-resources",
		"the --helper-resources of the controller: CPU and memory of the sidecar that receives reports of progress")
	f.installed.NetworkPolicies.AddFlags(cmd.Flags(), "job", "the replicas of the job")
	return cmd
}

// plan prints the plans of the jobs in the files. It prints the plans of the valid jobs even if other jobs are invalid.
func (e *environment) plan(ctx context.Context, f planFlags) error {
	if err := f.installed.NetworkPolicies.Validate(); err != nil {
		return err
	}
	namespace, isForced, err := e.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	documents, err := preview.Read(f.filenames, f.recursive, e.In)
	var plans []preview.Plan
	errs := []error{err}
	for _, d := range documents {
		kind, err := preview.KindOf(d)
		if kind == nil && err == nil {
			ignored := fmt.Sprintf("%s: ignored, since %s %q is no job", d.Source, d.Kind.Kind, d.Name)
			fmt.Fprintln(e.ErrOut, printable.Escaped(ignored))
			continue
		}
		if err == nil {
			var plan preview.Plan
			if plan, err = f.planOf(ctx, kind, d, namespace, isForced); err == nil {
				plans, err = append(plans, plan), plan.Problem()
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.Source, err))
		}
	}
	if len(plans) == 0 && errors.Join(errs...) == nil {
		return errors.New("the files have no job: a job has the apiVersion batch.tensorstack.dev/v1beta1 and one of the " +
			"kinds " + jobs.Described())
	}
	return errors.Join(append([]error{e.printPlans(plans, f)}, errs...)...)
}

// planOf returns the plan of the job in a document. The last two parameters are those of preview.Admit.
func (f planFlags) planOf(
	ctx context.Context, kind *jobs.Kind, d preview.Document, namespace string, isForced bool,
) (preview.Plan, error) {
	job, err := preview.Admit(ctx, kind, d, namespace, isForced)
	if err != nil {
		return preview.Plan{}, err
	}
	installed, err := kind.Released()
	if err != nil {
		return preview.Plan{}, err
	}
	installed.Image = cmp.Or(f.installed.Image, installed.Image)
	if f.controllerNamespace != "" {
		installed.ProgressReader = network.ControllerPods(f.controllerNamespace, kind.Controller)
	}
	installed.ClusterDomain, installed.HelperResources = f.installed.ClusterDomain, f.installed.HelperResources
	installed.HoldLeaders, installed.NetworkPolicies = f.installed.HoldLeaders, f.installed.NetworkPolicies
	return preview.NewPlan(job, installed)
}

// printPlans prints plans, or one pod of them, in the output format of the flags.
func (e *environment) printPlans(plans []preview.Plan, f planFlags) error {
	var objects []client.Object
	for i, plan := range plans {
		for _, r := range plan.Replicas {
			if r.Pod.Name == f.replica && f.output == "" {
				return plan.WriteReplica(e.Out, r)
			}
		}
		for _, object := range plan.All() {
			if _, isPod := object.(*corev1.Pod); f.replica == "" || isPod && object.GetName() == f.replica {
				objects = append(objects, object)
			}
		}
		if f.replica != "" || f.output != "" {
			continue
		}
		if i > 0 {
			fmt.Fprintln(e.Out)
		}
		if err := plan.WriteSummary(e.Out); err != nil {
			return err
		}
	}
	switch {
	case f.replica != "" && len(objects) == 0 && len(plans) > 0:
		return fmt.Errorf("no job has a pod %q: kubectl train plan -o name prints the names of the pods", f.replica)
	case f.output == "" || len(objects) == 0:
		return nil
	}
	for i, object := range objects {
		sent, err := preview.Unstructured(object)
		if err != nil {
			return err
		}
		objects[i] = sent
	}
	return e.printObjects(objects, f.output, f.output == "json" && f.replica == "")
}
