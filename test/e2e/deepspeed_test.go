package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A DeepSpeedJob", Label("deepspeed"), func() {
	DescribeTable("completes the unmodified example",
		func(ctx context.Context, example, job string, processes int) {
			n := newNamespace(ctx)
			n.deepspeed(ctx, example)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "dsjob/"+job, timeout)

			logs := now(n.output(ctx, "logs", job+"-worker-0", "-c", "worker"))
			for rank := range processes {
				Expect(logs).To(ContainSubstring(fmt.Sprintf("rank %d of %d on %s-worker-%d", rank, processes, job,
					rank*2/processes)))
			}
			Expect(strings.Count(logs, "epoch 10  loss")).To(Equal(1), "only rank 0 prints the loss")
			Eventually(ctx, n.output(ctx, "get", "dsjob", job, "-o", "jsonpath={.status.phase} {.status.backoffCount}")).
				Should(Equal("Succeeded 0"))

			n.kubectl(ctx, "delete", "dsjob", job)
			Eventually(ctx, n.names(ctx, leftovers+",secrets")).Should(BeEmpty(),
				"deleting the job deletes all its objects, including the Secret of the key")
		},
		Entry("with a script, ZeRO stage 1 and two slots on each of two workers", Label("always"),
			"zero.yaml", "digits-zero", 4),
		Entry("with a module", "module.yaml", "digits-module", 4),
		Entry("with an executable", "exec.yaml", "digits-exec", 4),
		Entry("with a custom launch command", "custom-command.yaml", "digits-custom-command", 2),
	)

	It("trains with the example for GPUs on CPUs", Label("gpu"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-zero-gpu")
		n.kubectl(ctx, "apply", "-k", "examples/deepspeed/code")
		n.applyOnCPUs(ctx, "examples/deepspeed/gpu.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "dsjob/digits-zero-gpu", timeout)

		log := now(n.output(ctx, "logs", "digits-zero-gpu-worker-0", "-c", "worker"))
		for rank := range 4 {
			Expect(log).To(ContainSubstring(fmt.Sprintf("rank %d of 4 on digits-zero-gpu-worker-%d", rank, rank/2)))
		}
		Expect(log).To(MatchRegexp(`epoch 40  loss .* processes 4`))
		Eventually(ctx, n.output(ctx, "get", "pod", "digits-zero-gpu-worker-0", "-o",
			"jsonpath={.spec.tolerations[*].key} {.spec.containers[*].volumeMounts[*].mountPath}")).
			Should(And(ContainSubstring("nvidia.com/gpu"), ContainSubstring("/dev/shm")))
	})

	It("passes a variable from a Secret to every process without exposing its value or the SSH key",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.deepspeed(ctx, "secret-env.yaml")
			// With the cleanUpPolicy None, the controller keeps the pods of all workers when the job ends, so that the spec
			// can read the pods.
			n.kubectl(ctx, "patch", "dsjob", "digits-secret-env", "--type=merge", "-p",
				`{"spec": {"runPolicy": {"cleanUpPolicy": "None"}}}`)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "dsjob/digits-secret-env", timeout)

			shown := ""
			for _, pod := range []string{"digits-secret-env-worker-0", "digits-secret-env-worker-1"} {
				shown += now(n.output(ctx, "logs", pod, "--all-containers")) + now(n.output(ctx, "get", "pod", pod, "-o", "yaml"))
			}
			for rank := range 4 {
				Expect(shown).To(ContainSubstring(fmt.Sprintf("rank %d has API_TOKEN, of 16 characters", rank)))
			}
			shown += now(n.output(ctx, "get", "dsjob,events,configmaps", "-o", "yaml"))
			controller, err := kubectl(ctx, "-n", "t9k-deepspeed", "logs", "deployment/deepspeed-controller")
			Expect(err).NotTo(HaveOccurred())
			key := now(n.output(ctx, "get", "secrets", "-l", "batch.tensorstack.dev/job-name=digits-secret-env", "-o",
				`jsonpath={.items[0].data.ssh-privatekey}`))
			Expect(key).NotTo(BeEmpty())
			for _, secret := range []string{"not-a-real-token", key, "OPENSSH PRIVATE KEY"} {
				Expect(strings.Contains(shown+controller, secret)).To(BeFalse(), "a secret is exposed")
			}
		})

	It("restarts all workers once after one is killed, and completes", Label("always"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.trainsLongWithDeepSpeed(ctx)
		lost := now(n.replicas(ctx))

		n.kubectl(ctx, "exec", "digits-zero-worker-1", "-c", "worker", "--", "sh", "-c", "kill -9 -1")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "dsjob/digits-zero", timeout)

		Eventually(ctx, n.output(ctx, "get", "dsjob", "digits-zero", "-o",
			"jsonpath={.status.backoffCount} {.status.attempt} {.status.tasks[0].restartCount}")).
			Should(Equal("1 1 2"))
		Eventually(ctx, n.failures(ctx, "dsjob/digits-zero")).
			Should(ConsistOf("digits-zero-worker-1 Error 137 counted=true on " + lost["digits-zero-worker-1"].node))
	})

	It("fails when a process fails on any worker, and reports its exit code and last output",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "create", "configmap", "digits-deepspeed", "--from-literal=train.py="+
				"import os, sys, time\nif os.environ['RANK'] == '3':\n    sys.exit('the data has no labels')\ntime.sleep(600)\n")
			n.applyPatched(ctx, "examples/deepspeed/zero.yaml",
				`[{"op": "add", "path": "/spec/runPolicy", "value": {"backoffLimit": 0}}]`)
			n.kubectl(ctx, "wait", "--for=condition=Failed", "dsjob/digits-zero", timeout)
			Eventually(ctx, n.output(ctx, "get", "dsjob", "digits-zero", "-o",
				"jsonpath={.status.conditions[?(@.type=='Failed')].message}")).Should(And(
				HavePrefix("replica digits-zero-worker-0 failed with exit code 1 (Error)"),
				ContainSubstring("digits-zero-worker-1"), HaveSuffix("\nthe data has no labels")))
		})

	It("reports the programs that its image lacks", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/deepspeed/code")
		n.applyPatched(ctx, "examples/deepspeed/zero.yaml", `[
			{"op": "replace", "path": "/spec/worker/template/spec/containers/0/image", "value": "tensorstack/pytorch-example:2.6.0"},
			{"op": "add", "path": "/spec/runPolicy", "value": {"backoffLimit": 0}}]`)
		n.kubectl(ctx, "wait", "--for=condition=Failed", "dsjob/digits-zero", timeout)
		Eventually(ctx, n.output(ctx, "get", "dsjob", "digits-zero", "-o",
			"jsonpath={.status.conditions[?(@.type=='Failed')].message}")).
			Should(ContainSubstring("the image lacks deepspeed and pdsh"))
	})

	It("runs the autotuner on all workers until it finds the optimal setup", Label("tuning"), func(ctx context.Context) {
		waitLonger(6) // the autotuner trains a dozen times
		n := newNamespace(ctx)
		n.deepspeed(ctx, "autotune.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "dsjob/digits-autotune", timeout)
		Eventually(ctx, n.output(ctx, "logs", "digits-autotune-worker-0", "-c", "worker")).
			Should(MatchRegexp(`z1_gas\d+_tmbspg\d+ is the optimal setup after tuning`))
	})

	It("continues the training with more and with fewer workers", Label("elastic"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.deepspeed(ctx, "elastic.yaml")
		trainsOn := func(processes int) {
			GinkgoHelper()
			Eventually(ctx, n.output(ctx, "logs", "digits-elastic-worker-0", "-c", "worker", "--tail=3")).
				Should(MatchRegexp(`epoch +\d+  loss .* processes %d`, processes))
		}
		trainsOn(2)
		before := now(n.replicas(ctx))
		n.kubectl(ctx, "scale", "dsjob/digits-elastic", "--replicas=3")
		trainsOn(3)
		n.kubectl(ctx, "scale", "dsjob/digits-elastic", "--replicas=1")
		trainsOn(1)
		Expect(now(n.replicas(ctx))["digits-elastic-worker-0"]).To(Equal(before["digits-elastic-worker-0"]),
			"the leader keeps its pod")
		Eventually(ctx,
			n.output(ctx, "get", "dsjob", "digits-elastic", "-o", "jsonpath={.status.backoffCount} {.status.failures}")).
			Should(Equal("0"))
		Eventually(ctx, n.output(ctx, "logs", "digits-elastic-worker-0", "-c", "worker")).
			Should(ContainSubstring("continuing after epoch"))
	})

	It("lets the user launch the training by hand in debug mode", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.deepspeed(ctx, "debug.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Running", "dsjob/digits-debug", timeout)
		output := n.kubectl(ctx, "exec", "digits-debug-worker-0", "-c", "worker", "--", "/t9k/agent/agent", "run", "--",
			"deepspeed", "--hostfile", "/t9k/hostfile", "/code/train.py", "--deepspeed_config", "/code/ds_config.json",
			"--epochs=1")
		Expect(output).To(ContainSubstring("rank 3 of 4 on digits-debug-worker-1"))
		Expect(output).To(ContainSubstring("epoch  1  loss"))
	})
})

