package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/localcluster"
)

var _ = Describe("A TensorFlowTrainingJob", Label("tensorflow"), func() {
	BeforeEach(func() { waitLonger(2) }) // the imports of TensorFlow take long

	It("trains on workers only, with MultiWorkerMirroredStrategy", Label("always"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.completesExample(ctx, "multi-worker.yaml", "digits-multi-worker")

			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/digits-multi-worker-worker-0",
				"pod/digits-multi-worker-worker-1"))
			logs, err := n.logs(ctx, "digits-multi-worker")()
			Expect(err).NotTo(HaveOccurred())
			Expect(logs).To(ContainSubstring("worker 0, replicas in the cluster 2, on digits-multi-worker-worker-0"))
			Expect(logs).To(ContainSubstring("worker 1, replicas in the cluster 2, on digits-multi-worker-worker-1"))
			Expect(strings.Count(logs, "epoch 10  loss")).To(Equal(1), "only worker 0 prints the loss")

			n.kubectl(ctx, "delete", "tfjob", "digits-multi-worker")
			Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty(), "deleting the job deletes all its objects")
		})

	It("trains with ParameterServerStrategy, and deletes the parameter server after the chief has ended",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.completesExample(ctx, "parameter-server.yaml", "digits-parameter-server")

			Eventually(ctx, n.output(ctx, "get", "tfjob", "digits-parameter-server", "-o",
				"jsonpath={.status.conditions[?(@.type=='Completed')].message}")).
				Should(Equal("leader digits-parameter-server-chief-0 succeeded"))
			logs := now(n.output(ctx, "logs", "digits-parameter-server-chief-0", "-c", "tensorflow"))
			Expect(logs).To(ContainSubstring("chief 0, replicas in the cluster 4"))
			Expect(logs).To(ContainSubstring("epoch 10  loss"))
			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/digits-parameter-server-chief-0"))
		})

	It("trains on the chief while an evaluator evaluates its checkpoints", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-checkpoints")
		n.completesExample(ctx, "evaluator.yaml", "digits-evaluator")

		evaluator := n.output(ctx, "logs", "digits-evaluator-evaluator-0", "-c", "tensorflow")
		Eventually(ctx, evaluator).Should(ContainSubstring("evaluator 0, replicas in the cluster 1"),
			"the evaluator is not in the cluster of the training")
		Eventually(ctx, evaluator).Should(ContainSubstring("epoch 10  loss"))
		Eventually(ctx, n.output(ctx, "get", "tfjob", "digits-evaluator", "-o", "jsonpath={.status.aggregate.succeeded}")).
			Should(Equal("2"), "the evaluator ends by itself before the job cleans up")
	})

	It("continues with Keras 3 from its checkpoint after a pod was deleted", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-keras3")
		n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
		n.kubectl(ctx, "apply", "-f", "examples/tensorflow/keras3.yaml")
		log := n.output(ctx, "logs", "digits-keras3-worker-0", "-c", "tensorflow")

		Eventually(ctx, log).Should(ContainSubstring("epoch  2  loss"))
		n.kubectl(ctx, "delete", "pod", "digits-keras3-worker-1", "--wait=false")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-keras3", timeout)
		Eventually(ctx, n.progress(ctx, "tfjob", "digits-keras3")).Should(Equal("100% (20/20)"))
		Eventually(ctx, log).Should(And(
			ContainSubstring("worker 0, replicas in the cluster 2"), MatchRegexp(`continuing after epoch +[1-9]`),
			// An untrained model has an accuracy of 0.1.
			MatchRegexp(`epoch 20  loss 0\.\d+  accuracy 0\.[89]`),
		))
		Eventually(ctx, n.output(ctx, "get", "tfjob", "digits-keras3", "-o",
			"jsonpath={.status.attempt} {.status.backoffCount}")).Should(Equal("1 0"))
	})

	It("with a parameter server replaces only the worker that is killed, and the others train on",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
			n.kubectl(ctx, "apply", "-f",
				n.killable(ctx, "parameter-server.yaml", "ExitCode", "/code/parameter_server.py", "--epochs=1000000"))
			n.hasTrained(ctx, "digits-parameter-server", 2)
			lost := now(n.replicas(ctx))

			n.kubectl(ctx, "exec", "digits-parameter-server-worker-1", "-c", "tensorflow", "--", "sh", "-c", "kill -9 -1")
			Eventually(ctx, n.output(ctx, "get", "pod", "digits-parameter-server-worker-1", "--ignore-not-found", "-o",
				"jsonpath={.metadata.uid}")).ShouldNot(BeElementOf("", lost["digits-parameter-server-worker-1"].uid))
			n.kubectl(ctx, "wait", "--for=condition=Running", "tfjob/digits-parameter-server", timeout)
			n.kubectl(ctx, "exec", "digits-parameter-server-chief-0", "-c", "tensorflow", "--", "touch", "/tmp/enough")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-parameter-server", timeout)

			Eventually(ctx, n.failures(ctx, "tfjob/digits-parameter-server")).Should(ConsistOf(
				"digits-parameter-server-worker-1 Error 137 counted=true on " + lost["digits-parameter-server-worker-1"].node))
			Eventually(ctx,
				n.output(ctx, "get", "tfjob", "digits-parameter-server", "-o", "jsonpath={.status.backoffCount}")).
				Should(Equal("1"))
			Expect(now(n.replicas(ctx))["digits-parameter-server-chief-0"]).To(Equal(lost["digits-parameter-server-chief-0"]),
				"the chief keeps its pod")
		})

	It("without parameter servers restarts all workers once after one is killed", Label("always"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.trainsLongWithTensorFlow(ctx)
			lost := now(n.replicas(ctx))

			n.kubectl(ctx, "exec", "digits-multi-worker-worker-1", "-c", "tensorflow", "--", "sh", "-c", "kill -9 -1")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-multi-worker", timeout)

			Eventually(ctx, n.failures(ctx, "tfjob/digits-multi-worker")).Should(ConsistOf(
				"digits-multi-worker-worker-1 Error 137 counted=true on " + lost["digits-multi-worker-worker-1"].node))
			Eventually(ctx, n.output(ctx, "get", "tfjob", "digits-multi-worker", "-o",
				"jsonpath={.status.backoffCount} {.status.attempt} {.status.tasks[0].restartCount}")).
				Should(Equal("1 1 2"))
			for name, replacement := range now(n.replicas(ctx)) {
				Expect(replacement.uid).NotTo(Equal(lost[name].uid), "%s has a new pod", name)
			}
		})
})

