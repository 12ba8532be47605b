package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// step is a command that a document shows, with the lines that it shows to be printed.
type step struct {
	command string
	prints  []string
}

// follow types what a section of a document shows in its console blocks, one command after the other, as its reader
// would.
func (n namespace) follow(ctx context.Context, document, section string) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, document))
	Expect(err).NotTo(HaveOccurred())
	steps := stepsOf(string(content), section)
	Expect(steps).NotTo(BeEmpty(), "%s shows no command in section %q", document, section)
	kubeconfig := n.kubeconfig(ctx)
	for _, s := range steps {
		By(s.command)
		try := func() error { return s.try(ctx, kubeconfig) }
		if s.looks() {
			Eventually(ctx, try).Should(Succeed())
		} else {
			Expect(try()).To(Succeed())
		}
	}
}

// kubeconfig returns a file by which kubectl works in the namespace.
func (n namespace) kubeconfig(ctx context.Context) string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, []byte(n.kubectl(ctx, "config", "view", "--raw", "--minify")), 0o600)).To(Succeed())
	n.kubectl(ctx, "config", "set-context", "--current", "--namespace="+string(n), "--kubeconfig="+file)
	return file
}

// stepsOf reads the console blocks of a section: lines that begin with "$ " are commands, which a backslash at the end
// of a line continues; the others are what the command before them prints.
func stepsOf(document, section string) []step {
	var steps []step
	inSection, inBlock, continued := false, false, false
	for line := range strings.Lines(document) {
		line = strings.TrimRight(line, "\n")
		switch {
		case !inBlock && strings.HasPrefix(line, "## "):
			inSection = line == "## "+section
		case inSection && line == "```console":
			inBlock = true
		case line == "```":
			inBlock = false
		case !inBlock || !inSection:
		case continued:
			steps[len(steps)-1].command += "\n" + line
			continued = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{command: line[2:]})
			continued = strings.HasSuffix(line, `\`)
		default:
			last := &steps[len(steps)-1]
			last.prints = append(last.prints, line)
		}
	}
	return steps
}

// looks says that the command only looks at something, which the reader may have to do again until it is there.
func (s step) looks() bool {
	return slices.ContainsFunc([]string{"get", "logs", "describe"}, func(verb string) bool {
		return strings.HasPrefix(s.command, "kubectl "+verb+" ")
	})
}

// try types the command. It returns an error if the command does not print what is shown, line by line and maybe with
// others between them, or if it fails and nothing is shown. Where the document has "..." anything may stand, and any
// age where it has one.
func (s step) try(ctx context.Context, kubeconfig string) error {
	// The reader's machine is not busy with other specs.
	command := exec.CommandContext(ctx, "bash", "-c", shownTimeout.ReplaceAllString(s.command, patience))
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	output, err := command.CombinedOutput()
	if err != nil && len(s.prints) == 0 {
		return fmt.Errorf("%w: %s", err, output)
	}
	lines := strings.Split(string(output), "\n")
	for _, shown := range s.prints {
		var words []string
		for word := range strings.FieldsSeq(shown) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(word), `\.\.\.`, `.*`)
			if age.MatchString(word) {
				pattern = `\S+`
			}
			words = append(words, pattern)
		}
		pattern := regexp.MustCompile(`^\s*` + strings.Join(words, `\s+`) + `\s*$`)
		found := false
		for len(lines) > 0 && !found {
			found = pattern.MatchString(lines[0])
			lines = lines[1:]
		}
		if !found {
			return fmt.Errorf("%q is not printed, or not in its place; the last that is printed:\n%s", shown,
				output[max(0, len(output)-2000):])
		}
	}
	return nil
}

// shownTimeout is how long a document lets kubectl wait.
var shownTimeout = regexp.MustCompile(`--timeout=\d+[sm]`)

// age is how kubectl prints the age of an object.
var age = regexp.MustCompile(`^\d+[smhd]$`)

// areDocumented expects those metrics of a controller that are ours to be in the document.
func areDocumented(metrics string) {
	GinkgoHelper()
	documented, err := os.ReadFile(filepath.Join(root, "docs/metrics.md"))
	Expect(err).NotTo(HaveOccurred())
	families := regexp.MustCompile(`(?m)^# TYPE (tensorstack_\S+) (\S+)`).FindAllStringSubmatch(metrics, -1)
	Expect(families).NotTo(BeEmpty())
	for _, family := range families {
		Expect(string(documented)).To(ContainSubstring("| `%s` | %s |", family[1], family[2]))
	}
}
