package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// $ORDERLY_TIMES is the number of times that each entry runs. The default is 1.
var _ = Describe("The processes of torchrun", Label("pytorch", "orderly"), func() {
	for range times("ORDERLY_TIMES") {
		DescribeTable("save once, all after the same step, and continue with the next one",
			func(ctx context.Context, saveSeconds int, end func(context.Context, namespace)) {
				waitLonger(2) // the job trains twice
				n := newNamespace(ctx)
				n.startOrderly(ctx, saveSeconds)
				Eventually(ctx, n.orderlyLog(ctx)).Should(ContainElement(HavePrefix("step 3 ")))

				end(ctx, n)
				starts := HaveLen(8) // four processes have started twice
				Eventually(ctx, n.orderlyLog(ctx)).Should(WithTransform(linesWith("rank ", " starts "), starts))

				log := now(n.orderlyLog(ctx))
				saved := linesWith("saved step ")(log)
				Expect(saved).To(HaveLen(1))
				step := strings.TrimPrefix(saved[0], "saved step ")
				var ends, restarts []string
				for rank := range 4 {
					ends = append(ends, fmt.Sprintf("rank %d ends after step %s", rank, step))
					restarts = append(restarts, fmt.Sprintf("rank %d of 4 starts after step %s", rank, step))
				}
				Expect(linesWith("rank ", " ends ")(log)).To(ConsistOf(ends))
				Expect(linesWith("rank ", " starts ")(log)[4:]).To(ConsistOf(restarts))
				Expect(linesWith("step "+step+" ")(log)).To(BeEmpty(), "rank 0 saves before it prints the step")
				Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-orderly", "-o", "jsonpath={.status.backoffCount}")).
					Should(Equal("0"))
			},
			Entry("at a pause", 0, pauseAndResume),
			Entry("at a pause, if the save takes longer than torchrun alone would wait", 45, pauseAndResume),
			Entry("when a pod is evicted", 0, func(ctx context.Context, n namespace) {
				Expect(n.evict(ctx, "digits-orderly-worker-1")).To(Succeed())
			}),
			Entry("when the pod of the leader is deleted", 0, func(ctx context.Context, n namespace) {
				n.kubectl(ctx, "delete", "pod", "digits-orderly-worker-0", "--wait=false")
			}),
		)
	}
})

// pauseAndResume pauses the job, and resumes it when it is paused.
func pauseAndResume(ctx context.Context, n namespace) {
	GinkgoHelper()
	const job = "ptjob/digits-orderly"
	n.kubectl(ctx, "patch", job, "--type=merge", "-p", `{"spec":{"runMode":{"pause":{"enabled":true}}}}`)
	n.kubectl(ctx, "wait", "--for=condition=Paused", job, timeout)
	n.kubectl(ctx, "patch", job, "--type=merge", "-p", `{"spec":{"runMode":{"pause":{"enabled":false}}}}`)
}

// startOrderly starts examples/pytorch/orderly.yaml with more steps, and a pod that reads its log. A save takes the
// given number of seconds longer.
func (n namespace) startOrderly(ctx context.Context, saveSeconds int) {
	GinkgoHelper()
	n.volume(ctx, "digits-checkpoints")
	n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
	n.kubectl(ctx, "create", "configmap", "logged", "--from-file=test/e2e/testdata/logged.py")
	manifest, err := os.ReadFile(filepath.Join(root, "examples/pytorch/orderly.yaml"))
	Expect(err).NotTo(HaveOccurred())
	n.kubectlWith(ctx, strings.NewReplacer(
		"args: [", "args: [/logged/logged.py, ",
		"--steps=200", "--steps=1000000",
		"env:", fmt.Sprintf("env:\n                - {name: SAVE_SECONDS, value: %q}", fmt.Sprint(saveSeconds)),
		"volumeMounts:", "volumeMounts:\n                - {name: logged, mountPath: /logged}",
		"volumes:", "volumes:\n            - {name: logged, configMap: {name: logged}}",
	).Replace(string(manifest)), "apply", "-f", "-")
	n.kubectlWith(ctx, `
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: reader
      image: tensorstack/pytorch-example:2.6.0
      command: [sleep, infinity]
      volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
  volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: digits-checkpoints}}]
`, "apply", "-f", "-")
}

// orderlyLog returns a function that returns the lines that the processes have printed in all attempts.
func (n namespace) orderlyLog(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		output, err := n.output(ctx, "exec", "reader", "--", "cat", "/checkpoints/log")()
		return strings.Split(strings.TrimSpace(output), "\n"), err
	}
}

// linesWith returns a function that returns the lines that begin with the prefix and contain all parts.
func linesWith(prefix string, parts ...string) func([]string) []string {
	return func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			lacks := func(part string) bool { return !strings.Contains(line, part) }
			return !strings.HasPrefix(line, prefix) || slices.ContainsFunc(parts, lacks)
		})
	}
}
