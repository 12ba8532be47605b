package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Commands that end a replica of examples/pytorch/elastic.yaml.
var (
	killed  = []string{"exec", "digits-elastic-worker-1", "-c", "pytorch", "--", "sh", "-c", "kill -9 -1"}
	deleted = []string{"delete", "pod", "digits-elastic-worker-1", "--wait=false"}
	// The command kills torchrun, the only child of the first process of the container.
	gaveUp = []string{
		"exec", "digits-elastic-worker-1", "-c", "pytorch", "--", "sh", "-c", "kill $(cat /proc/1/task/*/children)",
	}
)

var _ = Describe("An elastic PyTorchTrainingJob", Label("pytorch", "elastic"), func() {
	BeforeEach(func() { waitLonger(2) }) // processes that have no peers wait before they start again

	It("is scaled by kubectl, an edit and an autoscaler as docs/train/elastic.md shows, and keeps its leader",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.follow(ctx, "docs/train/elastic.md", "Scale")
			// The leader keeps its pod, so the log of one pod has all world sizes.
			Eventually(ctx, n.output(ctx, "logs", "digits-elastic-worker-0", "-c", "pytorch")).
				Should(MatchRegexp(`(?s)rank 0 of 2 .*rank 0 of 3 .*rank 0 of 1 `))
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-elastic", "-o",
				"jsonpath={.status.backoffCount} {.status.attempt} {.status.failures}")).
				Should(Equal("0"), "there is no failure and no restart")
			n.follow(ctx, "docs/train/elastic.md", "Autoscale")
		})

	It("trains with the replicas that fit, as docs/train/elastic.md shows", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.follow(ctx, "docs/train/elastic.md", "What fits")
	})

	DescribeTable("replaces only the worker that is lost during a scale-up",
		func(ctx context.Context, lose []string, cause, counted string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			// A process cannot kill the first process of its PID namespace. With shareProcessNamespace, the first process is
			// in none of the containers of the pod, so the spec can kill all processes of a container.
			n.applyPatched(ctx, "examples/pytorch/elastic.yaml",
				`[{"op": "add", "path": "/spec/replicaSpecs/0/template/spec/shareProcessNamespace", "value": true}]`)
			n.trains(ctx, "digits-elastic-worker-0", 2)
			before := now(n.replicas(ctx))

			n.kubectl(ctx, "scale", "ptjob/digits-elastic", "--replicas=3")
			n.kubectl(ctx, lose...)
			n.trains(ctx, "digits-elastic-worker-0", 3)

			after := now(n.replicas(ctx))
			Expect(after["digits-elastic-worker-0"].uid).To(Equal(before["digits-elastic-worker-0"].uid),
				"the leader keeps its pod")
			Expect(after["digits-elastic-worker-1"].uid).NotTo(Equal(before["digits-elastic-worker-1"].uid))
			Eventually(ctx, n.failures(ctx, "ptjob/digits-elastic")).
				Should(ConsistOf("digits-elastic-worker-1 " + cause + " on " + before["digits-elastic-worker-1"].node))
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-elastic", "-o", "jsonpath={.status.backoffCount}")).
				Should(Equal(counted))
		},
		Entry("because it was killed", killed, "Error 137 counted=true", "1"),
		Entry("because its pod was deleted", deleted, "Deleted counted=false", "0"),
	)

	DescribeTable("restarts all replicas and trains again after the rendezvous has ended",
		func(ctx context.Context, end []string, cause, counted string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "apply", "-f", "examples/pytorch/elastic.yaml")
			n.trains(ctx, "digits-elastic-worker-0", 2)
			before := now(n.replicas(ctx))

			n.kubectl(ctx, end...)
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-elastic", "-o",
				"jsonpath={.status.attempt} {.status.phase} {.status.ready}")).Should(Equal("1 Running 2/2"))
			n.trains(ctx, "digits-elastic-worker-0", 2)

			for name, replica := range now(n.replicas(ctx)) {
				Expect(replica.uid).NotTo(Equal(before[name].uid), "%s has a new pod", name)
			}
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-elastic", "-o", "jsonpath={.status.backoffCount}")).
				Should(Equal(counted))
			Eventually(ctx, n.failures(ctx, "ptjob/digits-elastic")).Should(ConsistOf(HavePrefix(cause)))
		},
		Entry("because the leader's pod was deleted", []string{"delete", "pod", "digits-elastic-worker-0"},
			"digits-elastic-worker-0 Deleted counted=false", "0"),
		Entry("because a torchrun agent gave up", gaveUp, "digits-elastic-worker-1 Error 1 counted=true", "1"),
	)
})

