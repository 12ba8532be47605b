// Command localcluster runs a Kubernetes cluster on this machine. See package localcluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"tensorstack.dev/jobs/test/localcluster"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var repo, kubernetes string
	cluster := &localcluster.Cluster{}
	root := &cobra.Command{
		Use:   "localcluster",
		Short: "Run a Kubernetes cluster on this machine, built only from Go modules and Debian packages",
		Long: `Run a Kubernetes cluster on this machine, built only from Go modules and Debian packages.

The control plane is real. The node is real if the user is root and the Debian packages can be installed. Otherwise,
nodes are simulated. Binaries and images are built once, in TENSORSTACK_CACHE (default: ~/.cache/tensorstack-jobs). The
state of the cluster is in TENSORSTACK_STATE (default: ~/.local/state/tensorstack-jobs/localcluster). The command down
removes all of it.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			paths, err := localcluster.DefaultPaths()
			if err != nil {
				return err
			}
			found, err := localcluster.FindRepo(repo)
			if err != nil {
				return err
			}
			*cluster = *localcluster.New(found, kubernetes, paths, localcluster.NewProgress(os.Stderr))
			return nil
		},
	}
	root.PersistentFlags().StringVar(&repo, "repo", "",
		"root of the repository (default: found from the working directory)")
	root.PersistentFlags().StringVar(&kubernetes, "kubernetes", localcluster.DefaultKubernetes,
		"folder in test/localcluster/components that pins the version of Kubernetes")
	root.AddCommand(append(simple(cluster), up(cluster), cache(cluster))...)
	return root
}

func up(cluster *localcluster.Cluster) *cobra.Command {
	var options localcluster.UpOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster, or repair it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.Nodes < 1 || options.Nodes > 2000 {
				return errors.New("--nodes must be from 1 to 2000")
			}
			return cluster.Up(cmd.Context(), options)
		},
	}
	cmd.Flags().BoolVar(&options.Simulated, "simulated", false, "simulate nodes even if a real node can run")
	cmd.Flags().IntVar(&options.Nodes, "nodes", 2, "number of nodes to simulate, from 1 to 2000")
	return cmd
}

func cache(cluster *localcluster.Cluster) *cobra.Command {
	var empty bool
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Print the sizes of the parts of the cache, or delete the cache",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if empty {
				return cluster.Paths.ClearCache()
			}
			return cluster.Paths.PrintCache(os.Stdout)
		},
	}
	cmd.Flags().BoolVar(&empty, "clear", false, "delete everything in the cache; later commands build it again")
	return cmd
}

func simple(cluster *localcluster.Cluster) []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "build [FRAMEWORK[:VERSION]...]",
			Short: "Build all that up needs and the training images of the named frameworks, without starting a cluster",
			RunE: func(cmd *cobra.Command, frameworks []string) error {
				return cluster.Build(cmd.Context(), frameworks...)
			},
		},
		{
			Use:   "down",
			Short: "Remove the cluster and all its traces on this machine, except the cache",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return cluster.Down(cmd.Context()) },
		},
		{
			Use:   "status",
			Short: "Print one line for each component, and fail unless the cluster is healthy",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return cluster.Status(cmd.Context(), os.Stdout) },
		},
		{
			Use:   "kill NAME...",
			Short: "Kill components, named as in the output of status; up starts them again",
			Args:  cobra.MinimumNArgs(1),
			RunE:  func(_ *cobra.Command, names []string) error { return cluster.Kill(names...) },
		},
		{
			Use:   "load-image FILE...",
			Short: "Load Docker archives or OCI layouts into the node",
			Args:  cobra.MinimumNArgs(1),
			RunE:  func(cmd *cobra.Command, files []string) error { return cluster.LoadImages(cmd.Context(), files...) },
		},
		{
			Use:   "training-image [FRAMEWORK[:VERSION]...]",
			Short: "Build the images of the examples and of TensorBoard, or of the named frameworks, and load them",
			RunE: func(cmd *cobra.Command, frameworks []string) error {
				return cluster.TrainingImages(cmd.Context(), frameworks...)
			},
		},
		{
			Use:   "component-image COMPONENT...",
			Short: "Build the images of programs in test/localcluster/components that tests run in pods, and load them",
			Args:  cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, components []string) error {
				return cluster.ComponentImages(cmd.Context(), components...)
			},
		},
		{
			Use:   "assets",
			Short: "Build kube-apiserver, etcd and kubectl, and print their folder for KUBEBUILDER_ASSETS",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return printed(cluster.Assets(cmd.Context()))
			},
		},
		{
			Use:   "browser",
			Short: "Install a headless browser if there is none, and print its path for CHROMIUM of the end-to-end tests",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return printed(cluster.Browser(cmd.Context()))
			},
		},
		{
			Use:   "kind",
			Short: "Print whether the nodes are real or simulated",
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				kind, err := cluster.NodeKind()
				return printed(string(kind), err)
			},
		},
		{
			Use:   "kubeconfig",
			Short: "Print the path of the administrator's kubeconfig",
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				return printed(cluster.Paths.Kubeconfig(), nil)
			},
		},
		{
			Use:   "bin-dir",
			Short: "Print the folder of the kubectl that up builds",
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				return printed(cluster.BinDir(cluster.Kubernetes))
			},
		},
		{
			Use:   "env",
			Short: `Print shell code that sets KUBECONFIG and PATH: eval "$(localcluster env)"`,
			Args:  cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				bin, err := cluster.BinDir(cluster.Kubernetes)
				return printed(fmt.Sprintf("export KUBECONFIG=%q PATH=%q:\"$PATH\"", cluster.Paths.Kubeconfig(), bin), err)
			},
		},
	}
}

func printed(line string, err error) error {
	if err != nil {
		return err
	}
	fmt.Println(line)
	return nil
}
