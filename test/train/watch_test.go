package train

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

var _ = Describe("kubectl train watch", func() {
	It("prints a line for each change of a job that restarts and succeeds", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, restarts("digits", 1))
		w := n.watch(ctx, "watch", "digits", "--output=lines")
		Eventually(w.Text).Should(ContainSubstring(
			" ptjob/digits phase: Pending (Pending): 2 of 2 replicas are not running yet: "))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		Eventually(w.Text).Should(And(
			ContainSubstring(" ptjob/digits phase: Running (ReplicasRunning): all 2 replicas run or have ended\n"),
			ContainSubstring(" ptjob/digits replicas: 2 of 2 running\n"),
		))
		n.exit(ctx, "digits-worker-1", 1, "Traceback:\nValueError: the data has no labels")
		Eventually(w.Text).Should(And(
			ContainSubstring(" ptjob/digits restarts: 1 of 1, attempt 1\n"),
			ContainSubstring(
				" ptjob/digits failure: worker-1 (rank 1): exit code 1 (Error) | ValueError: the data has no labels\n"),
		))
		n.runNew(ctx, "1", "digits-worker-0", "digits-worker-1")
		Eventually(w.Text).Should(MatchRegexp(`(?s)restarts: 1 of 1.* phase: Running `))
		n.exit(ctx, "digits-worker-1", 0, "")
		n.exit(ctx, "digits-worker-0", 0, "")
		Eventually(w.Ended).Should(Receive(BeNil()), "the exit code is 0")
		Expect(w.Text()).To(HaveSuffix(
			" ptjob/digits phase: Succeeded (LeaderSucceeded): leader digits-worker-0 succeeded\n"), "the last line")
		Expect(strings.Split(strings.TrimSpace(w.Text()), "\n")).To(HaveEach(
			MatchRegexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ptjob/digits [a-z]+: `)))
	})

	It("ends with exit code 2 when the job fails, and immediately if it has failed before", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		w := n.watch(ctx, "watch", "digits")
		n.exit(ctx, "digits-worker-1", 0, "")
		n.exit(ctx, "digits-worker-0", 3, "the disk is full")
		var err error
		Eventually(w.Ended).Should(Receive(&err))
		Expect(err).To(MatchError(fmt.Sprintf(
			"ptjob/digits failed (PermanentFailure): kubectl train why -n %s ptjob/digits explains it", n)))
		Expect(command.ExitCode(err)).To(Equal(2))

		out, _, err := n.train(ctx, "watch", "digits")
		Expect(command.ExitCode(err)).To(Equal(2))
		Expect(out).To(And(
			ContainSubstring(" ptjob/digits phase: Failed (PermanentFailure): replica digits-worker-0 "),
			ContainSubstring(" ptjob/digits failure: worker-0 (rank 0): exit code 3 (Error) | the disk is full\n"),
		))
	})

	It("ends when the job runs with --until=running", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("DeepSpeedJob", "words"))
		w := n.watch(ctx, "watch", "words", "--until=running")
		Eventually(w.Text).Should(ContainSubstring(" dsjob/words phase: Pending "))
		n.run(ctx, "words-worker-0", "words-worker-1")
		Eventually(w.Ended).Should(Receive(BeNil()))
		Expect(w.Text()).To(ContainSubstring(" dsjob/words replicas: 2 of 2 running\n"))
	})

	It("reports that the job was deleted, with exit code 1", func(ctx context.Context) {
		n := newNamespace(ctx)
		name := n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		w := n.watch(ctx, "watch", "digits")
		Eventually(w.Text).Should(ContainSubstring(" phase: Pending "))
		job := jobs.KindNamed("ptjob").New()
		job.SetNamespace(string(n))
		job.SetName(name)
		Expect(api.Delete(ctx, job)).To(Succeed())
		var err error
		Eventually(w.Ended).Should(Receive(&err))
		Expect(err).To(MatchError("ptjob/digits was deleted before it finished"))
		Expect(command.ExitCode(err)).To(Equal(1))
		Expect(w.Text()).To(HaveSuffix(" ptjob/digits deleted: the job no longer exists\n"))
	})

	It("ends with exit code 130 when it is interrupted, and with 1 after --timeout", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		interruptible, interrupt := context.WithCancel(ctx)
		w := n.watch(interruptible, "watch", "digits")
		Eventually(w.Text).Should(ContainSubstring(" phase: Pending "))
		interrupt()
		var err error
		Eventually(w.Ended).Should(Receive(&err))
		Expect(err).To(MatchError("interrupted: ptjob/digits goes on"))
		Expect(command.ExitCode(err)).To(Equal(130))

		_, _, err = n.train(ctx, "watch", "digits", "--timeout=2s")
		Expect(err).To(MatchError(ContainSubstring("--timeout=2s is over")))
		Expect(command.ExitCode(err)).To(Equal(1))
	})

	It("prints the progress that the job reports", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		w := n.watch(ctx, "watch", "digits")
		Eventually(w.Text).Should(ContainSubstring(" phase: Running "))
		n.changeStatus(ctx, "digits", func(status *batchv1beta1.JobStatus) {
			status.Progress = &batchv1beta1.ProgressStatus{
				Summary: "42% (420/1000)", Metrics: []batchv1beta1.ProgressMetric{{Name: "loss", Value: "0.25"}},
			}
		})
		Eventually(w.Text).Should(ContainSubstring(" ptjob/digits progress: 42% (420/1000) loss=0.25\n"))
	})

	It("prints the place in the queue among the jobs of all namespaces, or of those that the user may read",
		func(ctx context.Context) {
			n, other := newNamespace(ctx), newNamespace(ctx)
			queue := "lab-" + string(n)
			Expect(api.Create(ctx, &schedulerv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: queue}})).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				Expect(api.Delete(ctx, &schedulerv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: queue}})).To(Succeed())
			})
			n.create(ctx, inQueue("first", queue, 50))
			n.create(ctx, inQueue("digits", queue, 10))
			other.create(ctx, inQueue("urgent", queue, 90))
			other.create(ctx, inQueue("later", queue, 1))
			for name, of := range map[string]namespace{"first": n, "digits": n, "urgent": other, "later": other} {
				of.podGroup(ctx, name)
			}
			w := n.watch(ctx, "watch", "digits")
			Eventually(w.Text).Should(ContainSubstring(" ptjob/digits queue: " + queue + ", place 3 of 4\n"))

			n.allowReading(ctx, "member", "pytorchtrainingjobs", "podgroups")
			w = n.watch(ctx, "watch", "digits", "--as=member")
			Eventually(w.Text).Should(ContainSubstring(" ptjob/digits queue: " + queue + ", place 2 of 2 of this namespace\n"))

			group := n.podGroup(ctx, "digits")
			group.Status.ObservedGeneration = group.Generation
			for _, condition := range []string{schedulerv1beta1.ConditionAdmitted, schedulerv1beta1.ConditionGroupScheduled} {
				meta.SetStatusCondition(&group.Status.Conditions, metav1.Condition{
					Type: condition, Status: metav1.ConditionTrue, Reason: schedulerv1beta1.ReasonScheduled,
				})
			}
			Expect(api.Status().Update(ctx, group)).To(Succeed())
			Eventually(w.Text).Should(ContainSubstring(" ptjob/digits queue: " + queue + ", admitted\n"))
		})

	It("prints the URL of the TensorBoard of the job", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, strings.Replace(plain("PyTorchTrainingJob", "digits"), "spec: {",
			"spec: {tensorboardSpec: {trainingLogFilesets: ['t9k://pvc/logs/digits']}, ", 1))
		w := n.watch(ctx, "watch", "digits")
		Eventually(ctx, func() error {
			var board tensorboardv1beta1.TensorBoard
			if err := api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: "digits"}, &board); err != nil {
				return err
			}
			board.Status.URL = "http://digits-tb." + string(n)
			return api.Status().Update(ctx, &board)
		}).Should(Succeed())
		Eventually(w.Text).Should(ContainSubstring(" ptjob/digits tensorboard: http://digits-tb." + string(n) + "\n"))
	})

	It("shows the work of 200 replicas in few lines", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, strings.Replace(plain("PyTorchTrainingJob", "large"), "replicas: 2", "replicas: 200", 1))
		w := n.watch(ctx, "watch", "large")
		var pods []string
		for i := range 200 {
			pods = append(pods, fmt.Sprintf("large-worker-%d", i))
		}
		n.run(ctx, pods...)
		Eventually(w.Text).Should(ContainSubstring(" ptjob/large replicas: 200 of 200 running\n"))
		n.exit(ctx, "large-worker-142", 1, "RuntimeError: NCCL error")
		Eventually(w.Text).Should(ContainSubstring(" ptjob/large failure: worker-142 (rank 142): exit code 1 (Error) | "))
		var err error
		Eventually(w.Ended).Should(Receive(&err))
		Expect(command.ExitCode(err)).To(Equal(2))
		Expect(strings.Count(w.Text(), "\n")).To(BeNumerically("<", 100))
	})

	It("leaves out what the user may not read", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.allowReading(ctx, "reader", "pytorchtrainingjobs")
		out, _, err := n.train(ctx, "watch", "digits", "--until=running", "--as=reader")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring(" phase: Running "))
		_, _, err = n.train(ctx, "watch", "digits", "--as=nobody")
		Expect(err).To(MatchError(HavePrefix("user nobody may not get pytorchtrainingjobs")))
	})

	It("prints the changes of all jobs, and ends when all have finished", func(ctx context.Context) {
		n := newNamespace(ctx)
		inSweep := func(manifest string) string {
			return strings.Replace(manifest, "metadata: {", "metadata: {labels: {sweep: lr}, ", 1)
		}
		n.create(ctx, plain("PyTorchTrainingJob", "other"))
		n.create(ctx, inSweep(plain("PyTorchTrainingJob", "digits")))
		n.create(ctx, inSweep(plain("DeepSpeedJob", "words")))
		w := n.watch(ctx, "watch", "-l", "sweep=lr", "--until=finished")
		Eventually(w.Text).Should(And(ContainSubstring(" ptjob/digits phase: "), ContainSubstring(" dsjob/words phase: ")))
		n.run(ctx, "digits-worker-0", "digits-worker-1", "words-worker-0", "words-worker-1")
		Eventually(w.Text).Should(And(
			ContainSubstring(" ptjob/digits phase: Running "), ContainSubstring(" dsjob/words phase: Running ")))
		for _, pod := range []string{"digits-worker-1", "digits-worker-0", "words-worker-1", "words-worker-0"} {
			n.exit(ctx, pod, 0, "")
		}
		Eventually(w.Ended).Should(Receive(BeNil()))
		Expect(w.Text()).To(And(
			ContainSubstring(" ptjob/digits phase: Succeeded "), ContainSubstring(" dsjob/words phase: Succeeded "),
			Not(ContainSubstring(" ptjob/other "))))
	})

	It("prints the job after each change as YAML", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		out, _, err := n.train(ctx, "watch", "digits", "--until=running", "-o", "yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(HavePrefix("apiVersion: batch.tensorstack.dev/v1beta1\nkind: PyTorchTrainingJob\n"),
			ContainSubstring("\n  phase: Running\n")))
	})

	DescribeTable("rejects flags that do not fit", func(ctx context.Context, message string, args ...string) {
		_, _, err := newNamespace(ctx).train(ctx, append([]string{"watch"}, args...)...)
		Expect(err).To(MatchError(message))
	},
		Entry("a screen without a terminal", "--output=screen needs a terminal: use --output=lines", "-o", "screen"),
		Entry("an unknown output format", `invalid argument "wide" for "-o, --output" flag: use screen, lines, json or yaml`,
			"-o", "wide"),
		Entry("an unknown state", `invalid argument "ready" for "--until" flag: use running or finished`, "--until=ready"),
		Entry("a job and a selector", "-A and -l select jobs of the table: omit them, or omit the job", "digits", "-A"),
		Entry("no jobs to wait for", "no jobs match: kubectl train list shows the jobs", "--until=finished"),
	)
})

// restarts returns the manifest of a PyTorchTrainingJob with two replicas that restart after a failure. The parameter
// limit is the backoffLimit of the job.
func restarts(name string, limit int) string {
	return fmt.Sprintf(`{apiVersion: batch.tensorstack.dev/v1beta1, kind: PyTorchTrainingJob, metadata: {name: %s}, spec: {
  runPolicy: {backoffLimit: %d},
  replicaSpecs: [{type: worker, replicas: 2, restartPolicy: OnFailure,
    template: {spec: {containers: [{name: pytorch, image: training}]}}}]}}`, name, limit)
}

// inQueue returns the manifest of a PyTorchTrainingJob of one replica that is scheduled from a Queue.
func inQueue(name, queue string, priority int) string {
	return fmt.Sprintf(`{apiVersion: batch.tensorstack.dev/v1beta1, kind: PyTorchTrainingJob, metadata: {name: %s}, spec: {
  scheduler: {t9kScheduler: {queue: %s, priority: %d}},
  replicaSpecs: [{type: worker, template: {spec: {containers: [{name: pytorch, image: training}]}}}]}}`, name, queue, priority)
}

// podGroup returns the PodGroup of a job, once it exists.
func (n namespace) podGroup(ctx context.Context, name string) *schedulerv1beta1.PodGroup {
	GinkgoHelper()
	group := &schedulerv1beta1.PodGroup{}
	Eventually(ctx, func() error {
		return api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: name}, group)
	}).Should(Succeed())
	return group
}

// watched is a running command and its output so far.
type watched struct {
	// Ended receives the error of the command.
	Ended chan error

	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (w *watched) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(text)
}

// Text returns the output of the command on stdout so far.
func (w *watched) Text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// watch starts kubectl train in the namespace.
func (n namespace) watch(ctx context.Context, args ...string) *watched {
	w := &watched{Ended: make(chan error, 1)}
	cmd := command.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: w, ErrOut: io.Discard})
	cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig, "--namespace", string(n)}, args...))
	go func() { w.Ended <- cmd.ExecuteContext(ctx) }()
	return w
}

// runNew waits until the label of each pod has the number of the attempt, and then marks the pods as running.
func (n namespace) runNew(ctx context.Context, attempt string, pods ...string) {
	GinkgoHelper()
	for _, name := range pods {
		Eventually(ctx, func() (string, error) {
			var pod corev1.Pod
			err := api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: name}, &pod)
			return pod.Labels[batchv1beta1.LabelAttempt], client.IgnoreNotFound(err)
		}).Should(Equal(attempt), "pod %s", name)
	}
	n.run(ctx, pods...)
}

// changeStatus changes the status of a PyTorchTrainingJob as its controller can.
func (n namespace) changeStatus(ctx context.Context, name string, change func(*batchv1beta1.JobStatus)) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		job := jobs.KindNamed("ptjob").New()
		if err := api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: name}, job); err != nil {
			return err
		}
		change(job.JobStatus())
		return api.Status().Update(ctx, job)
	}).Should(Succeed())
}

// allowReading gives a user the permission to read some kinds in the namespace.
func (n namespace) allowReading(ctx context.Context, user string, resources ...string) {
	GinkgoHelper()
	n.allow(ctx, user, rbacv1.PolicyRule{
		APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"get", "list", "watch"},
	})
}
