package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/test/internal/document"
	"tensorstack.dev/jobs/test/internal/faults"
)

const (
	pytorchImage    = "--image=tensorstack/pytorch-example:2.6.0"
	tensorflowImage = "--image=tensorstack/tensorflow-example:2.21.0"
	deepspeedImage  = "--image=tensorstack/deepspeed-example:0.19.8"
	// small limits each process of a training to one thread, so that the pods of a spec can run on a small machine.
	small = "--env=OMP_NUM_THREADS=1"
)

// argparse is a Python program that rejects all arguments.
const argparse = "import argparse\nargparse.ArgumentParser().parse_args()\n"

var _ = Describe("kubectl train run", Label("train"), func() {
	DescribeTable("trains with a folder of code in a restricted namespace",
		func(ctx context.Context, name, want string, args ...string) {
			n := newRestricted(ctx)
			out, errOut, err := n.train(ctx, append([]string{"run", "--name=" + name}, args...)...)
			Expect(err).NotTo(HaveOccurred(), "%s%s", out, errOut)
			Expect(out).To(ContainSubstring(want))
			Expect(errOut).To(MatchRegexp(name + ` has succeeded after \S+\n$`))
			Eventually(ctx, n.names(ctx, "configmaps")).Should(ContainElement("configmap/" + name + "-code"))

			n.kubectl(ctx, "delete", "training", "--all")
			Eventually(ctx, n.names(ctx, leftovers+",persistentvolumeclaims")).Should(BeEmpty())
			Eventually(ctx, n.names(ctx, "configmaps")).Should(ConsistOf("configmap/kube-root-ca.crt"))
		},
		Entry("with PyTorch", Label("pytorch", "always"), "digits", "epoch  5  loss",
			"examples/pytorch/code", pytorchImage, small, "--nodes=2", "--memory=1Gi", "--", "train.py", "--epochs", "5"),
		Entry("with PyTorch and torchrun", Label("pytorch"), "digits", "processes 4",
			"examples/pytorch/code", pytorchImage, small, "--nodes=2", "--procs=2", "--", "train.py", "--epochs", "5"),
		Entry("with a module of PyTorch in one process", Label("pytorch"), "digits", "processes 1",
			"examples/pytorch/code", pytorchImage, small, "--", "-m", "train", "--epochs=2"),
		Entry("with elastic PyTorch", Label("pytorch"), "digits", "processes 2",
			"examples/pytorch/code", pytorchImage, small, "--elastic=1:2", "--nodes=2", "--",
			"train.py", "--epochs=20", "--pause=1"),
		Entry("with TensorFlow", Label("tensorflow"), "digits", "epoch  3  loss",
			"examples/tensorflow/code", tensorflowImage, "--kind=tensorflow", "--nodes=2", "--",
			"multi_worker.py", "--epochs=3"),
		Entry("with DeepSpeed", Label("deepspeed"), "digits", "processes 4",
			"examples/deepspeed/code", deepspeedImage, small, "--kind=deepspeed", "--nodes=2", "--procs=2",
			"--", "train.py", "--deepspeed_config=/code/ds_config.json", "--epochs=3"),
	)

	It("ends with exit code 2 and prints the output once if it fails", Label("pytorch"), func(ctx context.Context) {
		n := newRestricted(ctx)
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "train.py"), []byte("raise ValueError('the data has no labels')\n"), 0o600)).
			To(Succeed())
		out, errOut, err := n.train(ctx, "run", dir, "--name=failing", pytorchImage, "--", "train.py")
		Expect(exitCode(err)).To(Equal(2))
		Expect(out).To(ContainSubstring("ValueError: the data has no labels"), "the log goes to stdout")
		Expect(errOut).To(MatchRegexp(
			`Error: ptjob/failing has failed after \S+: replica failing-worker-0 .* with exit code 1`))
		Expect(errOut).NotTo(ContainSubstring("ValueError"), "the log has it")
		Expect(errOut).To(HaveSuffix(
			"allows no further restart\nTo see why: kubectl train why ptjob/failing -n " + string(n) + "\n"))
	})

	DescribeTable("reports the error of a program whose launcher prints after it",
		func(ctx context.Context, program, want string, args ...string) {
			n := newRestricted(ctx)
			dir := GinkgoT().TempDir()
			Expect(os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600)).To(Succeed())
			_, _, err := n.train(ctx, slices.Concat([]string{"run", dir, "--name=failing", "--nodes=2", small}, args)...)
			Expect(exitCode(err)).To(Equal(2))
			kind := "ptjob"
			if slices.Contains(args, deepspeedImage) {
				kind = "dsjob"
			}
			Expect(n.output(ctx, "get", kind, "failing", "-o", "jsonpath={.status.failures[0].message}")()).
				To(ContainSubstring(want))
			out, _, err := n.train(ctx, "why", "failing")
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(ContainSubstring(want))
		},
		Entry("torchrun: an exit with a message", Label("pytorch"),
			"import sys\nprint('ERROR: no data set', file=sys.stderr, flush=True)\nsys.exit(1)\n", "ERROR: no data set",
			pytorchImage, "--", "train.py"),
		Entry("torchrun: an unknown argument", Label("pytorch"), argparse, "error: unrecognized arguments: --bogus",
			pytorchImage, "--", "train.py", "--bogus"),
		Entry("torchrun: an exception of a child", Label("pytorch"), `
import os
import torch.multiprocessing as mp

def work(index):
    if os.environ["GROUP_RANK"] == "1" and index == 1: raise RuntimeError("planned failure")
    mp.Event().wait()

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
`, "RuntimeError: planned failure", pytorchImage, "--", "train.py"),
		Entry("DeepSpeed: an unknown argument", Label("deepspeed"), argparse,
			"train.py: error: unrecognized arguments: --local_rank=0 --bogus",
			"--kind=deepspeed", deepspeedImage, "--", "train.py", "--bogus"),
	)

	It("gives a DeepSpeed program its arguments exactly", Label("deepspeed"), func(ctx context.Context) {
		n := newRestricted(ctx)
		dir := GinkgoT().TempDir()
		const program = "import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n"
		Expect(os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600)).To(Succeed())
		out, _, err := n.train(ctx, "run", dir, "--name=words", "--kind=deepspeed", "--nodes=2", deepspeedImage, small,
			"--env=RUN=7", "--", "train.py", "$HOME", "*", "--x=a;date", "", "it's", "$(RUN)", "two words")
		Expect(err).NotTo(HaveOccurred())
		for rank := range 2 {
			Expect(out).To(ContainSubstring(fmt.Sprintf(
				`%d ['--local_rank=0', '$HOME', '*', '--x=a;date', '', "it's", '$(RUN)', 'two words']`, rank)))
		}
	})

	It("runs, detaches and prints manifests as the documents show", Label("pytorch"), func(ctx context.Context) {
		n := newRestricted(ctx)
		n.follow(ctx, "README.md", "A folder of code")
		n.kubectl(ctx, "delete", "ptjob", "digits")
		n.follow(ctx, "docs/train/kubectl-train.md", "Train with a folder of code")
	})

	It("detaches when it is interrupted in a pipe", Label("pytorch"), func(ctx context.Context) {
		n := newRestricted(ctx)
		command := n.command(ctx, "run", "examples/pytorch/code", "--name=digits", pytorchImage, small, "--", "train.py",
			"--epochs=1000000", "--pause=1")
		out, errOut := &screenBuffer{}, &screenBuffer{}
		command.Stdout, command.Stderr = out, errOut
		Expect(command.Start()).To(Succeed())
		Eventually(ctx, out.String).Should(ContainSubstring("epoch  2  loss"))
		Expect(command.Process.Signal(os.Interrupt)).To(Succeed())
		Expect(exitCode(command.Wait())).To(Equal(130))
		typed := "ptjob/digits -n " + string(n)
		Expect(errOut.String()).To(ContainSubstring(
			"ptjob/digits goes on. To see it again: kubectl train watch " + typed + ", kubectl train logs -f " + typed))
		Eventually(ctx, n.phase(ctx)).Should(Equal("Running"))
	})

	It("shows a bar of the training, and goes on after Ctrl-C", Label("pytorch"), func(ctx context.Context) {
		n := newRestricted(ctx)
		t := n.trainLong(ctx)
		Eventually(ctx, t.String).Should(MatchRegexp(`ptjob/digits Running 1/1  █*░+ 0% \(\d+/1000000\)`))
		t.press("\x03")
		Eventually(ctx, t.String).Should(HaveSuffix(command.Question))
		t.press("c")
		Eventually(ctx, t.after("continue\r\n")).Should(MatchRegexp(`epoch +\d+  loss`))
		t.press("\x03")
		Eventually(ctx, t.String).Should(HaveSuffix(command.Question))
		t.press("\x03")
		Eventually(ctx, t.ended).Should(Receive(BeNil()))
		Expect(t.String()).To(ContainSubstring("ptjob/digits goes on. To see it again: kubectl train watch ptjob/digits"))
	})

	DescribeTable("asks in a terminal what to do after Ctrl-C", Label("pytorch"),
		func(ctx context.Context, key, message string, then func(context.Context, namespace)) {
			n := newRestricted(ctx)
			t := n.trainLong(ctx)
			t.press("\x03")
			Eventually(ctx, t.String).Should(HaveSuffix(command.Question))
			t.press(key)
			Eventually(ctx, t.ended).Should(Receive(BeNil()))
			Expect(t.String()).To(ContainSubstring(message))
			then(ctx, n)
		},
		Entry("Enter detaches", "\r", "ptjob/digits goes on. To see it again: kubectl train watch ptjob/digits",
			func(ctx context.Context, n namespace) {
				Expect(now(n.phase(ctx))).To(Equal("Running"))
			}),
		Entry("p pauses", "p", "ptjob/digits is paused. To continue it: kubectl train resume ptjob/digits",
			func(ctx context.Context, n namespace) {
				Expect(now(n.phase(ctx))).To(Equal("Paused"))
				Expect(now(n.names(ctx, "pods"))).To(BeEmpty())
			}),
		Entry("x deletes", "x", "ptjob/digits is deleted",
			func(ctx context.Context, n namespace) {
				Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty())
				Eventually(ctx, n.names(ctx, "configmaps")).Should(ConsistOf("configmap/kube-root-ca.crt"))
			}),
	)

	// The volumes of the local cluster are only for ReadWriteMany claims. kubectl train run creates such a claim only
	// for a job with several nodes. So the jobs that get a new claim have two nodes.
	Describe("with a folder of several megabytes", Label("pytorch"), func() {
		It("uploads it to a claim, and shows a bar in a terminal", func(ctx context.Context) {
			n := newRestricted(ctx)
			n.volume(ctx, "digits-code")
			t := n.terminal(ctx, "run", largeFolder(3<<20), "--name=digits", pytorchImage, small, "--nodes=2", "--",
				"train.py", "--epochs=2")
			Eventually(ctx, t.ended).Should(Receive(BeNil()))
			Expect(t.String()).To(And(
				MatchRegexp(`█*░* \S+ [KM]?i?B of 3.0 MiB`),
				ContainSubstring("Uploaded 2 files (3.0 MiB) to the claim digits-code"),
				ContainSubstring("epoch  2  loss")))
			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/digits-worker-0", "pod/digits-worker-1"))
			n.kubectl(ctx, "delete", "ptjob", "digits")
			Eventually(ctx, n.names(ctx, leftovers+",persistentvolumeclaims")).Should(BeEmpty())
		})

		It("uploads it to an existing claim", func(ctx context.Context) {
			n := newRestricted(ctx)
			n.claim(ctx, "home")
			out, errOut, err := n.train(ctx, "run", largeFolder(3<<20), "--name=digits", pytorchImage, small,
				"--code-claim=home", "--claim=home:/results", "--", "train.py", "--epochs=2", "--checkpoint=/results/model.pt")
			Expect(err).NotTo(HaveOccurred(), "%s%s", out, errOut)
			Expect(out).To(ContainSubstring("epoch  2  loss"))
			n.kubectl(ctx, "delete", "ptjob", "digits")
			Expect(now(n.names(ctx, "persistentvolumeclaims"))).To(ConsistOf("persistentvolumeclaim/home"))
		})

		It("reports why the claim cannot hold the code, and deletes the job", func(ctx context.Context) {
			n := newRestricted(ctx)
			n.claim(ctx, "home")
			By("making a file where the folder of the code must be")
			_, errOut, err := n.train(ctx, "run", "examples/pytorch/code", "--name=first", pytorchImage, small,
				"--claim=home:/results", "--", "train.py", "--epochs=1", "--checkpoint=/results/kubectl-train")
			Expect(err).NotTo(HaveOccurred(), errOut)

			_, errOut, err = n.train(ctx, "run", largeFolder(20<<20), "--name=digits", pytorchImage, "--code-claim=home",
				"--", "train.py")
			Expect(exitCode(err)).To(Equal(1), errOut)
			Expect(errOut).To(And(
				ContainSubstring("the upload has failed: "), ContainSubstring("NotADirectoryError: "),
				ContainSubstring("The job is deleted.")))
			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/first-worker-0"))
		})

		It("follows the steps that the manifest describes", func(ctx context.Context) {
			n := newRestricted(ctx)
			n.volume(ctx, "digits-code")
			manifest, _, err := n.train(ctx, "run", largeFolder(2<<20), "--name=digits", pytorchImage, small,
				"--nodes=2", "--dry-run=client", "-o", "yaml", "--", "train.py", "--epochs=2")
			Expect(err).NotTo(HaveOccurred())
			n.kubectlWith(ctx, manifest, "apply", "-f", "-")
			kubeconfig := n.kubeconfig(ctx)
			for line := range strings.Lines(manifest) {
				if command, ok := strings.CutPrefix(line, "#   "); ok {
					Expect(try(ctx, document.Step{Command: strings.TrimSpace(command)}, kubeconfig)).To(Succeed(), command)
				}
			}
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits", timeout)
		})

		It("leaves nothing if Ctrl-C interrupts the upload", func(ctx context.Context) {
			n := newRestricted(ctx)
			n.volume(ctx, "digits-code")
			var t *terminal
			t = n.terminalThrough(ctx, &faults.Proxy{Before: func(_ int, write string) faults.Fault {
				if strings.HasSuffix(write, "/exec") {
					t.press("\x03")
				}
				return faults.None
			}}, "run", largeFolder(200<<20), "--name=digits", pytorchImage, "--nodes=2", "--", "train.py")
			var err error
			Eventually(ctx, t.ended).Should(Receive(&err))
			Expect(exitCode(err)).To(Equal(130))
			Expect(t.String()).To(And(ContainSubstring("Interrupted: deleting ptjob/digits."),
				ContainSubstring("Nothing is left: the job is deleted with everything that it owns")))
			Eventually(ctx, n.names(ctx, leftovers+",persistentvolumeclaims")).Should(BeEmpty())
		})

		It("leaves nothing that kubectl delete does not delete if it is killed at any write", Label("crash"),
			func(ctx context.Context) {
				// kubectl train run makes six writes: it creates the job, the claim and a pod for the upload, runs a command in
				// this pod, deletes the pod, and starts the job.
				const writes = 6
				dir := largeFolder(3 << 20)
				for write := 1; write <= writes; write++ {
					By(fmt.Sprintf("killing it at write %d", write))
					n := newRestricted(ctx)
					n.volume(ctx, "digits-code")
					var command *exec.Cmd
					proxy := &faults.Proxy{Before: func(number int, _ string) faults.Fault {
						if number < write {
							return faults.None
						}
						_ = command.Process.Signal(syscall.SIGKILL)
						return faults.Down
					}}
					command = n.command(ctx, "--kubeconfig", n.through(proxy), "run", dir, "--name=digits", pytorchImage,
						"--nodes=2", "--", "train.py")
					output, err := command.CombinedOutput()
					Expect(err).To(MatchError("signal: killed"), "%s", output)
					Expect(proxy.Writes()).To(HaveLen(write))
					if write > 1 {
						Eventually(ctx, n.phase(ctx)).Should(Equal("Paused"))
						n.kubectl(ctx, "delete", "ptjob", "digits")
					}
					Eventually(ctx, n.names(ctx, leftovers+",persistentvolumeclaims")).Should(BeEmpty())
				}
			})
	})
})

