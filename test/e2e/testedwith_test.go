package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// packageVersions prints the versions of packages of Python, such as "2.21.0, with keras 3.15.1". It leaves out the
// suffix of versions of Debian.
const packageVersions = `
import sys
from importlib.metadata import version
first, *others = [(name, version(name).split("+")[0]) for name in sys.argv[1:]]
print(", with ".join([first[1], *(" ".join(other) for other in others)]))`

var _ = Describe("The page of tested versions", Label("framework"), func() {
	It("has the versions of the node and of the packages in the images", func(ctx context.Context) {
		localClusterOrSkip("other clusters have other versions")
		content, err := os.ReadFile(filepath.Join(root, "docs/reference/tested-with.md"))
		Expect(err).NotTo(HaveOccurred())
		page := string(content)
		has := func(component, versions string) {
			GinkgoHelper()
			Expect(page).To(ContainSubstring("| " + component + " | " + versions + " |"))
		}
		n := newNamespace(ctx)
		components := map[string]struct {
			image    string
			packages []string
		}{
			"PyTorch":     {"pytorch-example", []string{"torch"}},
			"DeepSpeed":   {"deepspeed-example", []string{"deepspeed", "torch"}},
			"TensorFlow":  {"tensorflow-example", []string{"tensorflow-cpu", "keras"}},
			"TensorBoard": {"tensorboard", []string{"tensorboard"}},
		}
		for component, c := range components {
			newest := regexp.MustCompile(`\| ` + component + ` \| ([0-9.]+)`).FindStringSubmatch(page)
			Expect(newest).NotTo(BeNil(), "the page has no row for %s", component)
			n.kubectl(ctx, append([]string{
				"run", c.image, "--image=tensorstack/" + c.image + ":" + newest[1], "--restart=Never", "--command", "--",
				"python3", "-c", packageVersions,
			}, c.packages...)...)
		}
		names := strings.NewReplacer("torch", "PyTorch", "keras", "Keras")
		for component, c := range components {
			n.kubectl(ctx, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+c.image, patience)
			has(component, names.Replace(now(n.output(ctx, "logs", c.image))))
		}
		node := n.output(ctx, "get", "nodes", "-o",
			"jsonpath={.items[0].status.nodeInfo.kubeletVersion} {.items[0].status.nodeInfo.containerRuntimeVersion}")
		kubelet, runtime, _ := strings.Cut(now(node), " ")
		has("Kubernetes", strings.TrimPrefix(kubelet, "v"))
		has("containerd", strings.TrimPrefix(runtime, "containerd://"))
	})
})
