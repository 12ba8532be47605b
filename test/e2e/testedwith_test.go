package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"tensorstack.dev/jobs/test/internal/modules"
)

// packageVersions prints the versions of packages of Python, such as "2.21.0, with keras 3.15.1". It leaves out the
// suffix of versions of Debian. The metadata of Debian's torch 1.13.1 has another version, so the package is asked.
const packageVersions = `
import subprocess, sys
from importlib.metadata import version

def version_of(name):
    if name == "torch":
        query = ["dpkg-query", "--show", "--showformat=${source:Upstream-Version}", "python3-torch"]
        return subprocess.check_output(query, text=True)
    return version(name)

first, *others = [(name, version_of(name).split("+")[0]) for name in sys.argv[1:]]
print(", with ".join([first[1], *(" ".join(other) for other in others)]))`

var _ = Describe("The page of tested versions", Label("framework", "versions"), func() {
	It("has the versions of the node, of the components and of the packages in the images", func(ctx context.Context) {
		localClusterOrSkip("other clusters have other versions")
		versions, err := modules.Read(root)
		Expect(err).NotTo(HaveOccurred())
		n := newNamespace(ctx)
		// The column Oldest is compared if this suite runs the oldest versions. Admission then replaces the images.
		column := 1
		if os.Getenv("E2E_TRAINING") == "oldest" {
			column = 2
		}
		page := testedVersions()
		packages := map[string][]string{
			"PyTorch":   {"pytorch-example:" + versions.PyTorch.Newest, "torch"},
			"DeepSpeed": {"deepspeed-example:" + versions.DeepSpeed.Newest, "deepspeed", "torch"},
		}
		if column == 1 {
			packages["Transformers"] = []string{"deepspeed-example:" + versions.DeepSpeed.Newest, "transformers", "accelerate"}
			packages["TensorFlow"] = []string{"tensorflow-example:" + page["TensorFlow"][0], "tensorflow-cpu", "keras"}
			packages["TensorBoard"] = []string{"tensorboard:" + page["TensorBoard"][0], "tensorboard"}
		}
		for component, p := range packages {
			n.kubectl(ctx, append([]string{
				"run", strings.ToLower(component), "--image=tensorstack/" + p[0], "--restart=Never", "--command", "--",
				"python3", "-c", packageVersions,
			}, p[1:]...)...)
		}
		names := strings.NewReplacer("torch", "PyTorch", "keras", "Keras", "accelerate", "Accelerate")
		for component := range packages {
			pod := strings.ToLower(component)
			n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+pod, patience)
			Expect(page[component][column]).To(Equal(names.Replace(now(n.output(ctx, "logs", pod)))), "%s", component)
		}
		node := n.output(ctx, "get", "nodes", "-o",
			"jsonpath={.items[0].status.nodeInfo.kubeletVersion} {.items[0].status.nodeInfo.containerRuntimeVersion}")
		kubelet, runtime, _ := strings.Cut(now(node), " ")
		Expect(page["Kubernetes"][1]).To(Equal(strings.TrimPrefix(kubelet, "v")))
		Expect(page["containerd"][1]).To(Equal(strings.TrimPrefix(runtime, "containerd://")))
		oldest := requiredBy("kubernetes-"+versions.Kubernetes.Oldest, "k8s.io/kubernetes")
		Expect(page["Kubernetes"][2]).To(HavePrefix(oldest))
		Expect(page["Volcano"][1]).To(HavePrefix(requiredBy("volcano", "volcano.sh/volcano")))
		Expect(page["Kueue"][1]).To(HavePrefix(requiredBy("kueue", "sigs.k8s.io/kueue")))
	})
})

// testedVersions returns the rows of the page by component: the version alone, the column Newest and the column Oldest.
func testedVersions() map[string][]string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, "docs/reference/tested-with.md"))
	Expect(err).NotTo(HaveOccurred())
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\w+) \| (([^,|]*).*) \| (.*?) ?\|$`).FindAllStringSubmatch(string(content), -1) {
		rows[row[1]] = []string{row[3], row[2], row[4]}
	}
	return rows
}

// requiredBy returns the version of a Go module that a component of the local cluster requires.
func requiredBy(component, module string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, "test/localcluster/components", component, "go.mod"))
	Expect(err).NotTo(HaveOccurred())
	version := regexp.MustCompile(`(?m)^(?:\s+|require )` + regexp.QuoteMeta(module) + ` v(\S+)`).FindStringSubmatch(string(content))
	Expect(version).NotTo(BeNil(), "%s does not require %s", component, module)
	return version[1]
}
