package train

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"tensorstack.dev/jobs/cli/command"
)

var _ = Describe("kubectl train resume", func() {
	It("waits until the job runs again", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.paused(ctx, plain("PyTorchTrainingJob", "digits"))
		resume := n.start(ctx, "resume", "digits")
		Eventually(ctx, resume.errOut).Should(gbytes.Say("Waiting: Pending: 2 of 2 replicas are not running yet"))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		Eventually(ctx, resume.ended).Should(Receive(BeNil()))
		Expect(resume.out.Contents()).To(BeEquivalentTo("pytorchtrainingjob.batch.tensorstack.dev/digits resumed\n"))
		Expect(now(n.phase(ctx, "digits"))).To(Equal("Running"))
	})

	It("explains that the job is in a queue, and need not wait for it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.paused(ctx, withSpec("PyTorchTrainingJob", "digits", "scheduler: {t9kScheduler: {queue: research}}, "+workers))
		out, errOut, err := n.train(ctx, "resume", "digits", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("pytorchtrainingjob.batch.tensorstack.dev/digits resumed\n"))
		Expect(errOut).To(BeEmpty())
		resume := n.start(ctx, "resume", "digits")
		Eventually(ctx, resume.errOut).Should(gbytes.Say("Waiting: the job is in a queue: Queued: .*\n" +
			"Press Ctrl-C to stop waiting: the job is resumed.\n"))
	})

	It("has the exit code 2 if the job fails", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.paused(ctx, plain("PyTorchTrainingJob", "digits"))
		resume := n.start(ctx, "resume", "digits")
		n.exit(ctx, "digits-worker-0", 7, "no data")
		var err error
		Eventually(ctx, resume.ended).Should(Receive(&err))
		Expect(err).To(MatchError(MatchRegexp(`^ptjob/digits has failed \(PermanentFailure: .* exit code 7 .*\)$`)))
		Expect(command.ExitCode(err)).To(Equal(2))
	})

	DescribeTable("gives the program other arguments",
		func(ctx context.Context, manifest, path, wanted string, args ...string) {
			n := newNamespace(ctx)
			n.paused(ctx, manifest)
			_, errOut, err := n.train(ctx, append([]string{"resume", "digits", "--wait=false"}, args...)...)
			Expect(err).NotTo(HaveOccurred(), errOut)
			out, _, err := n.train(ctx, "list", "-o", "jsonpath={.items[0].spec."+path+"}")
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(Equal(wanted))
		},
		Entry("of the leader's type", withSpec("PyTorchTrainingJob", "digits", workers),
			"replicaSpecs[*].template.spec.containers[*].args", `["--epochs=20","--resume"]`, "--", "--epochs=20", "--resume"),
		Entry("of the types with the same command line", withSpec("PyTorchTrainingJob", "digits", masterAndWorkers),
			"replicaSpecs[*].template.spec.containers[*].args", `["--serve"] ["-e"] ["-e"]`, "--", "-e"),
		Entry("of a given type", withSpec("TensorFlowTrainingJob", "digits", chiefAndWorkers),
			"replicaSpecs[*].template.spec.containers[*].args", `["a"] ["-e"]`, "--type=worker", "--", "-e"),
		Entry("of a DeepSpeedJob", plain("DeepSpeedJob", "digits"), "config.run.python", `["train.py","-e"]`,
			"--", "train.py", "-e"),
	)

	It("waits until the job is paused before it gives other arguments", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, withSpec("PyTorchTrainingJob", "digits", workers))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		release := n.hold(ctx, "digits-worker-0")
		_, _, err := n.train(ctx, "pause", "digits", "--wait=false")
		Expect(err).NotTo(HaveOccurred())
		resume := n.start(ctx, "resume", "digits", "--wait=false", "--", "--epochs=20")
		Eventually(ctx, resume.errOut).Should(gbytes.Say("Waiting: Pausing: remaining pods: 1"))
		release(ctx)
		Eventually(ctx, resume.ended).Should(Receive(BeNil()))
	})

	DescribeTable("refuses arguments",
		func(ctx context.Context, manifest string, isPaused bool, wanted string, args ...string) {
			n := newNamespace(ctx)
			if isPaused {
				n.paused(ctx, manifest)
			} else {
				n.create(ctx, manifest)
			}
			_, _, err := n.train(ctx, append([]string{"resume", "digits"}, args...)...)
			Expect(err).To(MatchError(ContainSubstring(wanted)))
		},
		Entry("of a job that is not paused", plain("PyTorchTrainingJob", "digits"), false,
			"ptjob/digits is not paused, and the args of a job can be changed only while it is paused", "--", "-e"),
		Entry("that resumeSpecs override", withSpec("PyTorchTrainingJob", "digits",
			`runMode: {pause: {resumeSpecs: [{type: worker, args: [-r]}]}}, `+workers), true,
			"spec.runMode.pause.resumeSpecs sets how type worker of ptjob/digits starts after a pause", "--", "-e"),
		Entry("of an unknown type", plain("PyTorchTrainingJob", "digits"), true,
			`ptjob/digits has no type "master": its types are ["worker"]`, "--type=master", "--", "-e"),
		Entry("of a custom command", withSpec("DeepSpeedJob", "digits",
			`config: {customCommand: ./run.sh}, worker: {template: {spec: {containers: [{name: worker, image: training}]}}}`), true,
			"spec.config.customCommand launches the training, which takes no ARGS", "--", "-e"),
		Entry("without --", plain("PyTorchTrainingJob", "digits"), true, "the arguments of the training follow --", "epochs"),
		Entry("that are missing", plain("PyTorchTrainingJob", "digits"), true, "add -- and the ARGS", "--type=worker"),
	)

	It("refuses a job that has ended", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		n.exit(ctx, "digits-worker-0", 7, "no data")
		Eventually(ctx, n.phase(ctx, "digits")).Should(Equal("Failed"))
		_, _, err := n.train(ctx, "resume", "digits")
		Expect(err).To(MatchError(ContainSubstring(", so it cannot be resumed: create another job to train again")))
	})
})

// paused creates a job, waits until it is Pending, and then pauses it.
func (n namespace) paused(ctx context.Context, manifest string) {
	GinkgoHelper()
	name := n.create(ctx, manifest)
	Eventually(ctx, n.phase(ctx, name)).Should(Equal("Pending"))
	_, _, err := n.train(ctx, "pause", name)
	Expect(err).NotTo(HaveOccurred())
}

// masterAndWorkers is the field replicaSpecs with a master and a worker that have the same command line, and a type
// with another command line.
const masterAndWorkers = `replicaSpecs: [
	{type: data, template: {spec: {containers: [{name: main, image: training, args: [--serve]}]}}},
	{type: master, template: {spec: {containers: [{name: log, image: log}, {name: pytorch, image: training, args: [a]}]}}},
	{type: worker, template: {spec: {containers: [{name: main, image: training, args: [a]}]}}}]`

// chiefAndWorkers is the field replicaSpecs with a chief and a worker that have the same command line.
const chiefAndWorkers = `replicaSpecs: [
	{type: chief, template: {spec: {containers: [{name: tensorflow, image: training, args: [a]}]}}},
	{type: worker, template: {spec: {containers: [{name: tensorflow, image: training, args: [a]}]}}}]`

// now calls the function read once, expects success, and returns the value. Use it for a state that no longer
// changes.
func now[T any](read func() (T, error)) T {
	GinkgoHelper()
	value, err := read()
	Expect(err).NotTo(HaveOccurred())
	return value
}
