package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/localcluster"
)

// Each spec breaks a part of the cluster while a job trains. The training continues or restarts, and only failures
// that a replica caused count.
var _ = Describe("A PyTorchTrainingJob", Label("pytorch", "faults"), Serial, func() {
	var cluster *localcluster.Cluster
	BeforeEach(func() {
		cluster = localClusterOrSkip("the test sends signals to processes of the local cluster")
	})

	It("restarts once after a worker dies while no controller runs, and other jobs do not restart",
		func(ctx context.Context) {
			well, hurt := startSteady(ctx), startSteady(ctx)
			trained := well.trainsSteadily(ctx)
			lost := hurt.trainsSteadily(ctx)

			kill(controllers(ctx)[0], "pytorch-controller")
			holdLease(ctx)
			kill(lost["steady-worker-1"], "steady.py")
			hurt.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Failed", "pod/steady-worker-1", timeout)
			Eventually(ctx, leader(ctx)).Should(Equal(noLeader))
			releaseLease(ctx)

			hurt.isRestarted(ctx, lost)
			hurt.completes(ctx)
			Eventually(ctx, hurt.account(ctx)).Should(Equal(account{counted: 1, attempt: 1, restarts: 2, pods: 4}))
			Eventually(ctx, hurt.failures(ctx, "ptjob/steady")).Should(ConsistOf("steady-worker-1 Error 137 counted=true on " +
				lost["steady-worker-1"].node))
			well.completes(ctx)
			Eventually(ctx, well.account(ctx)).Should(Equal(account{pods: 2}))
			Eventually(ctx, well.replicas(ctx)).Should(Equal(trained))
		})

	DescribeTable("keeps training, and counts the failure of a worker only once, even if",
		func(ctx context.Context, crashing ...string) {
			well, hurt := startSteady(ctx), startSteady(ctx)
			trained := well.trainsSteadily(ctx)
			lost := hurt.trainsSteadily(ctx)

			crash(cluster, crashing...)
			kill(lost["steady-worker-1"], "steady.py")
			Expect(processes(trained["steady-worker-0"], "steady.py")).NotTo(BeEmpty())
			Expect(cluster.Up(ctx, localcluster.UpOptions{})).To(Succeed())

			later := startSteady(ctx)
			hurt.isRestarted(ctx, lost)
			hurt.completes(ctx)
			Eventually(ctx, hurt.account(ctx)).Should(Equal(account{counted: 1, attempt: 1, restarts: 2, pods: 4}))
			// Both workers are dead before the kubelet can report a failure, so the kubelet can report either worker first.
			Eventually(ctx, hurt.failures(ctx, "ptjob/steady")).
				Should(ConsistOf(MatchRegexp(`^steady-worker-\d Error \d+ counted=true on ` + lost["steady-worker-1"].node)))
			well.completes(ctx)
			Eventually(ctx, well.account(ctx)).Should(Equal(account{pods: 2}))
			Eventually(ctx, well.replicas(ctx)).Should(Equal(trained))
			later.trainsSteadily(ctx)
			later.completes(ctx)
			Eventually(ctx, later.account(ctx)).Should(Equal(account{pods: 2}))
		},
		// kube-scheduler must also be down. If it kept running during the crash, it could miss that a pod was replaced by a
		// pod of the same name, and then the kube-scheduler of Kubernetes 1.37 exits.
		Entry("the control plane is down", "kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"),
		Entry("all processes of the cluster are down", "kube-apiserver", "etcd", "kube-controller-manager",
			"kube-scheduler", "kubelet", "containerd", "kube-proxy", "coredns"),
	)

	It("leaves a node that does not respond, and trains again when a node is available", func(ctx context.Context) {
		// The spec shortens two delays. Their defaults leave time for a lost node to come back, and for a pod to be
		// scheduled on another node. In this cluster, the pods can run on no other node.
		redeploy(ctx, `[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value":
			["--node-lost-delay=5s", "--avoid-nodes-patience=5s"]}]`)
		keepAnotherNode(ctx)
		n := startSteady(ctx)
		lost := n.trainsSteadily(ctx)

		crash(cluster, "kubelet")
		Eventually(ctx, n.pods(ctx)).Should(And(HaveLen(2), Not(ContainElement(BeElementOf(uids(lost))))),
			"the pods on the node are deleted by force and created again")
		Expect(processes(lost["steady-worker-0"], "steady.py")).
			NotTo(BeEmpty(), "without a kubelet, the processes on the node keep running")
		Expect(cluster.Up(ctx, localcluster.UpOptions{})).To(Succeed())

		n.isRestarted(ctx, lost)
		Eventually(ctx, func() []int { return processes(lost["steady-worker-0"], "steady.py") }).Should(BeEmpty(),
			"the restarted kubelet ends the processes of deleted pods")
		n.completes(ctx)
		// After the node is back, Kubernetes can schedule new pods to it before it removes the taint that evicts pods. In
		// that case, all pods are lost once more, and the job restarts a second time.
		losses := now(n.account(ctx)).attempt
		Expect(losses).To(BeNumerically(">=", 1))
		Eventually(ctx, n.account(ctx)).Should(Equal(account{attempt: losses, restarts: 2 * losses, pods: 2 + 2*losses}))
		Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(And(HaveLen(losses),
			HaveEach(MatchRegexp("^steady-worker-. (NodeLost|Evicted) counted=false on "+lost["steady-worker-0"].node))))
	})

	It("does not count a reboot of its node after a power failure, and avoids the node after the second one",
		func(ctx context.Context) {
			n := startSteady(ctx)
			reboot := func() (lost map[string]replica) {
				lost = n.trainsSteadily(ctx)
				Expect(cluster.CutPower()).To(Succeed())
				Expect(cluster.Up(ctx, localcluster.UpOptions{})).To(Succeed())
				return lost
			}
			lost := reboot()
			n.isRestarted(ctx, lost)
			failure := MatchRegexp("^steady-worker-. NodeLost counted=false on " + lost["steady-worker-0"].node)
			Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(ConsistOf(failure))

			reboot()
			Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(ConsistOf(failure, failure))
			Eventually(ctx, n.output(ctx, "get", "ptjob/steady", "-o",
				"jsonpath={.status.backoffCount} {.status.attempt} {.status.avoidedNodes[*]['name', 'reason']}")).
				Should(Equal("0 2 " + lost["steady-worker-0"].node + " NodeLost"))
		})

	It("leaves a tainted node together with its controller, and trains again when the taint is removed",
		func(ctx context.Context) {
			n := startSteady(ctx)
			lost := n.trainsSteadily(ctx)
			evicted := controllers(ctx)[0]

			taint := []string{"taint", "node", lost["steady-worker-0"].node}
			untaint := func(ctx context.Context) { _, _ = kubectl(ctx, append(taint, "e2e.tensorstack.dev/broken-")...) }
			DeferCleanup(untaint)
			n.kubectl(ctx, append(taint, "e2e.tensorstack.dev/broken=:NoExecute")...)
			Eventually(ctx, n.pods(ctx)).ShouldNot(ContainElement(BeElementOf(uids(lost))))
			Eventually(ctx, controllersNamespace.pods(ctx)).ShouldNot(ContainElement(evicted.uid))
			untaint(ctx)

			n.isRestarted(ctx, lost)
			n.completes(ctx)
			Eventually(ctx, n.account(ctx)).Should(Equal(account{attempt: 1, restarts: 2, pods: 4}))
			Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(ConsistOf(
				MatchRegexp("^steady-worker-. (Evicted|Deleted) counted=false on " + lost["steady-worker-0"].node)))
		})

	DescribeTable("restarts once after a worker dies during a failover of the controller",
		func(ctx context.Context, failure, recovery syscall.Signal) {
			scaleController(ctx, 2)
			n := startSteady(ctx)
			lost := n.trainsSteadily(ctx)

			former := now(leader(ctx))
			failing := controllerOf(ctx, former)
			signal(failing, "pytorch-controller", failure)
			kill(lost["steady-worker-1"], "steady.py")
			Eventually(ctx, leader(ctx)).ShouldNot(Equal(former))
			signal(failing, "pytorch-controller", recovery)

			n.isRestarted(ctx, lost)
			n.completes(ctx)
			Eventually(ctx, n.account(ctx)).Should(Equal(account{counted: 1, attempt: 1, restarts: 2, pods: 4}))
			Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(ConsistOf("steady-worker-1 Error 137 counted=true on " +
				lost["steady-worker-1"].node))
			Expect(now(leader(ctx))).NotTo(Equal(former))
		},
		Entry("from a replica that is killed", syscall.SIGKILL, syscall.SIGCONT),
		Entry("from a replica that hangs and continues after it has lost the Lease", syscall.SIGSTOP, syscall.SIGCONT),
	)

	Describe("of a controller whose clock is wrong", Ordered, ContinueOnFailure, func() {
		const image = "tensorstack/skewed-controller:e2e"
		BeforeAll(func(ctx context.Context) { loadBuilt(ctx, cluster, root, "./pytorch/test/skewed-controller", image) })

		DescribeTable("restarts immediately after a worker dies, and respects its time limits",
			func(ctx context.Context, offset string) {
				redeploy(ctx, fmt.Sprintf(`[
					{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "CLOCK_OFFSET", "value": %q}},
					{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, offset, image))
				n := startSteady(ctx)
				n.kubectl(ctx, "patch", "ptjob", "steady", "--type=merge", "-p",
					`{"spec": {"runPolicy": {"activeDeadlineSeconds": 300, "ttlSecondsAfterFinished": 300}}}`)
				lost := n.trainsSteadily(ctx)

				kill(lost["steady-worker-1"], "steady.py")
				n.isRestarted(ctx, lost)
				n.completes(ctx)
				Eventually(ctx, n.account(ctx)).Should(Equal(account{counted: 1, attempt: 1, restarts: 2, pods: 4}))
				Eventually(ctx, n.failures(ctx, "ptjob/steady")).Should(ConsistOf("steady-worker-1 Error 137 counted=true on " +
					lost["steady-worker-1"].node))
				n.kubectl(ctx, "patch", "ptjob", "steady", "--type=merge", "-p",
					`{"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}}`)
				n.kubectl(ctx, "wait", "--for=delete", "ptjob/steady", timeout)
			},
			Entry("when the clock is 10 minutes behind", "-10m"),
			Entry("when the clock is 10 minutes ahead", "10m"),
		)
	})
})

// startSteady creates the job "steady" in a new namespace. The job trains until the test calls n.completes.
func startSteady(ctx context.Context) namespace {
	GinkgoHelper()
	n := newNamespace(ctx)
	n.startSteady(ctx)
	return n
}

func (n namespace) startSteady(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "create", "configmap", "steady", "--from-file=test/e2e/testdata/steady.py")
	n.kubectl(ctx, "apply", "-f", "test/e2e/testdata/steady.yaml")
}

// trainsSteadily waits until the job trains, and returns its pods.
func (n namespace) trainsSteadily(ctx context.Context) map[string]replica {
	GinkgoHelper()
	n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/steady", timeout)
	Eventually(ctx, n.output(ctx, "logs", "steady-worker-0", "-c", "pytorch")).Should(MatchRegexp(`step +\d+  loss`))
	return now(n.replicas(ctx))
}

// isRestarted waits until the job trains with new pods.
func (n namespace) isRestarted(ctx context.Context, lost map[string]replica) {
	GinkgoHelper()
	Eventually(ctx, n.pods(ctx)).Should(And(HaveLen(len(lost)), Not(ContainElement(BeElementOf(uids(lost))))))
	n.trainsSteadily(ctx)
}

// completes makes the training end, and waits until the job is Completed.
func (n namespace) completes(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "exec", "steady-worker-0", "-c", "pytorch", "--", "touch", "/tmp/enough")
	n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/steady", timeout)
}

// account has the numbers of counted failures, restarts and pods of the job "steady" so far.
type account struct {
	counted, attempt, restarts int
	// pods is the number of pods that were ever scheduled.
	pods int
}

// account returns a function that returns the account from the status and the events of the job.
func (n namespace) account(ctx context.Context) func() (account, error) {
	return func() (account, error) {
		var a account
		status, err := n.output(ctx, "get", "ptjob", "steady", "-o",
			"jsonpath=0{.status.backoffCount} 0{.status.attempt} 0{.status.tasks[0].restartCount}")()
		if err != nil {
			return a, err
		}
		if _, err := fmt.Sscanf(status, "%d %d %d", &a.counted, &a.attempt, &a.restarts); err != nil {
			return a, fmt.Errorf("%q: %w", status, err)
		}
		restarting, err := n.events(ctx, "Restarting")
		if err != nil {
			return a, err
		}
		if restarting > a.attempt {
			return a, fmt.Errorf("%d events for %d restarts", restarting, a.attempt)
		}
		a.pods, err = n.events(ctx, "Scheduled")
		return a, err
	}
}

// events returns how often events with the reason occurred in the namespace.
func (n namespace) events(ctx context.Context, reason string) (int, error) {
	total := 0
	output, err := n.output(ctx, "get", "events", "--field-selector=reason="+reason, "-o",
		`jsonpath={range .items[*]}{.series.count},{"\n"}{end}`)()
	for line := range strings.Lines(output) {
		times, err := strconv.Atoi("0" + strings.TrimRight(line, ",\n"))
		if err != nil {
			return 0, err
		}
		total += max(1, times)
	}
	return total, err
}

// pods returns a function that returns the UIDs of the namespace's pods.
func (n namespace) pods(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		output, err := n.output(ctx, "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")()
		return strings.Fields(output), err
	}
}