// trains waits until the newest rendezvous in the pod's log has the given number of processes, and they train.
func (n namespace) trains(ctx context.Context, pod string, processes int) {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) {
		log, err := kubectl(ctx, "-n", string(n), "logs", pod, "-c", "pytorch")
		return log[max(0, strings.LastIndex(log, "rank 0 of ")):], err
	}).Should(MatchRegexp(`(?s)^rank 0 of %d .*epoch .* processes %d`, processes, processes))
}

var _ = Describe("A replica that starts long before its leader", Label("pytorch", "elastic"), func() {
	It("waits for the leader, with and without torchrun", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		jobs := map[string]string{"plain": "", "torchrun": `, {"op": "add", "path": "/spec/torchrunConfig",
			"value": {"enabled": true}}`}
		for name, torchrun := range jobs {
			// The second type is the master. Its node selector has a label that no node has yet.
			n.applyPatched(ctx, "examples/pytorch/master-worker.yaml", fmt.Sprintf(`[
				{"op": "replace", "path": "/metadata/name", "value": %q},
				{"op": "replace", "path": "/spec/replicaSpecs/0/replicas", "value": 1},
				{"op": "replace", "path": "/spec/replicaSpecs/0/template/spec/containers/0/args", "value": ["/code/train.py"]},
				{"op": "replace", "path": "/spec/replicaSpecs/1/template/spec/containers/0/args", "value": ["/code/train.py"]},
				{"op": "replace", "path": "/spec/replicaSpecs/0/template/spec/containers/0/command", "value": ["python3"]},
				{"op": "replace", "path": "/spec/replicaSpecs/1/template/spec/containers/0/command", "value": ["python3"]},
				{"op": "add", "path": "/spec/replicaSpecs/1/template/spec/nodeSelector",
					"value": {"e2e.tensorstack.dev/late": %q}}%s]`, name, n, torchrun))
		}
		for name := range jobs {
			Eventually(ctx, func(g Gomega) {
				since, err := kubectl(ctx, "-n", string(n), "get", "pod", name+"-worker-0", "-o",
					`jsonpath={.status.initContainerStatuses[?(@.name=="wait-for-peers")].state.running.startedAt}`)
				g.Expect(err).NotTo(HaveOccurred())
				started, err := time.Parse(time.RFC3339, since)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(time.Since(started)).To(BeNumerically(">", 30*time.Second))
			}).Should(Succeed(), "the worker has waited for 30 s")
		}
		node := now(n.output(ctx, "get", "pod", "plain-worker-0", "-o", "jsonpath={.spec.nodeName}"))
		n.kubectl(ctx, "label", "node", node, "e2e.tensorstack.dev/late="+string(n))
		DeferCleanup(func(ctx context.Context) { n.kubectl(ctx, "label", "node", node, "e2e.tensorstack.dev/late-") })
		for name := range jobs {
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/"+name, timeout)
			Eventually(ctx, n.output(ctx, "get", "ptjob", name, "-o",
				"jsonpath={.status.backoffCount} {.status.attempt} {.status.failures}")).Should(Equal("0"), "%s", name)
			Eventually(ctx, n.output(ctx, "get", "pod", name+"-worker-0", "-o",
				"jsonpath={.status.containerStatuses[0].restartCount}")).Should(Equal("0"))
		}
	})
})