var _ = Describe("The guide for migrating from Kubeflow", Label("tensorflow"), func() {
	It("shows manifests that the API server accepts", func(ctx context.Context) {
		guide, err := os.ReadFile(filepath.Join(root, "docs/train/migrating-from-kubeflow.md"))
		Expect(err).NotTo(HaveOccurred())
		manifests := regexp.MustCompile("(?s)```yaml\n(apiVersion: batch.tensorstack.dev/.*?)```").
			FindAllStringSubmatch(string(guide), -1)
		Expect(manifests).NotTo(BeEmpty())
		n := newNamespace(ctx)
		for _, manifest := range manifests {
			n.kubectlWith(ctx, manifest[1], "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		}
	})
})

// completesExample applies an example of TensorFlow, and waits until it has succeeded without a restart.
func (n namespace) completesExample(ctx context.Context, example, job string) {
	GinkgoHelper()
	n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
	n.kubectl(ctx, "apply", "-f", "examples/tensorflow/"+example)
	n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/"+job, timeout)
	Eventually(ctx, n.output(ctx, "get", "tfjob", job, "-o", "jsonpath={.status.phase} {.status.backoffCount}")).
		Should(Equal("Succeeded 0"))
}

// logs returns a function that returns the logs of the main containers of a job. The function fails until these
// containers have started.
func (n namespace) logs(ctx context.Context, job string) func() (string, error) {
	return func() (string, error) {
		return kubectl(ctx, "-n", string(n), "logs", "-l", "batch.tensorstack.dev/job-name="+job, "-c", "tensorflow",
			"--tail=-1")
	}
}

// trainsLongWithTensorFlow creates the job digits-multi-worker and waits until it trains. The first processes of the
// job would train for a very long time. Later processes, after a restart or a resume, train for only a few epochs. A
// command that a spec runs in a container of the job can kill any process of this container.
func (n namespace) trainsLongWithTensorFlow(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
	n.kubectl(ctx, "create", "configmap", "schedule", "--from-literal=epochs=1000000")
	n.kubectl(ctx, "apply", "-f",
		n.killable(ctx, "multi-worker.yaml", "ExitCode", "/code/multi_worker.py", "--epochs=$(EPOCHS)"))
	n.hasTrained(ctx, "digits-multi-worker", 2)
	// Running processes have already read the former number of epochs. New processes read the new number, so they end
	// soon.
	n.kubectl(ctx, "patch", "configmap", "schedule", "-p", `{"data":{"epochs":"5"}}`)
}

// hasTrained waits until a job has trained for the given number of epochs.
func (n namespace) hasTrained(ctx context.Context, job string, epochs int) {
	GinkgoHelper()
	Eventually(ctx, n.logs(ctx, job)).
		Should(ContainSubstring(fmt.Sprintf("epoch %2d  loss", epochs)), "the job trains")
}

// volume creates a PersistentVolume for the claim of an example. On any other cluster than the local one, volume does
// nothing, because such a cluster has a StorageClass.
func (n namespace) volume(ctx context.Context, claim string) {
	GinkgoHelper()
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	if os.Getenv("KUBECONFIG") != paths.Kubeconfig() {
		return
	}
	// All users can write to the folder, as in volumes of other local provisioners. Write permission for a group would
	// not suffice: Kubernetes sets the group of a local volume only for the first pod that mounts it, which might be the
	// pod of the TensorBoard.
	folder := GinkgoT().TempDir()
	Expect(os.Chmod(folder, 0o777)).To(Succeed())
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata:
  name: %[1]s
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 1Gi}
  claimRef: {namespace: %[1]s, name: %[2]s}
  local: {path: %[3]s}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}
`, n, claim, folder), "apply", "-f", "-")
	n.deleteAfterwards("persistentvolume", string(n), "--wait=false")
}

// killable writes an example with the given command and restart policy into a file, and returns the path of the file.
// In the result, the containers of each pod share a PID namespace. Otherwise, the command would be the first process of
// its namespace, which no other process of the namespace can kill.
func (n namespace) killable(ctx context.Context, example, restartPolicy string, command ...string) string {
	GinkgoHelper()
	manifest := n.kubectl(ctx, "create", "--dry-run=client", "-o", "json", "-f", "examples/tensorflow/"+example)
	var job map[string]any
	Expect(json.Unmarshal([]byte(manifest), &job)).To(Succeed())
	for _, r := range job["spec"].(map[string]any)["replicaSpecs"].([]any) {
		replicas := r.(map[string]any)
		replicas["restartPolicy"] = restartPolicy
		pod := replicas["template"].(map[string]any)["spec"].(map[string]any)
		pod["shareProcessNamespace"] = true
		pod["terminationGracePeriodSeconds"] = 2 // the training saves nothing, so a short grace period suffices
		container := pod["containers"].([]any)[0].(map[string]any)
		container["command"] = append([]string{"python3"}, command...)
		container["env"] = append(container["env"].([]any), map[string]any{"name": "EPOCHS", "valueFrom": map[string]any{
			"configMapKeyRef": map[string]any{"name": "schedule", "key": "epochs", "optional": true},
		}})
	}
	content, err := json.Marshal(job)
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "job.json")
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return file
}
