package e2e

import (
	"context"
	"fmt"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// rank is in the command line of each process that trains, and not in the command line of the launcher.
const rank = "-u\x00/code/train.py"

var _ = Describe("A job that reports its progress", Label("progress"), func() {
	It("restarts once after a rank hangs in gloo, and completes from its checkpoint, as docs/train/progress.md shows",
		Label("pytorch"), func(ctx context.Context) {
			waitLonger(2) // a stall is detected after a minute, and the job trains twice
			n := newNamespace(ctx)
			n.volume(ctx, "digits-progress")
			n.follow(ctx, "docs/train/progress.md", "Try it")
			n.hasRestartedStall(ctx, "ptjob")
		})

	It("restarts once after a rank of DeepSpeed hangs, and completes from its checkpoint", Label("deepspeed"),
		func(ctx context.Context) {
			localClusterOrSkip("the test sends signals to processes of the local cluster")
			waitLonger(5) // a stall is detected after a minute, and DeepSpeed trains twice
			n := newNamespace(ctx)
			n.startProgress(ctx, "deepspeed")
			Eventually(ctx, n.progress(ctx, "dsjob", "digits-progress")).Should(MatchRegexp(`^\d+% \(\d+/60\)$`))
			signal(now(n.replicas(ctx))["digits-progress-worker-1"], rank, syscall.SIGSTOP)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "dsjob/digits-progress", timeout)
			n.hasRestartedStall(ctx, "dsjob")
		})

	It("restarts once after a rank hangs, even if the controller is killed at each step", Label("crash"), Serial,
		func(ctx context.Context) {
			localClusterOrSkip("the test sends signals to processes of the local cluster")
			waitLonger(2) // a stall is detected after a minute, and the job trains twice
			n := newNamespace(ctx)
			n.startProgress(ctx, "pytorch")
			Eventually(ctx, n.progress(ctx, "ptjob", "digits-progress")).Should(MatchRegexp(`^\d+% \(\d+/60\)$`))
			hung := now(n.replicas(ctx))
			crash := func() {
				running := func() []int { return processes(controllers(ctx)[0], "pytorch-controller") }
				Eventually(ctx, running).ShouldNot(BeEmpty(), "the kubelet has restarted the controller")
				kill(controllers(ctx)[0], "pytorch-controller")
			}

			signal(hung["digits-progress-worker-1"], rank, syscall.SIGSTOP)
			crash()
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-progress", "-o", "jsonpath={.status.backoffCount}")).
				Should(Equal("1"))
			crash()
			Eventually(ctx, n.pods(ctx)).ShouldNot(ContainElement(hung["digits-progress-worker-0"].uid))
			crash()
			Eventually(ctx, n.pods(ctx)).Should(And(HaveLen(2), Not(ContainElement(BeElementOf(uids(hung))))))
			crash()
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-progress", timeout)
			n.hasRestartedStall(ctx, "ptjob")
		})

	It("stalls if it is silent for too long, unless it has announced that", func(ctx context.Context) {
		waitLonger(2) // a stall is detected after a minute
		n := newNamespace(ctx)
		n.silent(ctx, "announced", `{"step": 1, "totalSteps": 2, "silenceSeconds": 3600}`)
		Eventually(ctx, n.progress(ctx, "ptjob", "announced")).Should(Equal("50% (1/2)"))
		n.silent(ctx, "silent", `{"step": 1, "totalSteps": 2}`)
		n.silent(ctx, "mute", ``)
		n.kubectl(ctx, "wait", "--for=condition=Stalled", "ptjob/silent", "ptjob/mute", timeout)
		Eventually(ctx, n.stalled(ctx, "silent")).Should(MatchRegexp(
			`^True NoProgress no other step was reported for runPolicy.progressDeadlineSeconds \(60 s\) after 50% \(1/2\) at `))
		Eventually(ctx, n.stalled(ctx, "mute")).Should(Equal(
			"True NoProgress nothing was reported for runPolicy.startupDeadlineSeconds (60 s) since the job runs"))
		Expect(now(n.stalled(ctx, "announced"))).To(BeEmpty(), "it has been silent for longer than the other jobs")

		for _, job := range []string{"announced", "silent"} {
			n.kubectl(ctx, "exec", job+"-worker-0", "-c", "pytorch", "--", "sh", "-c",
				`echo '{"step": 2, "totalSteps": 2}' >> $T9K_PROGRESS_FILE`)
			Eventually(ctx, n.progress(ctx, "ptjob", job)).Should(Equal("100% (2/2)"))
		}
		Eventually(ctx, n.stalled(ctx, "silent")).Should(HavePrefix("False Progressing "))
		n.kubectl(ctx, "patch", "ptjob", "mute", "--type=merge", "-p", `{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
		n.kubectl(ctx, "wait", "--for=condition=Paused", "ptjob/mute", timeout)
		Eventually(ctx, n.stalled(ctx, "mute")).Should(HavePrefix("False NotRunning "))

		for _, job := range []string{"announced", "silent"} {
			n.kubectl(ctx, "exec", job+"-worker-0", "-c", "pytorch", "--", "touch", "/tmp/enough")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/"+job, timeout)
		}
		Eventually(ctx, n.output(ctx, "get", "ptjob", "-o", "jsonpath={.items[*].status.backoffCount}")).
			Should(Equal("0 0 0"), "a notification restarts nothing")
		Eventually(ctx, n.output(ctx, "get", "events", "--field-selector=reason=Stalled", "-o",
			"jsonpath={.items[*].regarding.name}{.items[*].involvedObject.name}")).Should(
			Or(Equal("silent mute"), Equal("mute silent")), "one event for each stall")
	})

	// A program that starts again in its pod loads its data for longer than progressDeadlineSeconds.
	DescribeTable("is not stalled while its processes start again in their pods, and load their data", Label("again"),
		func(ctx context.Context, kind, spec, roles string, change ...string) {
			waitLonger(5) // the data is loaded for more than two minutes
			n := newNamespace(ctx)
			n.kubectl(ctx, "create", "configmap", "code", "--from-file=train.py=test/e2e/testdata/again.py")
			n.kubectlWith(ctx, fmt.Sprintf(loadsAgain, kind, spec, roles), "apply", "-f", "-")
			status := func(path string) func() (string, error) {
				return n.output(ctx, "get", kind, "again", "-o", "jsonpath="+path)
			}
			Eventually(ctx, status("{.status.progress.summary}")).Should(HavePrefix("step "))
			n.kubectl(ctx, change...)
			Eventually(ctx, n.output(ctx, "logs", "again-worker-0", "-c", "main")).
				Should(ContainSubstring("loading the data again"))
			Eventually(ctx, status("{.status.progress.summary}")).Should(MatchRegexp(`^step 1\d{6}$`), "it trains again")
			Eventually(ctx, status("{.status.backoffCount}")).Should(Equal("0"))
			Eventually(ctx, status("{.status.attempt}")).Should(BeEmpty(), "the pods are the same")
			Eventually(ctx, status("{.status.conditions[?(@.type=='Stalled')].status}")).Should(BeEmpty())
		},
		Entry("with torchrun, after a process has failed", Label("pytorch"), "PyTorchTrainingJob", `
  torchrunConfig: {enabled: true, maxRestarts: 1}`, torchrunLoads,
			"exec", "again-worker-0", "-c", "main", "--", "touch", "/tmp/fail"),
		Entry("with torchrun, after a replica has joined", Label("pytorch"), "PyTorchTrainingJob", `
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 2, expectedReplicas: 1}
  torchrunConfig:
    enabled: true
    maxRestarts: 5
    extraOptions: [--monitor_interval=1, --rdzv_conf=last_call_timeout=5]`, torchrunLoads,
			"scale", "ptjob/again", "--replicas=2"),
		Entry("with DeepSpeed, after a worker has joined", Label("deepspeed"), "DeepSpeedJob", `
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 2, expectedReplicas: 1}
  config: {slotsPerWorker: 1, run: {python: [/code/train.py]}}`, deepspeedLoads,
			"scale", "dsjob/again", "--replicas=2"),
	)

	It("shows its progress on the network of the node", Label("hostnetwork"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.silentWith(ctx, "host", `{"step": 1, "totalSteps": 4}`, "hostNetwork: true")
		Eventually(ctx, n.progress(ctx, "ptjob", "host")).Should(Equal("25% (1/4)"))
		n.kubectl(ctx, "exec", "host-worker-0", "-c", "pytorch", "--", "touch", "/tmp/enough")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/host", timeout)
	})
})

// startProgress starts the example that reports its progress.
func (n namespace) startProgress(ctx context.Context, framework string) {
	GinkgoHelper()
	n.volume(ctx, "digits-progress")
	n.kubectl(ctx, "apply", "-k", "examples/"+framework+"/code")
	n.kubectl(ctx, "apply", "-f", "examples/"+framework+"/progress.yaml")
}

// hasRestartedStall checks that the example was restarted once because it hung, and has continued from its checkpoint.
func (n namespace) hasRestartedStall(ctx context.Context, kind string) {
	GinkgoHelper()
	of := func(jsonPath string) func() (string, error) {
		return n.output(ctx, "get", kind, "digits-progress", "-o", "jsonpath="+jsonPath)
	}
	Eventually(ctx, of("{.status.backoffCount} {.status.attempt}")).Should(Equal("1 1"))
	Eventually(ctx, n.failures(ctx, kind+"/digits-progress")).Should(ConsistOf(
		HavePrefix("digits-progress-worker-0 NoProgress counted=true on ")))
	Eventually(ctx, n.progress(ctx, kind, "digits-progress")).Should(Equal("100% (60/60)"))
	Eventually(ctx, of("{.status.conditions[?(@.type=='Stalled')].status}")).Should(Equal("False"))
	log := n.output(ctx, "logs", "digits-progress-worker-0")
	Eventually(ctx, log).Should(And(ContainSubstring("epoch 60  loss"), Not(ContainSubstring("epoch  1  loss"))))
	Eventually(ctx, n.output(ctx, "describe", kind, "digits-progress")).Should(And(
		MatchRegexp(`Name:\s+loss\s+Value:\s+\d`), MatchRegexp(`Summary:\s+100% \(60/60\)`)))
}

// progress returns a function that returns the summary of the progress of a job.
func (n namespace) progress(ctx context.Context, kind, job string) func() (string, error) {
	return n.output(ctx, "get", kind, job, "-o", "jsonpath={.status.progress.summary}")
}

// stalled returns a function that returns the condition Stalled of a job.
func (n namespace) stalled(ctx context.Context, job string) func() (string, error) {
	return n.output(ctx, "get", "ptjob", job, "-o",
		"jsonpath={.status.conditions[?(@.type=='Stalled')]['status','reason','message']}")
}

// silent starts a job that writes the given report once, or no report if the report is empty. The job then runs until
// the file /tmp/enough exists.
func (n namespace) silent(ctx context.Context, job, report string) {
	GinkgoHelper()
	n.silentWith(ctx, job, report, "")
}

// silentWith starts a silent job with an additional field in its pod spec.
func (n namespace) silentWith(ctx context.Context, job, report, field string) {
	GinkgoHelper()
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: %s
spec:
  progress:
    enabled: true
  runPolicy:
    progressDeadlineSeconds: 60
    startupDeadlineSeconds: 60
  replicaSpecs:
    - type: worker
      template:
        spec:
          terminationGracePeriodSeconds: 1
          %s
          containers:
            - name: pytorch
              image: tensorstack/pytorch-example:2.6.0
              env:
                - {name: REPORT, value: %q}
              command:
                - sh
                - -c
                - |
                  echo "$REPORT" >> "$T9K_PROGRESS_FILE"
                  until [ -e /tmp/enough ]; do sleep 1; done
`, job, field, report), "apply", "-f", "-")
}

// loadsAgain is the manifest of a job whose processes load data for a long time after they start again in their pods.
// torchrunLoads and deepspeedLoads are the replicas of the job for each framework, and podLoads is the pod template
// of these replicas.
const (
	loadsAgain = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: %s
metadata:
  name: again
spec:
  progress: {enabled: true}
  runPolicy: {progressDeadlineSeconds: 60, startupDeadlineSeconds: 1800, progressPolicy: Restart, backoffLimit: 3}%s%s`
	torchrunLoads = `
  replicaSpecs:
    - type: worker
      restartPolicy: OnFailure
      template:` + podLoads + `
              image: tensorstack/pytorch-example:2.6.0
              args: [/code/train.py]`
	deepspeedLoads = `
  worker:
      restartPolicy: OnFailure
      template:` + podLoads + `
              image: tensorstack/deepspeed-example:0.19.8`
	podLoads = `
        spec:
          terminationGracePeriodSeconds: 1
          volumes:
            - {name: code, configMap: {name: code}}
          containers:
            - name: main
              volumeMounts: [{name: code, mountPath: /code}]
              env:
                - {name: OMP_NUM_THREADS, value: "1"}
                - {name: LOAD_SECONDS, value: "150"}`
)