func uids(replicas map[string]replica) []string {
	var uids []string
	for _, r := range replicas {
		uids = append(uids, r.uid)
	}
	return uids
}

// crash kills processes of the cluster. The clean-up of the test starts them again.
func crash(cluster *localcluster.Cluster, names ...string) {
	GinkgoHelper()
	DeferCleanup(func(ctx context.Context) { Expect(cluster.Up(ctx, localcluster.UpOptions{})).To(Succeed()) })
	Expect(cluster.Kill(names...)).To(Succeed())
}

// processes returns the PIDs of the processes of a pod that run the program. It reads /proc, and needs neither the API
// server nor the kubelet.
func processes(pod replica, program string) []int {
	GinkgoHelper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	Expect(err).NotTo(HaveOccurred())
	var pids []int
	for _, file := range files {
		cgroups, _ := os.ReadFile(file)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // empty if the process has ended
		if strings.Contains(string(cgroups), "/pod"+pod.uid+"/") && strings.Contains(string(command), program) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			Expect(err).NotTo(HaveOccurred())
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to the processes that run the program in a pod.
func signal(pod replica, program string, s syscall.Signal) {
	GinkgoHelper()
	for _, pid := range processes(pod, program) {
		Expect(syscall.Kill(pid, s)).To(Succeed())
	}
}

// kill kills the processes that run the program in a pod, and waits until they have ended.
func kill(pod replica, program string) {
	GinkgoHelper()
	pids := processes(pod, program)
	Expect(pids).NotTo(BeEmpty())
	signal(pod, program, syscall.SIGKILL)
	Eventually(func() []int { return processes(pod, program) }).ShouldNot(ContainElement(BeElementOf(pids)))
}

// controllersNamespace is the namespace of the PyTorch controller.
const controllersNamespace = namespace("t9k-pytorch")

// controllers returns the pods of the PyTorch controller.
func controllers(ctx context.Context) []replica {
	GinkgoHelper()
	var pods []replica
	for _, pod := range now(controllersNamespace.replicas(ctx)) {
		pods = append(pods, pod)
	}
	return pods
}

// noLeader is the holder of the Lease while no controller should reconcile.
const noLeader = "nobody"

// leader returns a function that returns the holder of the controller's Lease.
func leader(ctx context.Context) func() (string, error) {
	return controllersNamespace.output(ctx, "get", "lease", "pytorch-controller", "-o", "jsonpath={.spec.holderIdentity}")
}

// controllerOf returns the pod of the controller whose identity in the Lease is the given holder.
func controllerOf(ctx context.Context, holder string) replica {
	GinkgoHelper()
	name, _, _ := strings.Cut(holder, "_")
	pods := now(controllersNamespace.replicas(ctx))
	Expect(pods).To(HaveKey(name))
	return pods[name]
}

// holdLease takes the Lease, so that a controller that starts from now on does not reconcile.
func holdLease(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(releaseLease)
	controllersNamespace.kubectl(ctx, "patch", "lease", "pytorch-controller", "--type=merge", "-p",
		fmt.Sprintf(`{"spec": {"holderIdentity": %q, "leaseDurationSeconds": 3600}}`, noLeader))
}

func releaseLease(ctx context.Context) {
	GinkgoHelper()
	if now(leader(ctx)) == noLeader {
		controllersNamespace.kubectl(ctx, "delete", "lease", "pytorch-controller")
	}
}

// scaleController runs the given number of replicas of the controller until the end of the test.
func scaleController(ctx context.Context, copies int) {
	GinkgoHelper()
	scale := func(ctx context.Context, copies int) {
		controllersNamespace.kubectl(ctx, "scale", "deployment/pytorch-controller", fmt.Sprintf("--replicas=%d", copies))
		awaitController(ctx, HaveLen(copies))
	}
	DeferCleanup(scale, 1)
	scale(ctx, copies)
}

// redeploy changes the controller's Deployment with a JSON patch until the end of the test.
func redeploy(ctx context.Context, patch string) {
	GinkgoHelper()
	revision := now(controllersNamespace.output(ctx, "get", "deployment/pytorch-controller", "-o",
		`jsonpath={.metadata.annotations.deployment\.kubernetes\.io/revision}`))
	change := func(ctx context.Context, args ...string) {
		former, err := controllersNamespace.pods(ctx)()
		Expect(err).NotTo(HaveOccurred())
		controllersNamespace.kubectl(ctx, args...)
		awaitController(ctx, And(HaveLen(1), Not(ContainElement(BeElementOf(former)))))
	}
	DeferCleanup(change, "rollout", "undo", "deployment/pytorch-controller", "--to-revision="+revision)
	change(ctx, "patch", "deployment/pytorch-controller", "--type=json", "-p", patch)
}

// awaitController waits until the UIDs of the controller's pods match the parameter pods, and all these pods are
// ready. A pod that is being deleted also has a UID, so afterwards no other pod can hold the Lease.
func awaitController(ctx context.Context, pods OmegaMatcher) {
	GinkgoHelper()
	Eventually(ctx, controllersNamespace.pods(ctx)).Should(pods)
	controllersNamespace.kubectl(ctx, "rollout", "status", "deployment/pytorch-controller", timeout)
}

// keepAnotherNode creates a healthy node without pods. If all nodes were lost, Kubernetes would evict no pod.
func keepAnotherNode(ctx context.Context) {
	GinkgoHelper()
	const node = "e2e-another"
	manifest := fmt.Sprintf(
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}, "spec": {"unschedulable": true}}`, node)
	_, err := kubectlWith(ctx, manifest, "create", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	beating, stop := context.WithCancel(ctx)
	DeferCleanup(func(ctx context.Context) {
		stop()
		_, err := kubectl(ctx, "delete", "node", node)
		Expect(err).NotTo(HaveOccurred())
	})
	go func() {
		for beating.Err() == nil {
			status := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": %q}]}}`,
				time.Now().Format(time.RFC3339))
			_, _ = kubectl(beating, "patch", "node", node, "--subresource=status", "-p", status)
			select {
			case <-beating.Done():
			case <-time.After(5 * time.Second):
			}
		}
	}()
}
