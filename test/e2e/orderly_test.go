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
	labels, spec        string // labels and fields of the spec that are added to the example
}

// ddp is the example whose job ends in several ways. The others are paused.
var ddp = orderly{
	example: "examples/pytorch/orderly.yaml", job: "ptjob/digits-orderly", claim: "digits-checkpoints", processes: 4,
}

// in returns the example with a job in a queue of the namespace.
func (o orderly) in(queue string) orderly {
	o.spec = "  scheduler: {t9kScheduler: {queue: " + queue + "}}\n"
	return o
}

// $ORDERLY_TIMES is the number of times that each spec runs. The default is 1.
var _ = Describe("The processes of a job", Label("orderly"), func() {
	for range times("ORDERLY_TIMES") {
		DescribeTable("save once, all after the same step, and continue with the next one",
			func(ctx context.Context, o orderly, saveSeconds int, end func(context.Context, namespace, string)) {
				waitLonger(2) // the job trains twice
				n := newNamespace(ctx)
				n.trainsOrderly(ctx, o, saveSeconds)
				end(ctx, n, o.job)
				n.continuesOrderly(ctx, o)
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
			Entry("at a pause, with FSDP2", Label("pytorch", "fsdp"), fsdp, 0, pauseAndResume),
			Entry("at a pause, with the Trainer of Hugging Face", Label("pytorch", "trainer"), orderly{
				example: "examples/pytorch/trainer.yaml", job: "ptjob/digits-trainer", claim: "digits-trainer", processes: 2,
			}, 0, pauseAndResume),
			Entry("at a pause, with DeepSpeed", Label("deepspeed"), orderly{
				example: "examples/deepspeed/orderly.yaml", job: "dsjob/digits-orderly-zero", claim: "digits-orderly-zero",
				processes: 4,
			}, 0, pauseAndResume),
			Entry("at a pause, with TensorFlow", Label("tensorflow"), orderly{
				example: "examples/tensorflow/orderly.yaml", job: "tfjob/digits-orderly-keras3", claim: "digits-orderly-keras3",
				processes: 2,
			}, 0, pauseAndResume),
		)

		It("save once, all after the same step, when a pod is evicted and only this pod is replaced",
			Label("pytorch", "fsdp"), func(ctx context.Context) {
				waitLonger(2) // the job trains twice
				n := newNamespace(ctx)
				n.trainsOrderly(ctx, fsdp, 0)
				before := now(n.replicas(ctx))
				Expect(n.evict(ctx, "digits-fsdp-worker-1")).To(Succeed())
				n.continuesOrderly(ctx, fsdp)
				Expect(now(n.replicas(ctx))).To(And(
					HaveKeyWithValue("digits-fsdp-worker-0", before["digits-fsdp-worker-0"]),
					HaveKeyWithValue("digits-fsdp-worker-1", Not(Equal(before["digits-fsdp-worker-1"])))))
			})

		It("save once, all after the same step, when a gang is preempted", Label("pytorch"), func(ctx context.Context) {
			waitLonger(2) // the job trains twice
			n := newNamespace(ctx)
			o := ddp.in(n.queue(ctx, "300m"))
			n.trainsOrderly(ctx, o, 0)
			n.preempt(ctx, "digits-orderly")
			n.continuesOrderly(ctx, o)
		})

		DescribeTable("save once, all after the same step, when the job ends", Label("pytorch"),
			func(ctx context.Context, end func(ctx context.Context, n namespace, queue string)) {
				waitLonger(2) // the job waits for its queue, and then trains
				n := newNamespace(ctx)
				queue := n.queue(ctx, "300m")
				n.trainsOrderly(ctx, ddp.in(queue), 0)
				end(ctx, n, queue)
				Eventually(ctx, n.orderlyLog(ctx)).Should(WithTransform(linesWith("rank ", " ends "), HaveLen(ddp.processes)))
				ddp.savedStep(now(n.orderlyLog(ctx)))
			},
			Entry("at its deadline", func(ctx context.Context, n namespace, _ string) {
				n.kubectl(ctx, "patch", ddp.job, "--type=merge", "-p", `{"spec":{"runPolicy":{"activeDeadlineSeconds":1}}}`)
				n.kubectl(ctx, "wait", "--for=jsonpath={.status.reason}=DeadlineExceeded", ddp.job, timeout)
			}),
			Entry("after the maxDuration of its queue", func(ctx context.Context, n namespace, queue string) {
				_, err := kubectl(ctx, "patch", "queue.scheduler.tensorstack.dev", queue, "--type=merge", "-p",
					`{"spec":{"maxDuration":"1s"}}`)
				Expect(err).NotTo(HaveOccurred())
				n.kubectl(ctx, "wait", "--for=jsonpath={.status.reason}=MaxDurationExceeded", ddp.job, timeout)
			}),
			Entry("because somebody deletes it", func(ctx context.Context, n namespace, _ string) {
				n.kubectl(ctx, "delete", ddp.job)
			}),
		)
	}
})

// fsdp is the example for FSDP2, whose replicas are replaced alone.
var fsdp = orderly{
	example: "examples/pytorch/fsdp.yaml", job: "ptjob/digits-fsdp", claim: "digits-checkpoints", processes: 4,
}

// trainsOrderly starts the example, and waits until it trains. See startOrderly.
func (n namespace) trainsOrderly(ctx context.Context, o orderly, saveSeconds int) {
	GinkgoHelper()
	n.startOrderly(ctx, o, saveSeconds)
	trains := ContainElement(MatchRegexp(`^(step 3 |epoch |{'loss')`))
	Eventually(ctx, n.orderlyLog(ctx)).Should(trains)
}

// continuesOrderly waits until the processes have started for the second time. It checks that they have saved once, and
// continue with the next step.
func (n namespace) continuesOrderly(ctx context.Context, o orderly) {
	GinkgoHelper()
	starts := HaveLen(2 * o.processes)
	Eventually(ctx, n.orderlyLog(ctx)).Should(WithTransform(linesWith("rank ", " starts "), starts))
	log := now(n.orderlyLog(ctx))
	step := o.savedStep(log)
	var restarts []string
	for rank := range o.processes {
		restarts = append(restarts, fmt.Sprintf("rank %d of %d starts after step %s", rank, o.processes, step))
	}
	Expect(linesWith("rank ", " starts ")(log)[o.processes:]).To(ConsistOf(restarts))
	Eventually(ctx, n.output(ctx, "get", o.job, "-o", "jsonpath={.status.backoffCount}")).Should(Equal("0"))
}

// savedStep checks that the processes have saved once, and have all ended after the same step. It returns this step.
func (o orderly) savedStep(log []string) string {
	GinkgoHelper()
	saved := linesWith("saved step ")(log)
	Expect(saved).To(HaveLen(1))
	step := strings.TrimPrefix(saved[0], "saved step ")
	var ends []string
	for rank := range o.processes {
		ends = append(ends, fmt.Sprintf("rank %d ends after step %s", rank, step))
	}
	Expect(linesWith("rank ", " ends ")(log)).To(ConsistOf(ends))
	Expect(linesWith("step "+step+" ")(log)).To(BeEmpty(), "rank 0 saves before it prints the step")
	return step
}

// preempt makes kube-scheduler preempt the pods of a job, and waits until they have ended: a pod of a higher priority
// cannot run on the node beside them.
func (n namespace) preempt(ctx context.Context, job string) {
	GinkgoHelper()
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: preemptor}
spec:
  priorityClassName: system-cluster-critical
  terminationGracePeriodSeconds: 1
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {batch.tensorstack.dev/job-name: %s}}
  containers:
    - name: preemptor
      image: tensorstack/pytorch-example:2.6.0
      command: [sleep, infinity]
`, job), "apply", "-f", "-")
	n.kubectl(ctx, "wait", "--for=condition=Ready", "pod/preemptor", timeout)
	Eventually(ctx, n.output(ctx, "get", "ptjob", job, "-o", "jsonpath={.status.failures[*].reason}")).
		Should(ContainSubstring("Preempted"))
	n.kubectl(ctx, "delete", "pod", "preemptor")
}

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
	n.kubectlWith(ctx, logged(o.add(string(manifest)), saveSeconds), "apply", "-f", "-")
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

// add returns the manifest of the example with the labels and the fields of the spec.
func (o orderly) add(manifest string) string {
	GinkgoHelper()
	if o.labels == "" && o.spec == "" {
		return manifest
	}
	const begin = "\nspec:\n  torchrunConfig:"
	Expect(manifest).To(ContainSubstring(begin))
	return strings.Replace(manifest, begin, "\n  labels: {"+o.labels+"}\nspec:\n"+o.spec+"  torchrunConfig:", 1)
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
