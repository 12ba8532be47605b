package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const leftovers = "training,pods,services,endpointslices"

var _ = Describe("PyTorchTrainingJob", Label("pytorch"), func() {
	DescribeTable("trains for real: the examples as they stand",
		func(ctx context.Context, example, job, leader string, pods []string, processes int) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "apply", "-f", "examples/pytorch/"+example)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/"+job, "--timeout=180s")

			Expect(n.names(ctx, "pods")()).To(ConsistOf(pods))
			logs := ""
			for _, pod := range pods {
				logs += n.kubectl(ctx, "logs", pod, "-c", "pytorch") + "\n"
			}
			Expect(strings.Count(logs, "epoch 10  loss")).To(Equal(1), "rank 0 prints the loss")
			Expect(strings.Count(logs, "rank ")).To(Equal(processes))
			Expect(n.kubectl(ctx, "get", "ptjob", job, "-o", "jsonpath={.status.phase} {.status.backoffCount} {.status.conditions[?(@.type=='Completed')].message}")).
				To(Equal("Succeeded 0 leader " + leader + " succeeded"))

			n.kubectl(ctx, "delete", "ptjob", job)
			Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty(), "deleting the job leaves nothing")
		},
		Entry("python with RANK and WORLD_SIZE", "plain.yaml", "digits-plain", "digits-plain-worker-0",
			[]string{"pod/digits-plain-worker-0", "pod/digits-plain-worker-1"}, 2),
		Entry("torchrun by torchrunConfig", "torchrun.yaml", "digits-torchrun", "digits-torchrun-worker-0",
			[]string{"pod/digits-torchrun-worker-0", "pod/digits-torchrun-worker-1"}, 4),
		Entry("a torchrun command of the user's own", "own-torchrun.yaml", "digits-own-torchrun", "digits-own-torchrun-node-0",
			[]string{"pod/digits-own-torchrun-node-0", "pod/digits-own-torchrun-node-1"}, 4),
		Entry("a master and workers", "master-worker.yaml", "digits-master-worker", "digits-master-worker-master-0",
			[]string{"pod/digits-master-worker-master-0", "pod/digits-master-worker-worker-0", "pod/digits-master-worker-worker-1"}, 3),
	)

	It("says why a script failed: exit code, replica and last output, in the condition", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.follow(ctx, "pytorch/README.md", "How it ends")

		message := n.kubectl(ctx, "get", "ptjob", "failing", "-o", "jsonpath={.status.conditions[?(@.type=='Failed')].message}")
		Expect(message).To(HavePrefix("replica failing-worker-1 failed with exit code 1 (Error) and runPolicy.backoffLimit (1) allows no further restart; its last output:\n"))
		Expect(message).To(HaveSuffix("ValueError: the data has no labels"))
		Expect(n.kubectl(ctx, "get", "ptjob", "failing", "-o", "jsonpath={.status.backoffCount}")).To(Equal("1"))
		Expect(n.kubectl(ctx, "get", "ptjob", "failing", "-o", "jsonpath={.status.failures[*].exitCode}")).To(Equal("1 1"))
		Expect(n.kubectl(ctx, "logs", "failing-worker-1", "-c", "pytorch")).To(ContainSubstring("the data has no labels"),
			"cleanUpPolicy None keeps the pods, with their logs")
		Expect(n.names(ctx, "pods")()).To(ConsistOf("pod/failing-worker-0", "pod/failing-worker-1"))
		Expect(n.kubectl(ctx, "describe", "ptjob", "failing")).To(ContainSubstring("BackoffLimitExceeded"))
	})

	It("leaves nothing behind when it is deleted while it runs", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/failing.yaml")
		Eventually(ctx, n.names(ctx, "pods")).Should(HaveLen(2))
		n.kubectl(ctx, "delete", "ptjob", "failing", "--wait=false")
		Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty())
	})

	It("shows how it stands in one line, as the README has it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/torchrun.yaml")
		n.follow(ctx, "README.md", "A job")
		Expect(n.names(ctx, "training")()).To(ConsistOf("pytorchtrainingjob.batch.tensorstack.dev/digits-torchrun"))
		line := func(i int) []string {
			return strings.Fields(strings.Split(n.kubectl(ctx, "get", "ptjob", "-o", "wide"), "\n")[i])
		}
		Expect(line(0)).To(Equal([]string{"NAME", "PHASE", "READY", "RESTARTS", "AGE", "QUEUE", "REASON"}))
		// The leader's success ends the job, perhaps while the other replica is still on its way out.
		Eventually(ctx, func() []string { return line(1)[:4] }).Should(Equal([]string{"digits-torchrun", "Succeeded", "0/2", "0"}))
	})

	It("is for those who may edit a namespace to change, and for those who may view it to see", func(ctx context.Context) {
		n := newNamespace(ctx)
		for _, role := range []string{"view", "edit"} {
			n.kubectl(ctx, "create", "rolebinding", role, "--clusterrole="+role, "--user="+role+"er")
		}
		// The controller-manager aggregates the roles some time after they are installed.
		canI := func(user string, what ...string) func() string {
			return func() string {
				answer, _ := kubectl(ctx, append([]string{"-n", string(n), "auth", "can-i", "--as", user}, what...)...)
				return answer
			}
		}
		Eventually(ctx, canI("viewer", "list", "pytorchtrainingjobs.batch.tensorstack.dev")).Should(Equal("yes"))
		Eventually(ctx, canI("editer", "create", "pytorchtrainingjobs.batch.tensorstack.dev")).Should(Equal("yes"))
		Expect(canI("viewer", "create", "pytorchtrainingjobs.batch.tensorstack.dev")()).To(Equal("no"))
		Expect(canI("editer", "patch", "pytorchtrainingjobs.batch.tensorstack.dev", "--subresource=status")()).To(Equal("no"))
	})
})

