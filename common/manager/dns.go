package manager

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
)

// defaultClusterDomain is the default DNS domain of Kubernetes distributions.
const defaultClusterDomain = "cluster.local"

// clusterDomain returns the DNS domain of the cluster. It finds the entry svc.<domain> in the search list that the
// kubelet writes into the resolv.conf of every pod. In a namespace named svc, there are two such entries, and the
// shorter one is the right one. Without such an entry, the domain is cluster.local.
func clusterDomain(resolvConf string) string {
	content, err := os.ReadFile(resolvConf) //nolint:gosec // the path is the resolver's own
	if err != nil {
		return defaultClusterDomain
	}
	found := ""
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, domain := range fields[1:] {
			if rest, ok := strings.CutPrefix(domain, "svc."); ok && (found == "" || len(rest) < len(found)) {
				found = rest
			}
		}
	}
	if found == "" {
		return defaultClusterDomain
	}
	return strings.TrimSuffix(found, ".")
}

// waitDNSCommand returns the command that the init container of a replica runs. The command first installs the program
// of the main container, if install is not nil and the flag --install is set. The command also succeeds after a
// timeout, because the framework decides whether a missing peer is an error.
func waitDNSCommand(logger logr.Logger, install func(folder string) error) *cobra.Command {
	var folder string
	var timeout, interval time.Duration
	cmd := &cobra.Command{
		Use:   "wait-dns [HOST...]",
		Short: "Wait until all host names resolve (run by the init container of a replica)",
		RunE: func(cmd *cobra.Command, args []string) error {
			if folder != "" {
				if err := install(folder); err != nil {
					return err
				}
			}
			waitForHosts(cmd.Context(), logger, net.DefaultResolver.LookupHost, args, interval, timeout)
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute,
		"total time to wait for all names before the command succeeds without them")
	cmd.Flags().DurationVar(&interval, "interval", 500*time.Millisecond, "interval between lookups of a name")
	if install != nil {
		cmd.Flags().StringVar(&folder, "install", "", "folder to install the program of the main container into, before "+
			"the wait (default: the program is not installed)")
	}
	return cmd
}

type lookup func(ctx context.Context, host string) ([]string, error)

// waitForHosts waits until all hosts resolve or the timeout for all of them expires. It waits for one host after
// another. All of them must resolve, so it would save little time to wait for them at the same time.
func waitForHosts(
	ctx context.Context, logger logr.Logger, look lookup, hosts []string, interval, timeout time.Duration,
) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, host := range hosts {
		// With a trailing dot, the resolver does not try the search domains first.
		name := strings.TrimSuffix(host, ".") + "."
		var last error
		err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
			_, last = look(ctx, name)
			return last == nil, nil
		})
		elapsed := time.Since(start).Round(time.Millisecond)
		if err != nil {
			logger.Info("the host name does not resolve; continuing without it", "host", host, "waited", elapsed.String(),
				"lastError", fmt.Sprint(last))
			return
		}
		logger.Info("the host name resolves", "host", host, "waited", elapsed.String())
	}
}
