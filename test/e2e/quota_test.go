package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Jobs under a ResourceQuota", Label("queues"), func() {
	DescribeTable("keep no pods that they cannot use, and run one after the other, the oldest first",
		func(ctx context.Context, isInQueue bool) {
			n := newNamespace(ctx)
			scheduler := ""
			if isInQueue {
				scheduler = fmt.Sprintf("\n  scheduler: {t9kScheduler: {queue: %s}}", n.queue(ctx, "1"))
			}
			n.kubectl(ctx, "create", "quota", "few", "--hard=count/pods=6")
			n.kubectl(ctx, "wait", "--for=jsonpath={.status.hard}", "quota/few", timeout)
			By("taking the room for three pods, so that a job of four gets three")
			others := []string{"other-0", "other-1", "other-2"}
			for _, other := range others {
				n.kubectl(ctx, "run", other, "--image=tensorstack/pytorch-example:2.6.0", "--command", "--", "sleep", "infinity")
			}
			create := func(job string) { n.kubectlWith(ctx, collective(job, scheduler), "apply", "-f", "-") }
			create("a")
			Eventually(ctx, n.output(ctx, "get", "ptjob/a", "-o", "jsonpath={.status.evictions} {.status.backoffCount}")).
				Should(Equal("1 0"))
			Eventually(ctx, n.output(ctx, "get", "pods", "-l", "batch.tensorstack.dev/job-name=a", "-o", "name")).
				Should(BeEmpty())
			Expect(n.output(ctx, "get", "ptjob/a", "-o", "wide")()).To(
				MatchRegexp(`ResourceQuotaExceeded +creating pod a-worker-\d: .* exceeded quota: few, requested: count/pods=1`))

			By("creating five more jobs, and then making room for six pods")
			jobs := []string{"a", "b", "c", "d", "e", "f"}
			for _, job := range jobs[1:] {
				create(job)
			}
			n.kubectl(ctx, append([]string{"delete", "pod", "--grace-period=1"}, others...)...)
			for _, job := range jobs {
				n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/"+job, timeout)
			}
			ended := n.output(ctx, "get", "ptjob", "--sort-by=.status.completionTime", "-o",
				"jsonpath={.items[*].metadata.name}")
			Expect(ended()).To(Equal(strings.Join(jobs, " ")))
		},
		Entry("without a queue", false),
		Entry("in a queue", true),
	)
})

// collective returns the manifest of a job of four replicas that end when all of them have met. The YAML is a part of
// its spec.
func collective(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: %s
spec:%s
  runPolicy: {cleanUpPolicy: All}
  replicaSpecs:
    - type: worker
      replicas: 4
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: pytorch
              image: tensorstack/pytorch-example:2.6.0
              command: [python3, -c]
              args:
                - |
                  import os, socket, time
                  port = int(os.environ["MASTER_PORT"])
                  if os.environ["RANK"] == "0":
                      server = socket.create_server(("", port))
                      peers = [server.accept()[0] for _ in range(3)]
                  else:
                      while True:
                          try:
                              socket.create_connection((os.environ["MASTER_ADDR"], port)).recv(1)
                              break
                          except OSError:
                              time.sleep(0.2)
              resources: {requests: {cpu: 10m}}
`, name, spec)
}
