package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"tensorstack.dev/jobs/test/internal/document"
)

// follow runs the commands in the console blocks of a section of a document one after the other, as a reader would.
func (n namespace) follow(ctx context.Context, file, section string) {
	GinkgoHelper()
	followAs(ctx, n.kubeconfig(ctx), file, section, strings.NewReplacer())
}

// followAs is like follow, but uses a kubeconfig, and replaces parts of the commands that do not fit the local cluster.
func followAs(ctx context.Context, kubeconfig, file, section string, replacer *strings.Replacer) {
	GinkgoHelper()
	steps, err := document.Steps(filepath.Join(root, file), section)
	Expect(err).NotTo(HaveOccurred())
	for _, s := range steps {
		s.Command = replacer.Replace(s.Command)
		By(s.Command)
		try := func() error { return try(ctx, s, kubeconfig) }
		if s.OnlyReads() {
			Eventually(ctx, try).Should(Succeed())
		} else {
			Expect(try()).To(Succeed())
		}
	}
}

// onCPUs matches the command for CPUs in the comment of an example for GPUs.
var onCPUs = regexp.MustCompile(`(?m)^# On CPUs:\n((?:#   .*\n)+)`)

// applyOnCPUs applies an example for GPUs with the command that its comment has for CPUs.
func (n namespace) applyOnCPUs(ctx context.Context, example string) {
	GinkgoHelper()
	manifest, err := os.ReadFile(filepath.Join(root, example))
	Expect(err).NotTo(HaveOccurred())
	match := onCPUs.FindStringSubmatch(string(manifest))
	Expect(match).NotTo(BeNil(), "%s has no command for CPUs", example)
	command := strings.ReplaceAll(match[1], "#   ", "")
	Expect(try(ctx, document.Step{Command: command}, n.kubeconfig(ctx))).To(Succeed())
}

// kubeconfig writes a kubeconfig whose current context has the namespace, and returns its path.
func (n namespace) kubeconfig(ctx context.Context) string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, []byte(n.kubectl(ctx, "config", "view", "--raw", "--minify")), 0o600)).To(Succeed())
	n.kubectl(ctx, "config", "set-context", "--current", "--namespace="+string(n), "--kubeconfig="+file)
	return file
}

// as changes a kubeconfig so that its user impersonates another user, and returns its path.
func as(user, kubeconfig string) string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Impersonate = user
	Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
	return kubeconfig
}

// try runs the command of a step. It returns an error if the output is not the one that the document shows.
func try(ctx context.Context, s document.Step, kubeconfig string) error {
	// Other specs keep this machine busy, so the timeout of the document can be too short.
	command := exec.CommandContext(ctx, "bash", "-c", shownTimeout.ReplaceAllString(s.Command, timeout))
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	output, err := command.CombinedOutput()
	return s.Compare(string(output), err)
}

// shownTimeout matches the timeout of kubectl wait in a document.
var shownTimeout = regexp.MustCompile(`--timeout=\d+[sm]`)

// areDocumented expects docs/operate/metrics.md to list all tensorstack_* metrics of a controller.
func areDocumented(metrics string) {
	GinkgoHelper()
	documented, err := os.ReadFile(filepath.Join(root, "docs/operate/metrics.md"))
	Expect(err).NotTo(HaveOccurred())
	families := regexp.MustCompile(`(?m)^# TYPE (tensorstack_\S+) (\S+)`).FindAllStringSubmatch(metrics, -1)
	Expect(families).NotTo(BeEmpty())
	for _, family := range families {
		Expect(string(documented)).To(ContainSubstring("| `%s` | %s |", family[1], family[2]))
	}
}
