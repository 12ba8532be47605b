package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("kubectl train convert", Label("convert"), func() {
	DescribeTable("converts a job of Kubeflow into one that trains, as the guide shows",
		func(ctx context.Context, section string) {
			newNamespace(ctx).follow(ctx, "docs/train/migrating-from-kubeflow.md", section)
		},
		Entry("a PyTorchJob", "Convert a job"),
		Entry("a TFJob", "TFJob"),
		Entry("an MPIJob", "MPIJob"),
	)

	// The images of Kubeflow's examples are not available, so the specs replace them with images and programs of our
	// examples.
	DescribeTable("converts a published example of Kubeflow into a job that trains",
		func(ctx context.Context, example, code, job string, logs []string, edits ...string) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", filepath.Join("examples", code, "code"))
			n.kubectlWith(ctx, convertedByTrain(ctx, edited(example, edits...)), "apply", "-f", "-")
			kind, name, _ := strings.Cut(job, "/")
			n.kubectl(ctx, "wait", "--for=condition=Completed", job, timeout)
			for _, text := range logs {
				Eventually(ctx, n.output(ctx, "logs", "-l", "batch.tensorstack.dev/job-name="+name, "--tail=-1")).
					Should(ContainSubstring(text), "the logs of the %s", kind)
			}
		},
		Entry("a script on a master and a worker", "pytorch/simple.yaml", "pytorch", "ptjob/pytorch-simple",
			[]string{"rank 0 of 2 on pytorch-simple-master-0", "rank 1 of 2 on pytorch-simple-worker-0"},
			"image: docker.io/kubeflowkatib/pytorch-mnist:v1beta1-45c5727", pytorchExample,
			"imagePullPolicy: Always", "imagePullPolicy: IfNotPresent",
			"/opt/pytorch-mnist/mnist.py", "/code/train.py", "\n          containers:", codeVolume("digits")),
		Entry("torchrun with two processes in each replica", "pytorch/cpu-demo/demo.yaml", "pytorch", "ptjob/torchrun-cpu",
			[]string{"rank 0 of 4", "rank 3 of 4"},
			"image: pytorch-cpu:py3.8", pytorchExample, "demo.py", "/code/train.py",
			"\n          containers:", codeVolume("digits")),
		Entry("torchrun in a script, with the variables of Kubeflow", "pytorch/cpu-demo/demo.yaml", "pytorch",
			"ptjob/torchrun-cpu", []string{"rank 0 of 4", "rank 3 of 4"},
			"image: pytorch-cpu:py3.8", pytorchExample, `- "torchrun"`, `- "bash"`, `- "demo.py"`,
			`- "-c"`+"\n                "+`- "cd /code && torchrun train.py"`,
			"\n          containers:", codeVolume("digits")),
		Entry("TensorFlow on two workers", "tensorflow/simple.yaml", "tensorflow", "tfjob/tfjob-simple",
			[]string{"epoch 10"},
			"image: kubeflow/tf-mnist-with-summaries:latest", tensorflowExample, `- "python"`, `- "python3"`,
			"/var/tf_mnist/mnist_with_summaries.py", "/code/multi_worker.py",
			"\n          containers:", codeVolume("digits-tensorflow")),
	)
})

// Fields of a container that runs one of our examples: the image, and the mount of the volume with the programs.
const (
	pytorchExample    = "image: tensorstack/pytorch-example:2.6.0" + codeMount
	tensorflowExample = "image: tensorstack/tensorflow-example:2.21.0" + codeMount
	codeMount         = "\n              volumeMounts: [{name: code, mountPath: /code}]"
)

// codeVolume returns a replacement for the line "containers:" of a pod spec: the volume with the programs of our
// examples, and the same line.
func codeVolume(configMap string) string {
	return "\n          volumes: [{name: code, configMap: {name: " + configMap + "}}]\n          containers:"
}

// edited returns a published example of Kubeflow without its namespace. The parameter edits has pairs: a text of the
// example, and the replacement for this text.
func edited(example string, edits ...string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, "cli/convert/testdata/kubeflow/training-operator", example))
	Expect(err).NotTo(HaveOccurred())
	text := strings.ReplaceAll(string(content), "\n  namespace: kubeflow", "")
	for i := 0; i+1 < len(edits); i += 2 {
		Expect(text).To(ContainSubstring(edits[i]), "the example has changed")
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	return text
}

// convertedByTrain returns the result of kubectl train convert.
func convertedByTrain(ctx context.Context, manifest string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "kubectl", "train", "convert", "-f", "-")
	command.Dir = root
	command.Stdin = strings.NewReader(manifest)
	command.Stderr = GinkgoWriter
	result, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	return string(result)
}
