package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// $INPLACE_TIMES is the number of times that a replica is evicted and the size changes. The default is 1.
var _ = Describe("A job with restarts in place", Label("pytorch", "elastic", "inplace"), func() {
	BeforeEach(func() {
		waitLonger(2 * times("INPLACE_TIMES")) // each change starts the processes again
	})

	const elastic = `elastic: {minReplicas: 1, maxReplicas: 3, expectedReplicas: 2, enabled: true}`

	It("does not count replicas that are lost or join, and restarts once in place", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.startUntil(ctx, 1, elastic)
		n.trains(ctx, "until-worker-0", 2)
		for range times("INPLACE_TIMES") {
			n.startsAgain(ctx, 3, func() { n.kubectl(ctx, "scale", "ptjob/until", "--replicas=3") })
			n.startsAgain(ctx, 3, func() { Expect(n.evict(ctx, "until-worker-2")).To(Succeed()) })
			n.startsAgain(ctx, 2, func() { n.kubectl(ctx, "scale", "ptjob/until", "--replicas=2") })
		}
		n.startsAgain(ctx, 2, func() { n.kubectl(ctx, "delete", "pod", "until-worker-1", "--grace-period=0", "--force") })
		n.startsAgain(ctx, 2, func() { n.killRank(ctx) })
		Eventually(ctx, n.output(ctx, "logs", "until-worker-0", "-c", "pytorch")).Should(ContainSubstring(
			"rank 1 on until-worker-1 was terminated by SIGKILL: restart in place 1 of 1 (maxRestarts)"))
		n.showsRestartInPlace(ctx)
		Eventually(ctx, n.output(ctx, "get", "events", "--field-selector=reason=RestartedInPlace", "-o",
			"jsonpath={.items[*].message}")).Should(Equal(
			"restarted the processes in place: rank 1 on until-worker-1 was terminated by SIGKILL"))
		n.kubectl(ctx, "exec", "until-worker-0", "-c", "pytorch", "--", "touch", "/tmp/enough")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/until", timeout)
		Eventually(ctx, n.output(ctx, "get", "ptjob", "until", "-o",
			"jsonpath={.status.backoffCount}{.status.attempt}")).Should(Equal("0"))
	})

	It("restarts all replicas after one more failure, and shows which process failed", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.startUntil(ctx, 1, "elastic: {enabled: false}")
		n.trains(ctx, "until-worker-0", 2)
		n.startsAgain(ctx, 2, func() { n.killRank(ctx) })
		n.showsRestartInPlace(ctx) // the pod of the leader ends with the next failure
		n.killRank(ctx)
		Eventually(ctx, n.output(ctx, "get", "ptjob", "until", "-o",
			"jsonpath={.status.backoffCount} {.status.attempt} {.status.phase}")).Should(Equal("1 1 Running"))
		n.trains(ctx, "until-worker-0", 2)
		Eventually(ctx, n.output(ctx, "get", "ptjob", "until", "-o",
			"jsonpath={range .status.failures[*]}{.replica} {.reason} {.rank} {.rankSignal}{end}")).
			Should(Equal("until-worker-1 Error 1 SIGKILL"))
		n.showsRestartInPlace(ctx)
	})

	It("with the scope Rendezvous, replaces only a replica that is lost, and the leader waits", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.startUntil(ctx, 0, "runPolicy: {restartScope: Rendezvous}")
		n.trains(ctx, "until-worker-0", 2)
		leader := n.output(ctx, "get", "pod", "until-worker-0", "-o", "jsonpath={.metadata.uid}")
		counts := n.output(ctx, "get", "ptjob", "until", "-o",
			"jsonpath={.status.backoffCount} {.status.disruptions} {.status.attempt} {.status.restartsInPlace.count}.")
		before := now(leader)
		n.startsAgain(ctx, 2, func() { Expect(n.evict(ctx, "until-worker-1")).To(Succeed()) })
		n.startsAgain(ctx, 2, func() { n.kubectl(ctx, "delete", "pod", "until-worker-1", "--grace-period=0", "--force") })
		Eventually(ctx, n.output(ctx, "exec", "until-worker-1", "-c", "pytorch", "--", "cat", "/proc/300/cmdline")).
			Should(ContainSubstring("--rdzv_id="), "the process ID by which the rendezvous knows the replica")
		Eventually(ctx, leader).Should(Equal(before))
		Eventually(ctx, counts).Should(Equal("0 2  ."))
		n.killRank(ctx)
		Eventually(ctx, counts).Should(Equal("1 2 1 ."))
		Eventually(ctx, leader).ShouldNot(Equal(before))
		n.trains(ctx, "until-worker-0", 2)
	})
})

// startUntil starts the job "until" with testdata/until.py, a limit of restarts in place, and a field of the spec.
func (n namespace) startUntil(ctx context.Context, maxRestarts int, field string) {
	GinkgoHelper()
	n.applyTorchrun(ctx, "until", "until.py", fmt.Sprintf(`
  %s
  torchrunConfig:
    enabled: true
    maxRestarts: %d
    extraOptions: [--monitor_interval=1, --rdzv_conf=last_call_timeout=5]
`, field, maxRestarts))
}

// applyTorchrun applies a job with two replicas, which run a program of testdata. The parameter spec has fields of the
// spec, torchrunConfig among them.
func (n namespace) applyTorchrun(ctx context.Context, name, program, spec string) {
	GinkgoHelper()
	n.kubectl(ctx, "create", "configmap", "code", "--from-file=train.py=test/e2e/testdata/"+program)
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: %s
spec:
%s
  replicaSpecs:
    - type: worker
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: tensorstack/pytorch-example:2.6.0
              args: [/code/train.py]
              env:
                - {name: OMP_NUM_THREADS, value: "1"}
              volumeMounts:
                - {name: code, mountPath: /code}
          volumes:
            - {name: code, configMap: {name: code}}
`, name, spec), "apply", "-f", "-")
}

// showsRestartInPlace waits until the status of the job until has one restart in place, after killRank.
func (n namespace) showsRestartInPlace(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, n.output(ctx, "get", "ptjob", "until", "-o", "jsonpath={.status.restartsInPlace.count}"+
		"{range .status.restartsInPlace.last[*]} {.replica} {.rank} {.signal}{end}")).
		Should(Equal("1 until-worker-1 1 SIGKILL"))
}

// startsAgain does something, and waits until the processes of the job until have started again and train.
func (n namespace) startsAgain(ctx context.Context, processes int, because func()) {
	GinkgoHelper()
	starts := func() (int, error) {
		log, err := kubectl(ctx, "-n", string(n), "logs", "until-worker-0", "-c", "pytorch")
		return strings.Count(log, "rank 0 of "), err
	}
	before := now(starts)
	because()
	Eventually(ctx, starts).Should(BeNumerically(">", before))
	n.trains(ctx, "until-worker-0", processes)
}

// killRank kills the only process that the torchrun of the second replica has started. torchrun is the only child of
// the supervisor.
func (n namespace) killRank(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "exec", "until-worker-1", "-c", "pytorch", "--", "sh", "-c",
		"children() { cat /proc/$1/task/*/children; }; kill -9 $(children $(children 1))")
}
