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

// packageVersions prints the versions of Python packages, such as "2.21.0, with keras 3.15.1". It leaves out suffixes
// that begin with a plus sign, as in versions of Debian. The Python metadata of Debian's torch 1.13.1 has another
// version than the Debian package, so the script reads the version of torch from the Debian package.
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
		// If this suite runs the oldest versions, an admission policy replaces the images of the pods. So the spec compares
		// the versions in the pods with the column of the oldest versions.
		column := newest
		if trainsWithOldest() {
			column = oldest
		}
		page := readTestedWith()
		packages := map[string][]string{
			"PyTorch":   {"pytorch-example:" + versions.PyTorch.Newest, "torch"},
			"DeepSpeed": {"deepspeed-example:" + versions.DeepSpeed.Newest, "deepspeed", "torch"},
		}
		if column == newest {
			packages["Transformers"] = []string{"deepspeed-example:" + versions.DeepSpeed.Newest, "transformers", "accelerate"}
			packages["TensorFlow"] = []string{"tensorflow-example:" + page.version("TensorFlow"), "tensorflow-cpu", "keras"}
			packages["TensorBoard"] = []string{"tensorboard:" + page.version("TensorBoard"), "tensorboard"}
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
			n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+pod, timeout)
			page.set(component, column, names.Replace(now(n.output(ctx, "logs", pod))))
		}
		node := n.output(ctx, "get", "nodes", "-o",
			"jsonpath={.items[0].status.nodeInfo.kubeletVersion} {.items[0].status.nodeInfo.containerRuntimeVersion}")
		kubelet, runtime, _ := strings.Cut(now(node), " ")
		page.set("Kubernetes", newest, strings.TrimPrefix(kubelet, "v"))
		page.set("containerd", newest, strings.TrimPrefix(runtime, "containerd://"))
		oldestKubernetes := requiredBy("kubernetes-"+versions.Kubernetes.Oldest, "k8s.io/kubernetes")
		page.set("Kubernetes", oldest, oldestKubernetes+", without a real node")
		page.set("Volcano", newest, requiredBy("volcano", "volcano.sh/volcano")+", with simulated nodes")
		page.set("Kueue", newest, requiredBy("kueue", "sigs.k8s.io/kueue"))
		page.save()
	})
})

// The columns of the page.
const (
	newest = 1
	oldest = 2
)

// testedWith is the page of tested versions. The field before is the text of the page in the repository. The field
// after is the text with the versions that the spec has found.
type testedWith struct{ before, after string }

// testedWithFile is the file of the page.
var testedWithFile = filepath.Join(root, "docs/reference/tested-with.md")

func readTestedWith() *testedWith {
	GinkgoHelper()
	content, err := os.ReadFile(testedWithFile)
	Expect(err).NotTo(HaveOccurred())
	return &testedWith{before: string(content), after: string(content)}
}

// row returns the cells in the row of a component without the first cell, which is the name of the component. It also
// returns the start and the end of these cells in the page.
func (p *testedWith) row(component string) (cells []string, start, end int) {
	GinkgoHelper()
	row := regexp.MustCompile(`(?m)^\| ` + component + ` (\|.*\|)$`).FindStringSubmatchIndex(p.after)
	Expect(row).NotTo(BeNil(), "the page has no row of %s", component)
	cells = strings.Split(p.after[row[2]:row[3]], "|")
	Expect(cells).To(HaveLen(4), "%s", component)
	return cells, row[2], row[3]
}

// version returns the newest tested version of a component: the text up to the first comma of the cell.
func (p *testedWith) version(component string) string {
	GinkgoHelper()
	cells, _, _ := p.row(component)
	version, _, _ := strings.Cut(strings.TrimSpace(cells[newest]), ",")
	return version
}

// set sets the cell of a component in a column to the given version.
func (p *testedWith) set(component string, column int, version string) {
	GinkgoHelper()
	cells, start, end := p.row(component)
	cells[column] = " " + version + " "
	p.after = p.after[:start] + strings.Join(cells, "|") + p.after[end:]
}

// save expects that the page in the repository already had the versions that the spec has found. With
// $E2E_WRITE=true, save writes these versions into the page instead.
func (p *testedWith) save() {
	GinkgoHelper()
	if os.Getenv("E2E_WRITE") == "true" {
		Expect(os.WriteFile(testedWithFile, []byte(p.after), 0o644)).To(Succeed())
		return
	}
	Expect(p.before).To(Equal(p.after), "run E2E_WRITE=true make e2e FOCUS=versions")
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