var _ = Describe("A DeepSpeedJob with restarts in place", Label("deepspeed", "inplace"), func() {
	It("runs the launcher again in the same pods, and restarts all workers after one more failure",
		func(ctx context.Context) {
			waitLonger(3) // the job trains three times
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/deepspeed/code")
			n.applyPatched(ctx, "examples/deepspeed/zero.yaml", `[
				{"op": "add", "path": "/spec/config/maxRestarts", "value": 1},
				{"op": "replace", "path": "/spec/config/slotsPerWorker", "value": 1},
				{"op": "add", "path": "/spec/config/run/python/-", "value": "--epochs=1000000"}]`)
			// trains waits until the processes train that the leader has started for the given time.
			trains := func(start int) {
				GinkgoHelper()
				Eventually(ctx, n.output(ctx, "logs", "digits-zero-worker-0", "-c", "worker")).Should(
					MatchRegexp(`(?s)(rank 0 of 2 .*){%d}epoch  2  loss`, start))
			}
			counts := n.output(ctx, "get", "dsjob", "digits-zero", "-o", "jsonpath={.status.backoffCount} "+
				"{.status.attempt} {.status.restartsInPlace.count}{range .status.restartsInPlace.last[*]} "+
				"{.replica} {.rank} {.signal}{end}")
			kill := func() {
				GinkgoHelper()
				n.kubectl(ctx, "exec", "digits-zero-worker-1", "-c", "worker", "--", "sh", "-c", `
					for process in /proc/[0-9]*; do
						case $(tr "\0" " " <$process/cmdline) in
							*deepspeed.launcher*) ;;
							*/code/train.py*) kill -9 ${process#/proc/} && echo killed ;;
						esac
					done | grep killed`)
			}
			trains(1)
			before := now(n.replicas(ctx))
			kill()
			trains(2)
			Eventually(ctx, counts).Should(Equal("0  1 digits-zero-worker-1 1 SIGKILL"))
			Expect(now(n.replicas(ctx))).To(Equal(before), "the pods stay")
			kill()
			Eventually(ctx, counts).Should(Equal("1 1 1 digits-zero-worker-1 1 SIGKILL"))
			Eventually(ctx, n.pods(ctx)).Should(And(HaveLen(2), Not(ContainElement(BeElementOf(uids(before))))))
			trains(1)
			Eventually(ctx, n.failures(ctx, "dsjob/digits-zero")).Should(ConsistOf(
				"digits-zero-worker-1 Error 137 counted=true on " + before["digits-zero-worker-1"].node))
		})
})

