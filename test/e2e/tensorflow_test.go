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

var _ = Describe("TensorFlowTrainingJob", Label("tensorflow"), func() {
	It("trains for real on workers alone, each with the whole network: MultiWorkerMirroredStrategy", Label("always"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.completesExample(ctx, "multi-worker.yaml", "digits-multi-worker")

			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/digits-multi-worker-worker-0",
				"pod/digits-multi-worker-worker-1"))
			logs, err := n.logs(ctx, "digits-multi-worker")()
			Expect(err).NotTo(HaveOccurred())
			Expect(logs).To(ContainSubstring("worker 0, replicas in the cluster 2, on digits-multi-worker-worker-0"))
			Expect(logs).To(ContainSubstring("worker 1, replicas in the cluster 2, on digits-multi-worker-worker-1"))
			Expect(strings.Count(logs, "epoch 10  loss")).To(Equal(1), "worker 0 prints the loss")

			n.kubectl(ctx, "delete", "tfjob", "digits-multi-worker")
			Eventually(ctx, n.names(ctx, leftovers)).Should(BeEmpty(), "deleting the job leaves nothing")
		})

	It("trains for real with a parameter server, which is deleted once the chief is done: ParameterServerStrategy",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.completesExample(ctx, "parameter-server.yaml", "digits-parameter-server")

			Eventually(ctx,
				n.output(ctx, "get", "tfjob", "digits-parameter-server", "-o",
					"jsonpath={.status.conditions[?(@.type=='Completed')].message}")).
				Should(Equal("leader digits-parameter-server-chief-0 succeeded"))
			logs := now(n.output(ctx, "logs", "digits-parameter-server-chief-0", "-c", "tensorflow"))
			Expect(logs).To(ContainSubstring("chief 0, replicas in the cluster 4"))
			Expect(logs).To(ContainSubstring("epoch 10  loss"))
			Eventually(ctx, n.names(ctx, "pods")).Should(ConsistOf("pod/digits-parameter-server-chief-0"))
		})

	It("trains on the chief, and evaluates beside it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-checkpoints")
		n.completesExample(ctx, "evaluator.yaml", "digits-evaluator")

		evaluator := n.output(ctx, "logs", "digits-evaluator-evaluator-0", "-c", "tensorflow")
		Eventually(ctx, evaluator).Should(ContainSubstring("evaluator 0, replicas in the cluster 1"),
			"the evaluator is not in it")
		Eventually(ctx, evaluator).Should(ContainSubstring("epoch 10  loss"))
		Eventually(ctx,
			n.output(ctx, "get", "tfjob", "digits-evaluator", "-o", "jsonpath={.status.aggregate.succeeded}")).Should(Equal("2"),
			"the evaluator has time to end by itself")
	})

	It("replaces a worker alone that is killed beside a parameter server, while the others train on",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
			n.kubectl(ctx, "apply", "-f",
				n.killable(ctx, "parameter-server.yaml", "ExitCode", "/code/parameter_server.py", "--epochs=1000000"))
			n.hasTrained(ctx, "digits-parameter-server", 2)
			lost := now(n.replicas(ctx))

			n.kubectl(ctx, "exec", "digits-parameter-server-worker-1", "-c", "tensorflow", "--", "sh", "-c", "kill -9 -1")
			Eventually(ctx,
				n.output(ctx, "get", "pod", "digits-parameter-server-worker-1", "--ignore-not-found", "-o",
					"jsonpath={.metadata.uid}")).ShouldNot(BeElementOf("", lost["digits-parameter-server-worker-1"].uid))
			n.kubectl(ctx, "wait", "--for=condition=Running", "tfjob/digits-parameter-server", patience)
			n.kubectl(ctx, "exec", "digits-parameter-server-chief-0", "-c", "tensorflow", "--", "touch", "/tmp/enough")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-parameter-server", patience)

			Eventually(ctx, n.failures(ctx, "tfjob/digits-parameter-server")).Should(ConsistOf(
				"digits-parameter-server-worker-1 Error 137 counted=true on " + lost["digits-parameter-server-worker-1"].node))
			Eventually(
				ctx,
				n.output(
					ctx,
					"get",
					"tfjob",
					"digits-parameter-server",
					"-o",
					"jsonpath={.status.backoffCount}",
				),
			).Should(Equal("1"))
			Expect(now(n.replicas(ctx))["digits-parameter-server-chief-0"]).To(Equal(lost["digits-parameter-server-chief-0"]),
				"the chief has trained on")
		})

	It("restarts all workers once when one is killed that trains with nothing but its like", Label("always"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.trainsLongWithTensorFlow(ctx)
			lost := now(n.replicas(ctx))

			n.kubectl(ctx, "exec", "digits-multi-worker-worker-1", "-c", "tensorflow", "--", "sh", "-c", "kill -9 -1")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-multi-worker", patience)

			Eventually(ctx, n.failures(ctx, "tfjob/digits-multi-worker")).Should(ConsistOf(
				"digits-multi-worker-worker-1 Error 137 counted=true on " + lost["digits-multi-worker-worker-1"].node))
			Eventually(ctx,
				n.output(ctx, "get", "tfjob", "digits-multi-worker", "-o",
					"jsonpath={.status.backoffCount} {.status.attempt} {.status.tasks[0].restartCount}")).
				Should(Equal("1 1 2"))
			for name, replacement := range now(n.replicas(ctx)) {
				Expect(replacement.uid).NotTo(Equal(lost[name].uid), "%s is a new pod", name)
			}
		})
})

