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
		func(ctx context.Context, isInQueue bool, kinds ...string) {
			n := newNamespace(ctx)
			scheduler := ""
			if isInQueue {
				scheduler = fmt.Sprintf("\n  scheduler: {t9kScheduler: {queue: %s}}", n.queue(ctx, "1"))
			}
			By("taking the room for three pods, so that a job of four gets three")
			others := []string{"other-0", "other-1", "other-2"}
			for _, other := range others {
				n.kubectl(ctx, "run", other, "--image=tensorstack/pytorch-example:2.6.0", "--command", "--", "sleep", "infinity")
			}
			// The start of a pod makes Kubernetes count the pods again. If pods are created in this moment, it misses them.
			n.kubectl(ctx, "wait", "--for=condition=Ready", "pod/other-0", "pod/other-1", "pod/other-2", timeout)
			n.kubectl(ctx, "create", "quota", "few", "--hard=count/pods=6,count/secrets=0")
			n.kubectl(ctx, "wait", "--for=jsonpath={.status.used.count/pods}=3", "quota/few", timeout)
			Eventually(ctx, func() error { // the API server applies a new quota with a delay
				_, err := n.output(ctx, "create", "secret", "generic", "probe", "--dry-run=server")()
				return err
			}).Should(MatchError(ContainSubstring("exceeded quota: few")))
			jobs := map[string][]string{} // the names of the jobs by kind, the oldest first
			create := func(kind, job string) {
				n.kubectlWith(ctx, collective(kind, job, scheduler), "apply", "-f", "-")
				jobs[kind] = append(jobs[kind], job)
			}
			create("PyTorchTrainingJob", "a")
			Eventually(ctx, n.output(ctx, "get", "ptjob/a", "-o", "jsonpath={.status.evictions} {.status.backoffCount}")).
				Should(Equal("1 0"))
			Eventually(ctx, n.output(ctx, "get", "pods", "-l", "batch.tensorstack.dev/job-name=a", "-o", "name")).
				Should(BeEmpty())
			Expect(n.output(ctx, "get", "ptjob/a", "-o", "wide")()).To(
				MatchRegexp(`ResourceQuotaExceeded +creating pod a-worker-\d: .* exceeded quota: few, requested: count/pods=1`))

			By("creating five more jobs, and then making room for six pods")
			for i, job := range []string{"b", "c", "d", "e", "f"} {
				create(kinds[i%len(kinds)], job)
			}
			n.kubectl(ctx, append([]string{"delete", "pod", "--grace-period=1"}, others...)...)
			for kind, names := range jobs {
				for _, job := range names {
					n.kubectl(ctx, "wait", "--for=condition=Completed", kind+"/"+job, timeout)
				}
				ended := n.output(ctx, "get", kind, "--sort-by=.status.completionTime", "-o",
					"jsonpath={.items[*].metadata.name}")
				Expect(ended()).To(Equal(strings.Join(names, " ")))
			}
		},
		Entry("without a queue", false, "PyTorchTrainingJob"),
		Entry("in a queue", true, "PyTorchTrainingJob"),
		Entry("of two kinds", false, "TensorFlowTrainingJob", "PyTorchTrainingJob"),
	)
})

// collective returns the manifest of a job of four replicas. The replicas end when replicas 1 to 3 have connected to
// replica 0. The parameter spec is YAML that is added to the spec of the job.
func collective(kind, name, spec string) string {
	container := strings.ToLower(strings.TrimSuffix(kind, "TrainingJob"))
	return fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: %s
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
            - name: %s
              image: tensorstack/pytorch-example:2.6.0
              command: [python3, -c]
              args:
                - |
                  import json, os, socket, time
                  if "TF_CONFIG" in os.environ:
                      config = json.loads(os.environ["TF_CONFIG"])
                      rank, first = config["task"]["index"], config["cluster"]["worker"][0].split(":")
                  else:
                      rank, first = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
                  port = int(first[1])
                  if rank == 0:
                      server = socket.create_server(("", port))
                      peers = [server.accept()[0] for _ in range(3)]
                  else:
                      while True:
                          try:
                              socket.create_connection((first[0], port)).recv(1)
                              break
                          except OSError:
                              time.sleep(0.2)
              resources: {requests: {cpu: 10m}}
`, kind, name, spec, container)
}
