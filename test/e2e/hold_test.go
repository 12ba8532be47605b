package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// holdLeaders is a JSON patch that adds the flag --hold-leaders to a controller's Deployment.
const holdLeaders = `[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--hold-leaders"]}]`

// A controller that does not run cannot see how a leader ends. With --hold-leaders, a finalizer keeps the pod of the
// leader until the controller has seen how the leader ended.
var _ = Describe("The leader of a job", Label("hold"), Serial, func() {
	It("ends the job even if it was evicted while no controller ran, with --hold-leaders", func(ctx context.Context) {
		redeploy(ctx, holdLeaders)
		n := startWaitingAlone(ctx)
		n.isHeld(ctx)
		scaleController(ctx, 0)
		n.leaderEnds(ctx)
		n.drainLeader(ctx)
		n.kubectl(ctx, "exec", "alone-worker-1", "--", "touch", "/tmp/enough")
		n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/alone-worker-1", timeout)
		waits := n.output(ctx, "get", "pod", "alone-worker-0", "-o", "jsonpath={.status.phase} {.metadata.deletionTimestamp}")
		Eventually(ctx, waits).Should(MatchRegexp(`^Succeeded \d{4}-`), "the pod stays until the controller has seen it")
		scaleController(ctx, 1)

		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/alone", timeout)
		Eventually(ctx, n.ofAlone(ctx, "{.status.reason} {.status.tasks[0].replicas[*].phase}")).
			Should(Equal("LeaderSucceeded Succeeded Succeeded")) //nolint:dupword // one for each replica
		Eventually(ctx, n.ofAlone(ctx, "0{.status.attempt} 0{.status.tasks[0].restartCount}")).
			Should(MatchRegexp(`^0+ 0+$`), "no replica restarted")
		Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/alone-worker-1"), "the pod of the leader is gone")
	})

	It("restarts if it ended and was evicted while no controller ran, without --hold-leaders", func(ctx context.Context) {
		n := startWaitingAlone(ctx)
		was := now(n.replicas(ctx))
		scaleController(ctx, 0)
		n.leaderEnds(ctx)
		n.drainLeader(ctx)
		n.kubectl(ctx, "wait", "--for=delete", "pod/alone-worker-0", timeout)
		scaleController(ctx, 1)

		Eventually(ctx, n.pods(ctx)).Should(And(HaveLen(2), Not(ContainElement(BeElementOf(uids(was))))))
		Eventually(ctx, n.ofAlone(ctx, "{.status.attempt} {.status.tasks[0].restartCount} 0{.status.backoffCount}")).
			Should(MatchRegexp(`^1 2 0+$`))
		failure := "alone-worker-0 Deleted counted=false on " + was["alone-worker-0"].node
		Eventually(ctx, n.failures(ctx, "ptjob/alone")).Should(ConsistOf(failure))
	})

	It("is deleted with the job and the controller, with --hold-leaders", func(ctx context.Context) {
		localClusterOrSkip(removesController)
		isInstalledAgain("pytorch")
		controllersNamespace.kubectl(ctx, "patch", "deployment/pytorch-controller", "--type=json", "-p", holdLeaders)
		controllersNamespace.kubectl(ctx, "rollout", "status", "deployment/pytorch-controller", timeout)
		Eventually(ctx, controllersNamespace.pods(ctx)).Should(HaveLen(1))
		n := startWaitingAlone(ctx)
		n.isHeld(ctx)

		n.follow(ctx, "docs/operate/installing.md", "Removing a controller that holds leaders")
		Eventually(ctx, n.names(ctx, "pods")).Should(BeEmpty(), "no pod stays Terminating")
	})
})

// startWaitingAlone creates the job "alone" in a new namespace, and waits until its two replicas run.
func startWaitingAlone(ctx context.Context) namespace {
	GinkgoHelper()
	n := newNamespace(ctx)
	n.waitsAlone(ctx, 2, "")
	return n
}

// waitsAlone creates the job "alone", and waits until its replicas run. Each replica runs until the file /tmp/enough
// exists in its container. The parameter limits has the limits of the container as flow-style YAML, without braces.
func (n namespace) waitsAlone(ctx context.Context, replicas int, limits string) {
	GinkgoHelper()
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: alone
spec:
  replicaSpecs:
    - type: worker
      replicas: %d
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: pytorch
              image: tensorstack/pytorch-example:2.6.0
              command: [sh, -c, "until [ -e /tmp/enough ]; do sleep 0.2; done"]
              resources:
                limits: {%s}
`, replicas, limits), "apply", "-f", "-")
	n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/alone", timeout)
}

// isHeld expects the leader's pod to have the finalizer that the controller adds with --hold-leaders. The other pod
// must have no finalizer.
func (n namespace) isHeld(ctx context.Context) {
	GinkgoHelper()
	finalizers := `jsonpath={range .items[*]}{.metadata.name}{.metadata.finalizers} {end}`
	Eventually(ctx, n.output(ctx, "get", "pods", "-o", finalizers)).
		Should(Equal(`alone-worker-0["batch.tensorstack.dev/leader"] alone-worker-1`))
}

// ofAlone returns a function that returns fields of the job "alone".
func (n namespace) ofAlone(ctx context.Context, path string) func() (string, error) {
	return n.output(ctx, "get", "ptjob", "alone", "-o", "jsonpath="+path)
}

// leaderEnds makes the leader succeed. Then it waits long enough that the controller can distinguish this success
// from an end that the deletion of the pod causes.
func (n namespace) leaderEnds(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "exec", "alone-worker-0", "--", "touch", "/tmp/enough")
	n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/alone-worker-0", timeout)
	Eventually(ctx, func(g Gomega) {
		const finishedAt = "jsonpath={.status.containerStatuses[0].state.terminated.finishedAt}"
		ended, err := n.output(ctx, "get", "pod", "alone-worker-0", "-o", finishedAt)()
		g.Expect(err).NotTo(HaveOccurred())
		at, err := time.Parse(time.RFC3339, ended)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(time.Since(at)).To(BeNumerically(">", 4*time.Second))
	}).Should(Succeed())
}

// drainLeader evicts the leader's pod, as kubectl drain does.
func (n namespace) drainLeader(ctx context.Context) {
	GinkgoHelper()
	Expect(n.evict(ctx, "alone-worker-0")).To(Succeed())
}
