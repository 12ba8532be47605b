package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// orderly is an example whose processes save their work when a pod of the job is about to end.
type orderly struct {
	example, job, claim string
	processes           int
}

// ddp is the example whose job ends in several ways. The others are paused.
var ddp = orderly{"examples/pytorch/orderly.yaml", "ptjob/digits-orderly", "digits-checkpoints", 4}

// $ORDERLY_TIMES is the number of times that each entry runs. The default is 1.
var _ = Describe("The processes of a job", Label("orderly"), func() {
	for range times("ORDERLY_TIMES") {
		DescribeTable("save once, all after the same step, and continue with the next one",
			func(ctx context.Context, o orderly, saveSeconds int, end func(context.Context, namespace, string)) {
				waitLonger(2) // the job trains twice
				n := newNamespace(ctx)
				n.startOrderly(ctx, o, saveSeconds)
				trains := ContainElement(MatchRegexp(`^(step 3 |epoch |{'loss')`))
				Eventually(ctx, n.orderlyLog(ctx)).Should(trains)

				end(ctx, n, o.job)
				starts := HaveLen(2 * o.processes) // all processes have started twice
				Eventually(ctx, n.orderlyLog(ctx)).Should(WithTransform(linesWith("rank ", " starts "), starts))

				log := now(n.orderlyLog(ctx))
				saved := linesWith("saved step ")(log)
				Expect(saved).To(HaveLen(1))
				step := strings.TrimPrefix(saved[0], "saved step ")
				var ends, restarts []string
				for rank := range o.processes {
					ends = append(ends, fmt.Sprintf("rank %d ends after step %s", rank, step))
					restarts = append(restarts, fmt.Sprintf("rank %d of %d starts after step %s", rank, o.processes, step))
				}
				Expect(linesWith("rank ", " ends ")(log)).To(ConsistOf(ends))
				Expect(linesWith("rank ", " starts ")(log)[o.processes:]).To(ConsistOf(restarts))
				Expect(linesWith("step "+step+" ")(log)).To(BeEmpty(), "rank 0 saves before it prints the step")
				Eventually(ctx, n.output(ctx, "get", o.job, "-o", "jsonpath={.status.backoffCount}")).Should(Equal("0"))
			},
			Entry("at a pause", Label("pytorch"), ddp, 0, pauseAndResume),
			Entry("at a pause, if the save takes longer than torchrun alone would wait", Label("pytorch"),
				ddp, 45, pauseAndResume),
			Entry("when a pod is evicted", Label("pytorch"), ddp, 0,
				func(ctx context.Context, n namespace, _ string) {
					Expect(n.evict(ctx, "digits-orderly-worker-1")).To(Succeed())
				}),
			Entry("when the pod of the leader is deleted", Label("pytorch"), ddp, 0,
				func(ctx context.Context, n namespace, _ string) {
					n.kubectl(ctx, "delete", "pod", "digits-orderly-worker-0", "--wait=false")
				}),
			Entry("at a pause, with FSDP2", Label("pytorch", "fsdp"),
				orderly{"examples/pytorch/fsdp.yaml", "ptjob/digits-fsdp", "digits-checkpoints", 4}, 0, pauseAndResume),
			Entry("at a pause, with the Trainer of Hugging Face", Label("pytorch", "trainer"),
				orderly{"examples/pytorch/trainer.yaml", "ptjob/digits-trainer", "digits-trainer", 2}, 0, pauseAndResume),
			Entry("at a pause, with DeepSpeed", Label("deepspeed"),
				orderly{"examples/deepspeed/orderly.yaml", "dsjob/digits-orderly-zero", "digits-orderly-zero", 4},
				0, pauseAndResume),
			Entry("at a pause, with TensorFlow", Label("tensorflow"),
				orderly{"examples/tensorflow/orderly.yaml", "tfjob/digits-orderly-keras3", "digits-orderly-keras3", 2},
				0, pauseAndResume),
		)
	}
})

// pauseAndResume pauses the job, and resumes it when it is paused.
func pauseAndResume(ctx context.Context, n namespace, job string) {
	GinkgoHelper()
	n.kubectl(ctx, "patch", job, "--type=merge", "-p", `{"spec":{"runMode":{"pause":{"enabled":true}}}}`)
	n.kubectl(ctx, "wait", "--for=condition=Paused", job, timeout)
	n.kubectl(ctx, "patch", job, "--type=merge", "-p", `{"spec":{"runMode":{"pause":{"enabled":false}}}}`)
}

// startOrderly starts the example with more steps, and a pod that reads its log. If saveSeconds is not 0, torch.save
// takes as many seconds longer.
func (n namespace) startOrderly(ctx context.Context, o orderly, saveSeconds int) {
	GinkgoHelper()
	n.volume(ctx, o.claim)
	n.kubectl(ctx, "apply", "-k", filepath.Join(filepath.Dir(o.example), "code"))
	n.kubectl(ctx, "create", "configmap", "logged", "--from-file=test/e2e/testdata/logged.py")
	manifest, err := os.ReadFile(filepath.Join(root, o.example))
	Expect(err).NotTo(HaveOccurred())
	n.kubectlWith(ctx, logged(string(manifest), saveSeconds), "apply", "-f", "-")
	n.kubectlWith(ctx, fmt.Sprintf(`
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
  volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: %s}}]
`, o.claim), "apply", "-f", "-")
}

var (
	// lengthOfTraining matches the option of an example for the number of its steps or epochs.
	lengthOfTraining = regexp.MustCompile(`--(steps|epochs|num_train_epochs)=\d+`)
	// inList matches the program in a list of words that is written in one line.
	inList = regexp.MustCompile(`(\[|python3, )/code/`)
)

// logged returns the manifest of an example whose program runs with more steps and under testdata/logged.py.
func logged(manifest string, saveSeconds int) string {
	const logged = "/logged/logged.py"
	manifest = lengthOfTraining.ReplaceAllString(manifest, "--$1=1000000")
	manifest = inList.ReplaceAllString(manifest, "${1}"+logged+", /code/")
	insert := func(list, item string) {
		begin := regexp.MustCompile(`(?m)^( *)` + list + `:$`)
		manifest = begin.ReplaceAllString(manifest, "${0}\n${1}  - "+item)
	}
	insert("(?:args|python)", logged)
	insert("volumeMounts", "{name: logged, mountPath: /logged}")
	insert("volumes", "{name: logged, configMap: {name: logged}}")
	if saveSeconds > 0 {
		insert("env", fmt.Sprintf("{name: SAVE_SECONDS, value: %q}", fmt.Sprint(saveSeconds)))
	}
	return manifest
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
