package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/installed"
	"tensorstack.dev/jobs/common/version"
)

func newVersion(e *environment) *cobra.Command {
	var clientOnly bool
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of kubectl train, of Kubernetes and of the controllers",
		Long: `Print the versions of kubectl train, of Kubernetes and of the controllers in the cluster.

Every user sees which kinds the cluster has. The version of a controller is the tag of the image in its Deployment. If
you may not list the Deployments of all namespaces, only the controllers in your namespace are found, and the other
versions are unknown.

A warning is printed if the minor version of a controller is not the one that kubectl train was tested with, or if a
kind lacks fields that kubectl train knows.`,
		Example: `  # Print all versions
  kubectl train version

  # Print only the version of kubectl train, without a cluster
  kubectl train version --client

  # Print the versions for a report of a problem
  kubectl train version -o yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := versions{ClientVersion: version.Own()}
			var unreachable error
			if !clientOnly {
				unreachable = e.readVersions(cmd.Context(), &found)
			}
			return errors.Join(found.print(e.Out, e.ErrOut, output), unreachable)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "print only the version of kubectl train, without a cluster")
	addEnum(cmd, &output, "output", "o", "output format: json or yaml (default: a text)", "json", "yaml")
	return cmd
}

// versions is the output of kubectl train version.
type versions struct {
	ClientVersion version.Build             `json:"clientVersion"`
	ServerVersion *apimachineryversion.Info `json:"serverVersion,omitempty"`
	Controllers   []installed.Controller    `json:"controllers,omitempty"`
	// Unknown explains why the versions of some controllers are unknown.
	Unknown  string   `json:"unknown,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// readVersions reads the versions of Kubernetes and of the controllers from the cluster.
func (e *environment) readVersions(ctx context.Context, v *versions) error {
	c, err := e.connect()
	if err != nil {
		return err
	}
	// The discovery client of cli-runtime returns cached results, which can be hours old.
	discovered, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	if v.ServerVersion, err = discovered.ServerVersionWithContext(ctx); err != nil {
		return fmt.Errorf("reading the version of the cluster: %w\n"+
			"kubectl train version --client prints only the version of kubectl train", err)
	}
	if v.Controllers, err = installed.Controllers(ctx, discovered.OpenAPIV3WithContext(ctx)); err != nil {
		return err
	}
	err = installed.AddDeployments(ctx, c, c.namespace, v.Controllers)
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("reading the Deployments of the controllers: %w", err)
	}
	if err != nil {
		v.Unknown = "you may not read the Deployments of all namespaces, so ask an administrator of the cluster for the " +
			"versions of the controllers: " + err.Error()
	}
	for _, controller := range v.Controllers {
		v.Warnings = append(v.Warnings, warningsOf(controller)...)
	}
	return nil
}

// warningsOf returns the warnings about a controller: Deployments in unexpected namespaces, and differences between
// the controller and the client.
func warningsOf(c installed.Controller) []string {
	var warnings []string
	if len(c.Deployments) > 1 && c.Deployments[0].Namespace == c.ReleasedNamespace() {
		var others []string
		for _, d := range c.Deployments[1:] {
			others = append(others, d.Namespace)
		}
		warnings = append(warnings, fmt.Sprintf("%s is also in other namespaces than %s: %s. Other users can have "+
			"created it there", c.Name, c.ReleasedNamespace(), firstOf(others)))
	}
	for _, d := range c.Deployments {
		switch skew := compareMinor(d.Version, c.TestedVersion); {
		case skew > 0:
			warnings = append(warnings, fmt.Sprintf("%s in namespace %s has version %s, and kubectl train was tested with %s: "+
				"install a newer kubectl train", c.Name, d.Namespace, d.Version, c.TestedVersion))
		case skew < 0:
			warnings = append(warnings, fmt.Sprintf("%s in namespace %s has version %s, and kubectl train was tested with %s: "+
				"ask an administrator of the cluster to upgrade the controller", c.Name, d.Namespace, d.Version, c.TestedVersion))
		}
	}
	for _, kind := range c.Kinds {
		if len(kind.Served) > 0 && !slices.Contains(kind.Served, kind.APIVersion) {
			warnings = append(warnings, fmt.Sprintf("the cluster has %s only in %s, and kubectl train needs %s: "+
				"install another version of kubectl train", kind.Kind, strings.Join(kind.Served, ", "), kind.APIVersion))
		}
		if len(kind.MissingFields) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s lacks fields that kubectl train knows: %s. They have no effect until "+
				"an administrator of the cluster upgrades the CRD of the %s", kind.Kind, firstOf(kind.MissingFields), c.Name))
		}
	}
	return warnings
}

// compareMinor compares the major and minor numbers of two versions. It returns 0 if one of them is no semantic
// version.
func compareMinor(a, b string) int {
	first, err := utilversion.ParseSemantic(a)
	if err != nil {
		return 0
	}
	second, err := utilversion.ParseSemantic(b)
	if err != nil {
		return 0
	}
	return cmp.Or(cmp.Compare(first.Major(), second.Major()), cmp.Compare(first.Minor(), second.Minor()))
}

// firstOf returns a text with the first items of a list, separated by commas, and the number of the other items.
func firstOf(texts []string) string {
	const shown = 5
	if len(texts) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:shown], ", "), len(texts)-shown)
	}
	return strings.Join(texts, ", ")
}

// print prints the versions in an output format.
func (v versions) print(out, errOut io.Writer, output string) error {
	if output != "" {
		return printValue(out, output, v)
	}
	if _, err := fmt.Fprintf(out, "Client Version: %s\n", v.ClientVersion); err != nil {
		return err
	}
	if v.ServerVersion == nil {
		return nil
	}
	if _, err := fmt.Fprintf(out, "Kubernetes Version: %s\n", v.ServerVersion.GitVersion); err != nil {
		return err
	}
	if v.Controllers == nil {
		return nil
	}
	fmt.Fprintln(out)
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(v.table(), out); err != nil {
		return err
	}
	if v.Unknown != "" {
		fmt.Fprintf(errOut, "Some versions are unknown: %s\n", v.Unknown)
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(errOut, "Warning: %s\n", warning)
	}
	return nil
}

// printValue prints a value that is no object of Kubernetes. The output format is json or yaml.
func printValue(out io.Writer, output string, value any) error {
	if output == "yaml" {
		content, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	return encoder.Encode(value)
}

// table returns the table of controllers. It has a row for each Deployment of a controller, and one row for a
// controller without a Deployment.
func (v versions) table() *metav1.Table {
	table := &metav1.Table{}
	for _, name := range []string{"Controller", "Version", "Namespace", "Kinds"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	row := func(cells ...any) { table.Rows = append(table.Rows, metav1.TableRow{Cells: cells}) }
	for _, c := range v.Controllers {
		var served []string
		for _, kind := range c.Kinds {
			if len(kind.Served) > 0 {
				served = append(served, kind.Kind)
			}
		}
		kinds := cmp.Or(strings.Join(served, ", "), none)
		for _, d := range c.Deployments {
			row(c.Name, cmp.Or(d.Version, version.Unknown), d.Namespace, kinds)
		}
		switch {
		case len(c.Deployments) > 0:
		case !c.IsInstalled():
			row(c.Name, "not installed", none, kinds)
		case v.Unknown != "":
			row(c.Name, version.Unknown, none, kinds)
		default: // the API is installed without its controller
			row(c.Name, "not running", none, kinds)
		}
	}
	return table
}