// trainsLongWithDeepSpeed creates the job digits-zero and waits until it trains. The first processes of the job would
// train for a very long time. Later processes, after a restart or a resume, train for only a few epochs. A command
// that a spec runs in a container of the job can kill any process of this container.
func (n namespace) trainsLongWithDeepSpeed(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "create", "configmap", "schedule", "--from-literal=epochs=1000000")
	n.kubectl(ctx, "apply", "-k", "examples/deepspeed/code")
	n.applyPatched(ctx, "examples/deepspeed/zero.yaml", `[
		{"op": "add", "path": "/spec/config/run/python/-", "value": "--epochs=$(EPOCHS)"},
		{"op": "add", "path": "/spec/worker/template/spec/shareProcessNamespace", "value": true},
		{"op": "add", "path": "/spec/worker/template/spec/terminationGracePeriodSeconds", "value": 2},
		{"op": "add", "path": "/spec/worker/template/spec/containers/0/env/-", "value":
			{"name": "EPOCHS", "valueFrom": {"configMapKeyRef": {"name": "schedule", "key": "epochs"}}}}]`)
	Eventually(ctx, n.output(ctx, "logs", "digits-zero-worker-0", "-c", "worker")).
		Should(ContainSubstring("epoch  2  loss"), "the job trains")
	// Running processes have already read the former number of epochs. New processes read the new number, so they end
	// soon.
	n.kubectl(ctx, "patch", "configmap", "schedule", "-p", `{"data":{"epochs":"5"}}`)
}

// deepspeed applies an example of DeepSpeed.
func (n namespace) deepspeed(ctx context.Context, example string) {
	GinkgoHelper()
	n.kubectl(ctx, "apply", "-k", "examples/deepspeed/code")
	n.kubectl(ctx, "apply", "-f", "examples/deepspeed/"+example)
}

// applyPatched patches a manifest with a JSON patch and applies the result.
func (n namespace) applyPatched(ctx context.Context, manifest, patch string) {
	GinkgoHelper()
	patched := n.kubectl(ctx, "patch", "--local", "-f", manifest, "-o", "yaml", "--type=json", "-p", patch)
	n.kubectlWith(ctx, patched, "apply", "-f", "-")
}
