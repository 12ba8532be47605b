package train

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/command"
)

// kubeflow is the folder with the published examples of Kubeflow. cases is the folder with our own manifests.
const (
	kubeflow = "../../cli/convert/testdata/kubeflow"
	cases    = "../../cli/convert/testdata/cases"
)

var _ = Describe("kubectl train convert", func() {
	for _, file := range manifests(kubeflow, cases) {
		name := strings.TrimPrefix(file, "../../cli/convert/")
		It("makes objects from "+name+" that the API server accepts", func(ctx context.Context) {
			n := newNamespace(ctx)
			out, _, _ := n.train(ctx, "convert", "-f", file) // some manifests also have objects that cannot be converted
			jobs := 0
			for _, object := range objectsOf(out) {
				if object.GroupVersionKind().Group == "batch.tensorstack.dev" {
					jobs++
				}
				object.SetNamespace(string(n))
				Expect(api.Create(ctx, object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))).
					To(Succeed(), "%s in\n%s", object.GetName(), out)
			}
			if !isRefused(file) {
				Expect(jobs).To(BeNumerically(">", 0))
			}
		})
	}

	It("converts a job from stdin", func(ctx context.Context) {
		manifest, err := os.ReadFile(filepath.Join(kubeflow, "training-operator/tensorflow/simple.yaml"))
		Expect(err).NotTo(HaveOccurred())
		var out bytes.Buffer
		cmd := command.New(genericiooptions.IOStreams{In: bytes.NewReader(manifest), Out: &out, ErrOut: io.Discard})
		cmd.SetArgs([]string{"convert", "-f", "-"})
		Expect(cmd.ExecuteContext(ctx)).To(Succeed())
		Expect(objectsOf(out.String())).To(ConsistOf(HaveField("GetKind()", "TensorFlowTrainingJob")))
	})

	It("reads folders, and prints a summary", func(ctx context.Context) {
		n := newNamespace(ctx)
		folder := GinkgoT().TempDir()
		Expect(os.CopyFS(folder, os.DirFS(filepath.Join(kubeflow, "training-operator/pytorch/cpu-demo")))).To(Succeed())
		Expect(os.CopyFS(filepath.Join(folder, "below"), os.DirFS(filepath.Join(kubeflow, "training-operator/mpi")))).
			To(Succeed())
		Expect(os.Remove(filepath.Join(folder, "demo.converted.yaml"))).To(Succeed())
		Expect(os.WriteFile(filepath.Join(folder, "notes.txt"), []byte("no manifest"), 0o600)).To(Succeed())

		out, errOut, err := n.train(ctx, "convert", "-f", folder)
		Expect(err).NotTo(HaveOccurred())
		Expect(objectsOf(out)).To(HaveLen(1))
		Expect(errOut).To(Equal(filepath.Join(folder, "demo.yaml") +
			": PyTorchJob torchrun-cpu becomes a PyTorchTrainingJob: 0 not mapped, 0 changed, 2 defaults of Kubeflow\n"))

		_, errOut, err = n.train(ctx, "convert", "-R", "-f", folder)
		Expect(err).To(MatchError("2 of 3 objects cannot be converted"))
		Expect(errOut).To(ContainSubstring("MPIJob tensorflow-mnist is not converted: nothing shows that its program"))
	})

	It("prints JSON with the remarks on stderr", func(ctx context.Context) {
		out, errOut, err := newNamespace(ctx).train(ctx, "convert", "-o", "json", "-f",
			filepath.Join(kubeflow, "training-operator/pytorch/cpu-demo/demo.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(HavePrefix("{\n"))
		Expect(out).NotTo(ContainSubstring("#"))
		Expect(errOut).To(ContainSubstring(
			"\n  Kubeflow's default: spec.runPolicy.backoffLimit: no limit. The default here is 3.\n"))
	})

	DescribeTable("rejects wrong flags", func(ctx context.Context, message string, args ...string) {
		_, _, err := newNamespace(ctx).train(ctx, append([]string{"convert"}, args...)...)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("without a manifest", "convert needs a manifest: add -f FILE"),
		Entry("with another output format", `invalid argument "name" for "-o, --output" flag: use yaml or json`, "-f", "-", "-o", "name"),
		Entry("with a file that does not exist", "no such file or directory", "-f", "none.yaml"),
		Entry("with a file that is no manifest", "suite_test.go: yaml: line 2: ", "-f", "suite_test.go"),
		Entry("with nothing on stdin", "the manifests have no objects", "-f", "-"),
	)
})

// manifests returns the paths of the manifests in folders, without the results of conversions.
func manifests(folders ...string) []string {
	var files []string
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(file, ".yaml") && !strings.HasSuffix(file, ".converted.yaml") {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	return files
}

// isRefused reports whether kubectl train convert can convert none of the jobs in a manifest.
func isRefused(file string) bool {
	return strings.Contains(file, "/mpi-operator/") || strings.Contains(file, "/training-operator/mpi/") ||
		strings.HasSuffix(file, "/others.yaml")
}

// objectsOf returns the objects in a manifest.
func objectsOf(manifest string) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifest)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
