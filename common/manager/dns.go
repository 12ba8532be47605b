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

// defaultClusterDomain is what Kubernetes distributions use unless told otherwise.
const defaultClusterDomain = "cluster.local"

// clusterDomain reads the DNS domain of the cluster from the search list that the kubelet gives every pod, in which
// svc.<domain> is an entry. In a namespace called svc it is the shorter of two. Without such an entry it is
// cluster.local.
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

// waitDNSCommand is what the init container of a replica runs. It succeeds after the timeout too: whether a peer that
// cannot be found is an error is for the framework to say.
func waitDNSCommand(logger logr.Logger) *cobra.Command {
	var timeout, interval time.Duration
	cmd := &cobra.Command{
		Use:   "wait-dns HOST...",
		Short: "Wait until all host names resolve, for the init container of a replica",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			waitForHosts(cmd.Context(), logger, net.DefaultResolver.LookupHost, args, interval, timeout)
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute,
		"how long to wait in all before going on without the names")
	cmd.Flags().DurationVar(&interval, "interval", 500*time.Millisecond, "time between two look-ups")
	return cmd
}

type lookup func(ctx context.Context, host string) ([]string, error)

// waitForHosts waits for one host after the other, since it goes on only once all have resolved or the time for all of
// them is over.
func waitForHosts(
	ctx context.Context, logger logr.Logger, look lookup, hosts []string, interval, timeout time.Duration,
) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, host := range hosts {
		// A trailing dot keeps the resolver from trying every search domain first.
		name := strings.TrimSuffix(host, ".") + "."
		var last error
		err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
			_, last = look(ctx, name)
			return last == nil, nil
		})
		elapsed := time.Since(start).Round(time.Millisecond)
		if err != nil {
			logger.Info("the name does not resolve yet; going on without it", "host", host, "waited", elapsed.String(),
				"lastError", fmt.Sprint(last))
			return
		}
		logger.Info("the name resolves", "host", host, "waited", elapsed.String())
	}
}