var _ = Describe("The guide for those who come from Kubeflow", Label("tensorflow"), func() {
	It("shows manifests that the API server takes", func(ctx context.Context) {
		guide, err := os.ReadFile(filepath.Join(root, "docs/migrating-from-kubeflow.md"))
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

// completesExample applies an example for TensorFlow and waits for its success, without a restart.
func (n namespace) completesExample(ctx context.Context, example, job string) {
	GinkgoHelper()
	n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
	n.kubectl(ctx, "apply", "-f", "examples/tensorflow/"+example)
	n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/"+job, patience)
	Eventually(ctx,
		n.output(ctx, "get", "tfjob", job, "-o",
			"jsonpath={.status.phase} {.status.backoffCount}")).Should(Equal("Succeeded 0"))
}

// logs returns a function that reads what the main containers of a job have printed, which fails before they start.
func (n namespace) logs(ctx context.Context, job string) func() (string, error) {
	return func() (string, error) {
		return kubectl(ctx, "-n", string(n), "logs", "-l", "batch.tensorstack.dev/job-name="+job, "-c", "tensorflow",
			"--tail=-1")
	}
}

// trainsLongWithTensorFlow waits until the job digits-multi-worker trains. It would train for very long, but ends soon
// once it has been restarted or resumed. Its processes can be killed from within their containers.
func (n namespace) trainsLongWithTensorFlow(ctx context.Context) {
	GinkgoHelper()
	n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
	n.kubectl(ctx, "create", "configmap", "schedule", "--from-literal=epochs=1000000")
	n.kubectl(ctx, "apply", "-f",
		n.killable(ctx, "multi-worker.yaml", "ExitCode", "/code/multi_worker.py", "--epochs=$(EPOCHS)"))
	n.hasTrained(ctx, "digits-multi-worker", 2)
	// What runs has read it; what starts from here on ends soon.
	n.kubectl(ctx, "patch", "configmap", "schedule", "-p", `{"data":{"epochs":"5"}}`)
}

// hasTrained waits until a job has trained for some epochs.
func (n namespace) hasTrained(ctx context.Context, job string, epochs int) {
	GinkgoHelper()
	Eventually(ctx, n.logs(ctx, job)).
		Should(ContainSubstring(fmt.Sprintf("epoch %2d  loss", epochs)), "it is in the middle of the training")
}

// volume provides what the claim of an example asks for. Other clusters than the local one have a class of storage that
// does.
func (n namespace) volume(ctx context.Context, claim string) {
	GinkgoHelper()
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	if os.Getenv("KUBECONFIG") != paths.Kubeconfig() {
		return
	}
	// As provisioners of local volumes do: Kubernetes gives such a volume the group of the first pod that mounts it, which
	// may be TensorBoard's, and not of those that come later.
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
	DeferCleanup(func(ctx context.Context) { n.kubectl(ctx, "delete", "persistentvolume", string(n), "--wait=false") })
}

// killable returns a file with an example whose trainings run the command, may be killed from within their containers,
// which the first process of a PID namespace may not, and are restarted by the given policy.
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
		pod["terminationGracePeriodSeconds"] = 2 // a training that saves nothing needs no more
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
