package e2e

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

// startTrain starts kubectl train in the namespace. The command is interrupted at the end of the test.
func (n namespace) startTrain(args ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command("kubectl", append([]string{"train", "--namespace", string(n)}, args...)...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Interrupt().Wait("1m") })
	return session
}

// kubectlTrain runs kubectl train in the namespace, expects it to succeed and returns its output on stdout.
func (n namespace) kubectlTrain(ctx context.Context, args ...string) string {
	GinkgoHelper()
	session := n.startTrain(args...)
	Eventually(ctx, session).Should(gexec.Exit(0), "kubectl train %s", strings.Join(args, " "))
	return string(session.Out.Contents())
}

// counts creates a job of two replicas. Each replica counts seconds until the file /tmp/end or /tmp/fail exists in
// its container, and then succeeds or fails.
func (n namespace) counts(ctx context.Context, policy string) {
	GinkgoHelper()
	n.kubectlWith(ctx, `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: count}
spec:
  runPolicy: `+policy+`
  replicaSpecs:
    - type: worker
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: log
              image: tensorstack/pytorch-example:2.6.0
              command: [sleep, inf]
              resources: {requests: {cpu: 10m, memory: 16Mi}}
            - name: pytorch
              image: tensorstack/pytorch-example:2.6.0
              command: [sh, -c]
              args:
                - |
                  echo rank $RANK begins
                  step=0
                  while [ ! -e /tmp/end ]; do
                    echo step $step
                    step=$((step + 1))
                    sleep 1
                    if [ -e /tmp/fail ]; then echo rank $RANK has no data >&2; exit 3; fi
                  done
                  echo the end
              resources: {requests: {cpu: 10m, memory: 16Mi}}
`, "apply", "-f", "-")
}

// trainOutput returns a function that runs kubectl train in the namespace and returns its output on stdout.
func (n namespace) trainOutput(ctx context.Context, args ...string) func() (string, error) {
	return func() (string, error) {
		args := append([]string{"train", "--namespace", string(n)}, args...)
		output, err := exec.CommandContext(ctx, "kubectl", args...).Output()
		return string(output), err
	}
}

// touch creates a file in the container pytorch of a pod.
func (n namespace) touch(ctx context.Context, pod, file string) {
	GinkgoHelper()
	Eventually(ctx, n.output(ctx, "exec", pod, "-c", "pytorch", "--", "touch", file)).Should(BeEmpty())
}

var _ = Describe("kubectl train logs", Label("train"), func() {
	It("follows a replica over restarts until the job succeeds", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.counts(ctx, "{backoffLimit: 3}")
		logs := n.startTrain("logs", "count", "-f")
		Eventually(ctx, logs.Out).Should(gbytes.Say(`^rank 0 begins\nstep 0\nstep 1\n`))

		By("printing the output of another rank, and of all")
		n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/count", timeout)
		Eventually(ctx, n.trainOutput(ctx, "logs", "ptjob/count", "--rank=1")).Should(HavePrefix("rank 1 begins\nstep 0\n"))
		Eventually(ctx, n.trainOutput(ctx, "logs", "count", "--all", "--tail=1", "--timestamps")).Should(MatchRegexp(
			`^\[worker-0\] \d{4}-\S+ step \d+\n\[worker-1\] \d{4}-\S+ step \d+\n$`))

		By("restarting all replicas")
		n.touch(ctx, "count-worker-1", "/tmp/fail")
		Eventually(ctx, logs.Err).Should(gbytes.Say(`count-worker-0 was restarted: attempt 1\n`))
		Eventually(ctx, logs.Out).Should(gbytes.Say(`rank 0 begins\nstep 0\n`))
		failed := n.startTrain("logs", "count", "--failed")
		Eventually(ctx, failed).Should(gexec.Exit(0))
		Expect(failed.Out.Contents()).To(ContainSubstring("rank 1 has no data"))
		Expect(failed.Err.Contents()).To(MatchRegexp(`status\.failures has kept .*: count-worker-1 failed with exit code 3 \(Error\)`))

		By("ending the job")
		n.touch(ctx, "count-worker-1", "/tmp/end")
		n.touch(ctx, "count-worker-0", "/tmp/end")
		Eventually(ctx, logs).Should(gexec.Exit(0))
		Expect(string(logs.Out.Contents())).To(MatchRegexp(`^rank 0 begins\nstep 0\n(step \d+\n)+rank 0 begins\n(step \d+\n)+the end\n$`))
	})

	It("has the exit code 2 if the job fails, and then prints the replica that failed first", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.counts(ctx, "{backoffLimit: 0, cleanUpPolicy: None}")
		logs := n.startTrain("logs", "count", "-f", "--all")
		Eventually(ctx, logs.Out).Should(gbytes.Say(`\[worker-\d\] step 2\n`))
		n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/count", timeout)
		n.touch(ctx, "count-worker-1", "/tmp/fail")
		Eventually(ctx, logs).Should(gexec.Exit(2))
		Expect(string(logs.Out.Contents())).To(And(
			ContainSubstring("[worker-0] rank 0 begins\n"), ContainSubstring("[worker-1] rank 1 has no data\n")))
		Expect(logs.Err.Contents()).To(MatchRegexp(`Error: ptjob/count has failed \(BackoffLimitExceeded: replica count-worker-1 `))

		By("reading the output from the pod, and from the status after the pod was deleted")
		Expect(now(n.trainOutput(ctx, "logs", "count", "--failed"))).To(HavePrefix("rank 1 begins\nstep 0\n"))
		n.kubectl(ctx, "delete", "pod", "count-worker-1")
		failed := n.startTrain("logs", "count", "--failed")
		Eventually(ctx, failed).Should(gexec.Exit(0))
		Expect(string(failed.Out.Contents())).To(HaveSuffix("rank 1 has no data\n"))
		Expect(failed.Err.Contents()).To(MatchRegexp(`^The pod is gone\. status\.failures has kept the end of its output: `))
	})
})

