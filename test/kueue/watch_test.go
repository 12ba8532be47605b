package kueue

import (
	"bytes"
	"context"
	"io"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"tensorstack.dev/jobs/cli/command"
)

var _ = Describe("kubectl train watch", func() {
	It("shows the LocalQueue of a job, how many jobs wait in it, and that it admits the job", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		first := c.job(ctx, pytorch, "first")
		Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, c.watched(ctx, "first")).Should(ContainSubstring(" ptjob/first queue: queue, admitted\n"))
		second := c.job(ctx, pytorch, "second")
		Eventually(ctx, second.state(ctx)).Should(HavePrefix("Pending Queued: "))
		Eventually(ctx, c.watched(ctx, "second")).Should(ContainSubstring(" ptjob/second queue: queue, 1 job waiting\n"))
	})
})

// watched returns a function that runs kubectl train watch for a moment, and returns its output.
func (c *cluster) watched(ctx context.Context, name string) func() (string, error) {
	return func() (string, error) {
		kubeconfig, err := c.Kubeconfig("user", "user", "system:masters")
		if err != nil {
			return "", err
		}
		var out bytes.Buffer
		cmd := command.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: io.Discard})
		cmd.SetArgs([]string{"--kubeconfig", kubeconfig, "watch", name, "--timeout=5s"})
		_ = cmd.ExecuteContext(ctx) // the command fails, because it times out before the job has finished
		return out.String(), nil
	}
}
