// Package e2e tests the controllers on a cluster with real nodes, by what a user would type. The cluster is that of
// $KUBECONFIG, with the controllers installed; `make e2e` provides one.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestE2E(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("the end-to-end tests change a cluster: run them by `make e2e`")
	}
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(10 * time.Minute)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	RunSpecs(t, "end to end")
}

// root is the root of the repository, from which users type the commands that the documents show.
const root = "../.."

// kubectl runs kubectl at the root of the repository and returns what it prints.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return kubectlWith(ctx, "", args...)
}

// kubectlWith is kubectl with something to read: what a user would pipe into it.
func kubectlWith(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "kubectl", args...)
	command.Dir = root
	command.Stdin = strings.NewReader(input)
	combined, err := command.CombinedOutput()
	output := strings.TrimSpace(string(combined))
	if err != nil {
		return output, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return output, nil
}

// namespace is one test's own. Its methods run kubectl in it.
type namespace string

// newNamespace returns a fresh namespace, which is deleted after the test. A failed test leaves what it had in the
// report.
func newNamespace(ctx context.Context) namespace {
	n := namespace(fmt.Sprintf("e2e-%d-%d-%d", GinkgoRandomSeed(), GinkgoParallelProcess(), time.Now().UnixNano()%1e9))
	_, err := kubectl(ctx, "create", "namespace", string(n))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		if CurrentSpecReport().Failed() {
			for _, args := range [][]string{
				{"get", "training,pods", "-o", "wide"}, {"describe", "training"}, {"get", "events"},
			} {
				output, _ := kubectl(ctx, append([]string{"-n", string(n)}, args...)...)
				GinkgoWriter.Printf("kubectl %s\n%s\n", strings.Join(args, " "), output)
			}
		}
		_, err := kubectl(ctx, "delete", "namespace", string(n), "--wait=false")
		Expect(err).NotTo(HaveOccurred())
	})
	return n
}

// patience is how long kubectl waits. What a spec waits for comes much earlier, unless the machine is busy.
const patience = "--timeout=10m"

// kubectl runs kubectl in the namespace, expects it to succeed and returns what it prints. It is for commands that
// change something or wait; what reads is for output.
func (n namespace) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return n.kubectlWith(ctx, "", args...)
}

// kubectlWith is kubectl with something to read.
func (n namespace) kubectlWith(ctx context.Context, input string, args ...string) string {
	GinkgoHelper()
	output, err := kubectlWith(ctx, input, append([]string{"-n", string(n)}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// output returns a function that runs kubectl in the namespace and returns what it prints. What other processes bring
// about takes time: Eventually calls the function until it returns what is expected. For what cannot change any more
// there is now.
func (n namespace) output(ctx context.Context, args ...string) func() (string, error) {
	return func() (string, error) { return kubectl(ctx, append([]string{"-n", string(n)}, args...)...) }
}

// now calls a function that reads the cluster, once.
func now[T any](read func() (T, error)) T {
	GinkgoHelper()
	value, err := read()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// names returns a function that returns what kubectl get lists, by name.
func (n namespace) names(ctx context.Context, kinds string) func() ([]string, error) {
	return func() ([]string, error) {
		output, err := n.output(ctx, "get", kinds, "-o", "name")()
		return strings.Fields(output), err
	}
}