var _ = Describe("kubectl train", Label("train"), func() {
	It("pauses a job, resumes it with other arguments, and deletes it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.counts(ctx, "{}")
		logs := n.startTrain("logs", "count", "-f")
		Eventually(ctx, logs.Out).Should(gbytes.Say(`step 2\n`))

		Expect(n.kubectlTrain(ctx, "pause", "count")).To(Equal("pytorchtrainingjob.batch.tensorstack.dev/count paused\n"))
		Expect(now(n.names(ctx, "pods"))).To(BeEmpty())
		Eventually(ctx, logs.Err).Should(gbytes.Say(`Waiting: the next pod of count-worker-0 \(Paused: the job is paused\)\n`))

		Expect(n.kubectlTrain(ctx, "resume", "count", "--", "-c", "echo other $RANK; sleep inf")).
			To(Equal("pytorchtrainingjob.batch.tensorstack.dev/count resumed\n"))
		Expect(now(n.output(ctx, "get", "ptjob", "count", "-o", "jsonpath={.status.phase}"))).To(Equal("Running"))
		Eventually(ctx, logs.Out).Should(gbytes.Say(`other 0\n`))

		Expect(n.kubectlTrain(ctx, "delete", "count")).
			To(Equal("pytorchtrainingjob.batch.tensorstack.dev \"count\" deleted from " + string(n) + " namespace\n"))
		Expect(now(n.names(ctx, "ptjob,pods"))).To(BeEmpty())
		Eventually(ctx, logs).Should(gexec.Exit(1))
		Expect(logs.Err).To(gbytes.Say(`Error: ptjob/count was deleted\n`))
	})

	It("scales an elastic job", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/elastic.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/digits-elastic", timeout)
		Expect(n.kubectlTrain(ctx, "scale", "digits-elastic", "3")).
			To(Equal("pytorchtrainingjob.batch.tensorstack.dev/digits-elastic scaled\n"))
		Expect(now(n.output(ctx, "get", "ptjob", "digits-elastic", "-o", "jsonpath={.status.ready}"))).To(Equal("3/3"))
		logs := n.startTrain("logs", "digits-elastic", "-f")
		Eventually(ctx, logs.Out).Should(gbytes.Say("rank 0 of 3 on digits-elastic-worker-0"))
		Expect(n.kubectlTrain(ctx, "scale", "digits-elastic", "1")).To(HaveSuffix("scaled\n"))
		Eventually(ctx, logs.Out).Should(gbytes.Say("rank 0 of 1 on digits-elastic-worker-0"))
	})

	It("opens a shell in the leader of a debug job, which has the size of the terminal", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/debug.yaml")
		Expect(n.kubectlTrain(ctx, "debug", "digits-debug", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE")).
			To(Equal("rank 0 of 2\n"))
		fails := n.startTrain("debug", "digits-debug", "--rank=1", "--", "sh", "-c", "hostname; exit 7")
		Eventually(ctx, fails).Should(gexec.Exit(7))
		Expect(fails.Out).To(gbytes.Say(`^digits-debug-worker-1\n$`))

		By("typing in a terminal")
		command := exec.Command("kubectl", "train", "--namespace", string(n), "debug", "digits-debug")
		terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 100})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(terminal.Close)
		screen := gbytes.BufferReader(terminal)
		types := func(line string) {
			GinkgoHelper()
			_, err := terminal.WriteString(line)
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(ctx, screen).Should(gbytes.Say(`This is a shell in digits-debug-worker-0, the replica of rank 0 of 2\.`))
		Eventually(ctx, screen).Should(gbytes.Say(`digits-debug-worker-0:`))
		types("hostname; stty size\r")
		Eventually(ctx, screen).Should(gbytes.Say(`digits-debug-worker-0\r\n40 100\r\n`))
		Expect(pty.Setsize(terminal, &pty.Winsize{Rows: 30, Cols: 70})).To(Succeed())
		types("until [ \"$(stty size)\" = '30 70' ]; do sleep 1; done; stty size\r")
		Eventually(ctx, screen).Should(gbytes.Say(`30 70\r\n`))
		types("sleep 1000; echo interrupted\r")
		Eventually(ctx, screen).Should(gbytes.Say(`sleep 1000`))
		types("\x03") // Ctrl-C ends the command and not the shell
		Eventually(ctx, screen).Should(gbytes.Say(`\^C`))
		types("exit 5\r")
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		var exit *exec.ExitError
		Eventually(ctx, ended).Should(Receive(BeAssignableToTypeOf(exit)))
		Expect(command.ProcessState.ExitCode()).To(Equal(5))
	})

	It("forwards a port to the TensorBoard of a job, also after its pod was replaced", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-logs")
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/tensorboard.yaml")
		board := n.startTrain("board", "digits-board", "--port=0")
		address := regexp.MustCompile(`TensorBoard of ptjob/digits-board: (http://127\.0\.0\.1:\d+/)\n`)
		Eventually(ctx, board.Out).Should(gbytes.Say(address.String()))
		page := func() (string, error) {
			return pageAt(ctx, address.FindStringSubmatch(string(board.Out.Contents()))[1])
		}
		Eventually(ctx, page).Should(ContainSubstring("<title>TensorBoard</title>"))

		n.kubectl(ctx, "delete", "pod", "digits-board-tb")
		Eventually(ctx, board.Err).Should(gbytes.Say(`The pod of the TensorBoard is gone\. Connecting to the next one\.\n`))
		Eventually(ctx, board.Out).Should(gbytes.Say(address.String()))
		Eventually(ctx, page).Should(ContainSubstring("<title>TensorBoard</title>"))
		Eventually(ctx, board.Interrupt()).Should(gexec.Exit(0))
	})

	It("completes the names of jobs through kubectl", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.counts(ctx, "{}")
		// kubectl runs this program to complete the arguments of kubectl train.
		program := filepath.Join(GinkgoT().TempDir(), "kubectl_complete-train")
		script := []byte("#!/bin/sh\nexec kubectl train __complete \"$@\"\n")
		Expect(os.WriteFile(program, script, 0o755)).To(Succeed())
		complete := func() (string, error) {
			command := exec.CommandContext(ctx, "kubectl", "__complete", "train", "--namespace", string(n), "logs", "")
			command.Env = append(command.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
			output, err := command.Output()
			return string(output), err
		}
		Eventually(ctx, complete).Should(MatchRegexp(`(?m)^count\tPyTorchTrainingJob Running$`))
	})
})

var _ = Describe("The page about kubectl train", Label("train"), func() {
	DescribeTable("shows how to",
		func(ctx context.Context, section string) {
			newNamespace(ctx).follow(ctx, "docs/train/kubectl-train.md", section)
		},
		Entry("read logs", "Logs"),
		Entry("change a job", "Change a job"),
		Entry("debug a job", "Debug a job"),
		Entry("solve problems with the cluster", "If the cluster cannot be used"),
	)
})

// pageAt returns the page at an address.
func pageAt(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return string(content), err
}
