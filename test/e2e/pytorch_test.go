package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const leftovers = "training,pods,services,endpointslices"

var _ = Describe("A PyTorchTrainingJob", Label("pytorch"), func() {
	DescribeTable("completes the unmodified example",
		func(ctx context.Context, example, job, leader string, pods []string, processes int) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "apply", "-f", "examples/pytorch/"+example)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/"+job, timeout)

			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf(pods))
			logs := ""
			for _, pod := range pods {
				logs += now(n.output(ctx, "logs", pod, "-c", "pytorch")) + "\n"
			}
			Expect(strings.Count(logs, "epoch 10  loss")).To(Equal(1), "only rank 0 prints the loss")
			Expect(strings.Count(logs, "rank ")).To(Equal(processes))
			Eventually(ctx, n.output(ctx, "get", "ptjob", job, "-o",
				"jsonpath={.status.phase} {.status.backoffCount} {.status.conditions[?(@.type=='Completed')].message}")).
				Should(Equal("Succeeded 0 leader " + leader + " succeeded"))

			n.kubectl(ctx, "delete", "ptjob", job)
			Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty(), "deleting the job deletes all its objects")
		},
		Entry("with python, RANK and WORLD_SIZE", Label("always"), "plain.yaml", "digits-plain", "digits-plain-worker-0",
			[]string{"pod/digits-plain-worker-0", "pod/digits-plain-worker-1"}, 2),
		Entry("with torchrunConfig", Label("always"), "torchrun.yaml", "digits-torchrun", "digits-torchrun-worker-0",
			[]string{"pod/digits-torchrun-worker-0", "pod/digits-torchrun-worker-1"}, 4),
		Entry("with a custom torchrun command", "own-torchrun.yaml", "digits-own-torchrun", "digits-own-torchrun-node-0",
			[]string{"pod/digits-own-torchrun-node-0", "pod/digits-own-torchrun-node-1"}, 4),
		Entry("with a master and workers", "master-worker.yaml", "digits-master-worker", "digits-master-worker-master-0",
			[]string{
				"pod/digits-master-worker-master-0", "pod/digits-master-worker-worker-0", "pod/digits-master-worker-worker-1",
			}, 3),
	)

	It("trains with the example for GPUs on CPUs", Label("gpu"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-gpu")
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.applyOnCPUs(ctx, "examples/pytorch/gpu.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-gpu", timeout)

		for _, pod := range []string{"digits-gpu-worker-0", "digits-gpu-worker-1"} {
			log := now(n.output(ctx, "logs", pod, "-c", "pytorch"))
			Expect(strings.Count(log, " of 4 on "+pod)).To(Equal(2), "each replica has two processes: %s", log)
			Eventually(ctx, n.output(ctx, "get", "pod", pod, "-o",
				"jsonpath={.spec.tolerations[*].key} {.spec.containers[*].volumeMounts[*].mountPath}")).
				Should(And(ContainSubstring("nvidia.com/gpu"), ContainSubstring("/dev/shm")))
		}
		Eventually(ctx, n.output(ctx, "logs", "digits-gpu-worker-0", "-c", "pytorch")).
			Should(MatchRegexp(`epoch 40  loss .* processes 4`))
	})

	It("reports the exit code, the replica and the last output of a script that fails", Label("always"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.follow(ctx, "docs/train/jobs.md", "How it ends")

			message := now(n.output(ctx, "get", "ptjob", "failing", "-o",
				"jsonpath={.status.conditions[?(@.type=='Failed')].message}"))
			Expect(message).To(HavePrefix("replica failing-worker-1 (rank 1) failed with exit code 1 (Error) " +
				"and runPolicy.backoffLimit (1) allows no further restart; its last output:\n"))
			Expect(message).To(HaveSuffix("ValueError: the data has no labels"))
			Eventually(ctx, n.output(ctx, "get", "ptjob", "failing", "-o", "jsonpath={.status.backoffCount}")).Should(Equal("1"))
			Eventually(ctx, n.output(ctx, "get", "ptjob", "failing", "-o", "jsonpath={.status.failures[*].exitCode}")).
				Should(Equal("1 1"))
			Eventually(ctx, n.output(ctx, "logs", "failing-worker-1", "-c", "pytorch")).
				Should(ContainSubstring("the data has no labels"), "cleanUpPolicy None keeps the pods and their logs")
			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/failing-worker-0", "pod/failing-worker-1"))
			Eventually(ctx, n.output(ctx, "describe", "ptjob", "failing")).Should(ContainSubstring("BackoffLimitExceeded"))
		})

	It("can be deleted with all its objects while it runs", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/failing.yaml")
		Eventually(ctx, n.names(ctx, "pods")).Should(HaveLen(2))
		n.kubectl(ctx, "delete", "ptjob", "failing", "--wait=false")
		Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty())
	})

	It("runs and fails as docs/operate/get-started.md shows", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.follow(ctx, "docs/operate/get-started.md", "Run a job")
		n.follow(ctx, "docs/operate/get-started.md", "See why a job failed")
	})

	It("shows its state in one line of kubectl get, as README.md shows", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/torchrun.yaml")
		n.follow(ctx, "README.md", "A job")
		Eventually(ctx, n.names(ctx, "training")).
			Should(ConsistOf("pytorchtrainingjob.batch.tensorstack.dev/digits-torchrun"))
		// The phase becomes Succeeded when the last replica has ended.
		Eventually(ctx, n.output(ctx, "get", "ptjob", "-o", "wide")).Should(And(
			MatchRegexp(`^NAME +PHASE +READY +PROGRESS +RESTARTS +DISRUPTIONS +AGE `+
				`+INPLACE +ETA +QUEUE +LOCALQUEUE +REASON +MESSAGE`),
			MatchRegexp(`(?m)^digits-torchrun +Succeeded +2/2 +0 `)))
	})

	It("can be changed with the ClusterRole edit, and only read with the ClusterRole view", func(ctx context.Context) {
		n := newNamespace(ctx)
		for _, role := range []string{"view", "edit"} {
			n.kubectl(ctx, "create", "rolebinding", role, "--clusterrole="+role, "--user="+role+"er")
		}
		// The kube-controller-manager aggregates the roles some time after their installation.
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

var _ = Describe("The pytorch-controller", Label("pytorch"), func() {
	const n = namespace("t9k-pytorch")

	It("runs in a restricted pod, not as root and with a read-only root file system", func(ctx context.Context) {
		Eventually(ctx, n.output(ctx, "get", "namespace", string(n), "-o",
			`jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`)).Should(Equal("restricted"))
		container := "{.items[0].spec.containers[0].securityContext."
		Eventually(ctx, n.output(ctx, "get", "pods", "-o",
			"jsonpath="+container+"readOnlyRootFilesystem} "+container+"allowPrivilegeEscalation}")).
			Should(Equal("true false"))
		Eventually(ctx, n.output(ctx, "get", "pods", "-o", "jsonpath={.items[0].spec.securityContext.runAsNonRoot}")).
			Should(Equal("true"))
	})

	It("has no permissions that it does not need", func(ctx context.Context) {
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

	It("exposes metrics of its jobs, and all of them are documented", func(ctx context.Context) {
		job := newNamespace(ctx)
		job.kubectl(ctx, "apply", "-f", "examples/pytorch/failing.yaml")
		job.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/failing", timeout)

		Eventually(ctx, controllerMetrics(ctx)).Should(And(
			MatchRegexp(`(?m)^tensorstack_jobs\{kind="PyTorchTrainingJob",phase="Failed"\} [1-9]`),
			MatchRegexp(`(?m)^tensorstack_job_restarts_total\{cause="Error",counted="true",kind="PyTorchTrainingJob"\} [1-9]`)))
		areDocumented(now(controllerMetrics(ctx)))
	})

	It("holds the leader Lease", func(ctx context.Context) {
		Eventually(ctx, n.output(ctx, "get", "lease", "pytorch-controller", "-o", "jsonpath={.spec.holderIdentity}")).
			Should(HavePrefix("pytorch-controller-"))
	})
})