// newRestricted creates a namespace that enforces the Pod Security Standard "restricted".
func newRestricted(ctx context.Context) namespace {
	GinkgoHelper()
	n := newNamespace(ctx)
	_, err := kubectl(ctx, "label", "namespace", string(n), "pod-security.kubernetes.io/enforce=restricted")
	Expect(err).NotTo(HaveOccurred())
	return n
}

// trainLong starts a long training in a terminal, and waits until its first epoch has ended.
func (n namespace) trainLong(ctx context.Context) *terminal {
	GinkgoHelper()
	t := n.terminal(ctx, "run", "examples/pytorch/code", "--name=digits", pytorchImage, small, "--", "train.py",
		"--epochs=1000000", "--pause=1")
	Eventually(ctx, t.String).Should(ContainSubstring("epoch  1  loss"))
	return t
}

// phase returns a function that returns the phase of the job digits.
func (n namespace) phase(ctx context.Context) func() (string, error) {
	return n.output(ctx, "get", "ptjob", "digits", "-o", "jsonpath={.status.phase}")
}

// claim creates a claim that several pods can write to.
func (n namespace) claim(ctx context.Context, name string) {
	GinkgoHelper()
	n.volume(ctx, name)
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
`, name), "apply", "-f", "-")
}

// largeFolder returns a folder with the training of the PyTorch examples and a file of a given size.
func largeFolder(size int) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	program, err := os.ReadFile(filepath.Join(root, "examples/pytorch/code/train.py"))
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "train.py"), program, 0o600)).To(Succeed())
	weights := make([]byte, size)
	_, err = rand.Read(weights)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "weights.bin"), weights, 0o600)).To(Succeed())
	return dir
}

// command returns the command that runs kubectl train in the namespace, at the root of the repository. It runs the
// program kubectl-train without kubectl, so that signals and exit codes are those of kubectl-train.
func (n namespace) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "kubectl-train", append([]string{"--namespace", string(n)}, args...)...)
	command.Dir = root
	return command
}

// train runs kubectl train in the namespace, and returns the output on stdout and the output on stderr.
func (n namespace) train(ctx context.Context, args ...string) (out, errOut string, err error) {
	GinkgoHelper()
	var stdout, stderr bytes.Buffer
	command := n.command(ctx, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

// through starts a proxy of the API server, and returns the path of a kubeconfig that uses the proxy.
func (namespace) through(proxy *faults.Proxy) string {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	proxy.Start(GinkgoTB(), config)
	return proxy.Kubeconfig(GinkgoTB())
}

// exitCode returns the exit code of a command that has ended with an error. If the command has succeeded or has not
// started, exitCode returns -1.
func exitCode(err error) int {
	if ended, ok := err.(*exec.ExitError); ok { //nolint:errorlint // commands return this type
		return ended.ExitCode()
	}
	return -1
}

// screenBuffer collects output while other goroutines read it.
type screenBuffer struct {
	mu     sync.Mutex
	output bytes.Buffer
}

// Write appends to the output.
func (b *screenBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.Write(p)
}

// String returns the output.
func (b *screenBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.String()
}

// terminal is a terminal in which a command runs.
type terminal struct {
	screenBuffer

	keyboard *os.File
	// ended receives the result of the command.
	ended chan error
}

// terminal runs kubectl train in a terminal.
func (n namespace) terminal(ctx context.Context, args ...string) *terminal {
	GinkgoHelper()
	return run(n.command(ctx, args...))
}

// terminalThrough runs kubectl train in a terminal, through a proxy of the API server.
func (n namespace) terminalThrough(ctx context.Context, proxy *faults.Proxy, args ...string) *terminal {
	GinkgoHelper()
	return n.terminal(ctx, append([]string{"--kubeconfig", n.through(proxy)}, args...)...)
}

// run runs a command in a terminal.
func run(command *exec.Cmd) *terminal {
	GinkgoHelper()
	keyboard, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 120})
	Expect(err).NotTo(HaveOccurred())
	t := &terminal{keyboard: keyboard, ended: make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(t, keyboard) // Copy returns an error when the command has ended
	}()
	go func() {
		err := command.Wait()
		<-read
		t.ended <- err
	}()
	DeferCleanup(keyboard.Close)
	return t
}

// String returns the output without the sequences that control the terminal.
func (t *terminal) String() string { return ansi.Strip(t.screenBuffer.String()) }

// press presses keys.
func (t *terminal) press(keys string) {
	GinkgoHelper()
	_, err := t.keyboard.WriteString(keys)
	Expect(err).NotTo(HaveOccurred())
}

// after returns a function that returns the output after the first occurrence of a text, or "" if the text is
// missing.
func (t *terminal) after(text string) func() string {
	return func() string {
		_, after, _ := strings.Cut(t.String(), text)
		return after
	}
}