var _ = Describe("pytorch-controller", Label("pytorch"), func() {
	const n = namespace("t9k-pytorch")

	It("runs as a restricted pod: not as root, with a read-only root file system", func(ctx context.Context) {
		Expect(n.kubectl(ctx, "get", "namespace", string(n), "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`)).To(Equal("restricted"))
		container := "{.items[0].spec.containers[0].securityContext."
		Expect(n.kubectl(ctx, "get", "pods", "-o", "jsonpath="+container+"readOnlyRootFilesystem} "+container+"allowPrivilegeEscalation}")).To(Equal("true false"))
		Expect(n.kubectl(ctx, "get", "pods", "-o", "jsonpath={.items[0].spec.securityContext.runAsNonRoot}")).To(Equal("true"))
	})

	It("may do what it needs and no more", func(ctx context.Context) {
		as := "--as=system:serviceaccount:t9k-pytorch:pytorch-controller"
		for _, refused := range [][]string{
			{"get", "secrets"},
			{"update", "pytorchtrainingjobs"},
			{"create", "pytorchtrainingjobs"},
			{"update", "pods"},
			{"create", "pods", "--subresource=exec"},
			{"delete", "services"},
			{"get", "configmaps"},
			{"create", "leases", "-n", "default"},
		} {
			answer, _ := kubectl(ctx, append([]string{"auth", "can-i", as}, refused...)...)
			Expect(answer).To(Equal("no"), "%v", refused)
		}
	})

	It("tells Prometheus of its jobs, by metrics that are documented", func(ctx context.Context) {
		job := newNamespace(ctx)
		job.kubectl(ctx, "apply", "-f", "examples/pytorch/failing.yaml")
		job.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/failing", "--timeout=180s")

		pod := n.kubectl(ctx, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
		metrics := n.kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+string(n)+"/pods/"+pod+":8080/proxy/metrics")
		Expect(metrics).To(MatchRegexp(`(?m)^tensorstack_jobs\{kind="PyTorchTrainingJob",phase="Failed"\} [1-9]`))
		Expect(metrics).To(MatchRegexp(`(?m)^tensorstack_job_restarts_total\{cause="Error",counted="true",kind="PyTorchTrainingJob"\} [1-9]`))
		areDocumented(metrics)
	})

	It("holds the leader Lease", func(ctx context.Context) {
		Eventually(ctx, func() string {
			return n.kubectl(ctx, "get", "lease", "pytorch-controller", "-o", "jsonpath={.spec.holderIdentity}")
		}).Should(HavePrefix("pytorch-controller-"))
	})
})
