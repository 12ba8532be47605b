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

// step is a command of a document, with the lines of output that the document shows.
type step struct {
	command string
	prints  []string
}

// follow runs the commands in the console blocks of a section of a document one after the other, as a reader would.
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
		if s.onlyReads() {
			Eventually(ctx, try).Should(Succeed())
		} else {
			Expect(try()).To(Succeed())
		}
	}
}

// kubeconfig writes a kubeconfig whose current context has the namespace, and returns its path.
func (n namespace) kubeconfig(ctx context.Context) string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, []byte(n.kubectl(ctx, "config", "view", "--raw", "--minify")), 0o600)).To(Succeed())
	n.kubectl(ctx, "config", "set-context", "--current", "--namespace="+string(n), "--kubeconfig="+file)
	return file
}

// stepsOf reads the console blocks of a section. Lines that begin with "$ " are commands. A backslash at the end of a
// line continues the command, and "<<EOF" continues it up to the line "EOF". All other lines are the output of the
// command before them.
func stepsOf(document, section string) []step {
	var steps []step
	inSection, inBlock, continued, inInput := false, false, false, false
	for line := range strings.Lines(document) {
		line = strings.TrimRight(line, "\n")
		switch {
		case inInput:
			steps[len(steps)-1].command += "\n" + line
			inInput = line != "EOF"
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
			inInput = strings.HasSuffix(line, " <<EOF")
		default:
			last := &steps[len(steps)-1]
			last.prints = append(last.prints, line)
		}
	}
	return steps
}

// onlyReads reports whether the command only reads. A reader might have to repeat it until it prints the
// documented output.
func (s step) onlyReads() bool {
	return slices.ContainsFunc([]string{"get", "logs", "describe", "train why"}, func(verb string) bool {
		return strings.HasPrefix(s.command, "kubectl "+verb+" ")
	})
}

// try runs the command. It returns an error if the command does not print the lines that the document shows, in their
// order. Other lines can be between them. If the document shows no output, the command must succeed. "..." in the
// document matches any text, and an age matches any age. With the oldest PyTorch, torchrun puts the name of the process
// before each line.
func (s step) try(ctx context.Context, kubeconfig string) error {
	// Other specs keep this machine busy, so the timeout of the document can be too short.
	command := exec.CommandContext(ctx, "bash", "-c", shownTimeout.ReplaceAllString(s.command, timeout))
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
		pattern := regexp.MustCompile(`^\s*(\[default\d+\]:)?` + strings.Join(words, `\s+`) + `\s*$`)
		found := false
		for len(lines) > 0 && !found {
			found = pattern.MatchString(lines[0])
			lines = lines[1:]
		}
		if !found {
			return fmt.Errorf("the line %q is missing or out of order; the end of the output:\n%s", shown,
				output[max(0, len(output)-2000):])
		}
	}
	return nil
}

// shownTimeout matches the timeout of kubectl wait in a document.
var shownTimeout = regexp.MustCompile(`--timeout=\d+[sm]`)

// age matches the age of an object as kubectl prints it.
var age = regexp.MustCompile(`^(\d+[smhd])+$`)

// areDocumented expects docs/metrics.md to list all tensorstack_* metrics of a controller.
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
