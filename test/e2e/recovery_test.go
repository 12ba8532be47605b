package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A PyTorchTrainingJob", Label("pytorch"), func() {
	// Each entry expects exactly one failure in status.failures: one of the given causes. A job with torchrun has two
	// possible causes: the agents check their processes every few seconds, so either agent can fail first.
	DescribeTable("restarts all its replicas once and completes",
		func(ctx context.Context, manifest string, lose func(context.Context, namespace), counted int, causes ...string) {
			waitLonger(2) // the job trains twice
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "create", "configmap", "schedule", "--from-literal=epochs=1000000")
			n.kubectl(ctx, "apply", "-f", "test/e2e/testdata/"+manifest)
			// The backoffLimit is the number of counted restarts that the entry expects. One more counted restart would fail
			// the job.
			n.kubectl(ctx, "patch", "ptjob", "digits", "--type=merge", "-p",
				fmt.Sprintf(`{"spec":{"runPolicy":{"backoffLimit":%d}}}`, counted))
			Eventually(ctx, n.output(ctx, "logs", "-l", "batch.tensorstack.dev/job-name=digits", "-c", "pytorch")).
				Should(MatchRegexp(`epoch +\d+  loss`), "the job trains")
			// Running processes have already read the former number of epochs. New processes read the new number, so they end
			// soon.
			n.kubectl(ctx, "patch", "configmap", "schedule", "-p", `{"data":{"epochs":"5"}}`)
			lost := now(n.replicas(ctx))
			Expect(lost).To(HaveLen(2))

			lose(ctx, n)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits", timeout)

			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits", "-o",
				"jsonpath={.status.backoffCount} {.status.attempt} {.status.tasks[0].restartCount}")).
				Should(Equal(fmt.Sprintf("%d 1 2", counted)))
			var failures []string
			for _, cause := range causes {
				failures = append(failures, cause+" on "+lost[strings.Fields(cause)[0]].node)
			}
			Eventually(ctx, n.failures(ctx, "ptjob/digits")).Should(ConsistOf(BeElementOf(failures)))
			replacements := now(n.replicas(ctx))
			Expect(replacements).To(HaveLen(2))
			for name, replacement := range replacements {
				Expect(replacement.uid).NotTo(Equal(lost[name].uid), "%s has a new pod", name)
			}
		},
		Entry("after a worker is killed", Label("always"), "plain.yaml", func(ctx context.Context, n namespace) {
			n.kubectl(ctx, "exec", "digits-worker-1", "-c", "pytorch", "--", "sh", "-c", "kill -9 -1")
		}, 1, "digits-worker-1 Error 137 counted=true"),
		Entry("after a process of torchrun is killed", "torchrun.yaml", func(ctx context.Context, n namespace) {
			n.kubectl(ctx, "exec", "digits-worker-1", "-c", "pytorch", "--", "sh", "-c",
				"kill -9 $(grep -lsz ^LOCAL_RANK=1 /proc/[0-9]*/environ | cut -d/ -f3)")
		}, 1, "digits-worker-1 Error 1 counted=true", "digits-worker-0 Error 1 counted=true"),
		Entry("after its leader's pod is deleted, without counting the restart", "plain.yaml",
			func(ctx context.Context, n namespace) {
				n.kubectl(ctx, "delete", "pod", "digits-worker-0")
			}, 0, "digits-worker-0 Deleted counted=false"),
		Entry("after a pod is evicted by the eviction API, without counting the restart", "plain.yaml",
			func(ctx context.Context, n namespace) {
				Expect(n.evict(ctx, "digits-worker-1")).To(Succeed())
			}, 0, "digits-worker-1 Evicted counted=false"),
	)

	It("lets torchrun restart its processes, which counts no restart", func(ctx context.Context) {
		waitLonger(3) // torchrun starts its processes again and again
		n := newNamespace(ctx)
		n.applyTorchrun(ctx, "patient", "failsonce.py", `
  runPolicy: {backoffLimit: 0, cleanUpPolicy: None}
  torchrunConfig: {enabled: true, procPerNode: "2", maxRestarts: 3}
`)
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/patient", timeout)
		Eventually(ctx, n.output(ctx, "get", "ptjob", "patient", "-o",
			"jsonpath=0{.status.backoffCount}{.status.attempt}{.status.tasks[0].restartCount}")).Should(MatchRegexp("^0+$"))
		Eventually(ctx, n.output(ctx, "logs", "patient-worker-1", "-c", "pytorch")).Should(And(
			ContainSubstring("process 1 fails at start 0"), MatchRegexp("process 1 completes at start [1-3]")))
		Eventually(ctx, n.output(ctx, "logs", "patient-worker-0", "-c", "pytorch")).Should(
			ContainSubstring("process 0 completes"))
	})

	DescribeTable("counts and reports a failure that a replica causes",
		func(ctx context.Context, limits, script, failure string) {
			n := newNamespace(ctx)
			n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: greedy
spec:
  runPolicy:
    backoffLimit: 0
  replicaSpecs:
    - type: worker
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: tensorstack/pytorch-example:2.6.0
              command: [python3, -c, %q]
              resources:
                limits: {%s}
`, script, limits), "apply", "-f", "-")
			n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/greedy", timeout)

			Eventually(ctx, n.output(ctx, "get", "ptjob", "greedy", "-o",
				"jsonpath={.status.conditions[?(@.type=='Failed')].reason} {.status.backoffCount}")).
				Should(Equal("BackoffLimitExceeded 0"))
			Eventually(ctx, n.failures(ctx, "ptjob/greedy")).Should(ConsistOf(MatchRegexp("^" + failure + " on " +
				now(n.replicas(ctx))["greedy-worker-0"].node + "$")))
		},
		Entry("by exceeding its memory limit", "memory: 128Mi",
			"b'x' * 2**30",
			"greedy-worker-0 OOMKilled 137 counted=true"),
		// The program does not write to an emptyDir, because the kubelet measures an emptyDir only once a minute. The
		// failure can lack the exit code, because a busy kubelet reports that the pod has failed before it reports the exit
		// code of the container.
		Entry("by exceeding its limit of ephemeral storage", "ephemeral-storage: 1Mi",
			"import time; open('/tmp/big', 'wb').write(b'x' * 2**24); time.sleep(600)",
			"greedy-worker-0 Evicted( 137)? counted=true"),
	)
})

// failures returns a function that returns one line for each entry of status.failures. The line has the replica, the
// reason, the exit code if any, whether the failure counted, and the node.
func (n namespace) failures(ctx context.Context, job string) func() ([]string, error) {
	return func() ([]string, error) {
		var failures []string
		output, err := n.output(ctx, "get", job, "-o",
			`jsonpath={range .status.failures[*]}{.replica} {.reason} {.exitCode} counted={.counted} on {.node}{"\n"}{end}`)()
		for line := range strings.Lines(output) {
			failures = append(failures, strings.Join(strings.Fields(line), " "))
		}
		return failures, err
	}
}

// replica is the pod of a replica.
type replica struct{ uid, node string }

// replicas returns a function that returns the pods of the namespace by name. The function fails if a pod has no node
// yet.
func (n namespace) replicas(ctx context.Context) func() (map[string]replica, error) {
	return func() (map[string]replica, error) {
		replicas := map[string]replica{}
		output, err := n.output(ctx, "get", "pods", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.spec.nodeName}{"\n"}{end}`)()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(output) {
			fields := strings.Fields(line)
			if len(fields) != 3 {
				return nil, fmt.Errorf("pod %s has no node", fields[0])
			}
			replicas[fields[0]] = replica{uid: fields[1], node: fields[2]}
		}
		return replicas, nil
	}
}
