// Package e2e tests the controllers on a cluster with real nodes, with the commands that a user would type. The tests
// use the cluster of $KUBECONFIG, where the controllers must be installed. `make e2e` provides such a cluster.
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
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
)

func TestE2E(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("the end-to-end tests change a cluster: run them with `make e2e`")
	}
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	RunSpecs(t, "end to end")
}

// This hook of Ginkgo writes the failed specs to the file $E2E_FAILURES. For each spec, the file has the end of the
// output, which has the state of the spec's namespace, and then the start of the failure message. hack/e2e.sh prints
// the file.
var _ = ReportAfterSuite("failures", func(report Report) {
	file := os.Getenv("E2E_FAILURES")
	if file == "" {
		return
	}
	var text strings.Builder
	for _, spec := range report.SpecReports.WithState(types.SpecStateFailureStates) {
		message, output := spec.FailureMessage(), spec.CapturedGinkgoWriterOutput
		fmt.Fprintf(&text, "[...]\n%s\n[FAILED] %s\n%s\n", output[max(0, len(output)-2500):], spec.FullText(),
			message[:min(len(message), 800)])
	}
	Expect(os.WriteFile(file, []byte(text.String()), 0o600)).To(Succeed())
})

// root is the root of the repository. Users type the commands of the documents there.
const root = "../.."

// kubectl runs kubectl at the root of the repository and returns its output.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return kubectlWith(ctx, "", args...)
}

// kubectlWith runs kubectl with the input on stdin.
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

// namespace is a namespace of one test. Its methods run kubectl in it.
type namespace string

// newNamespace creates a namespace that is deleted after the test. If the test fails, the objects and events of the
// namespace are in the report.
func newNamespace(ctx context.Context) namespace {
	n := namespace(fmt.Sprintf("e2e-%d-%d-%d", GinkgoRandomSeed(), GinkgoParallelProcess(), time.Now().UnixNano()%1e9))
	_, err := kubectl(ctx, "create", "namespace", string(n))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		if CurrentSpecReport().Failed() {
			for _, args := range [][]string{
				{"describe", "training"},
				{"get", "events"},
				{"get", "training,podgroups.scheduler.tensorstack.dev", "-o", "wide"},
				{"logs", "--selector=batch.tensorstack.dev/job-name", "--all-containers", "--prefix", "--tail=2"},
				{"get", "pods", "-o", "wide"},
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

// deleteAfterwards deletes objects with kubectl after the spec. It tries again after an error, because an API server
// that does not answer for a moment is not a failure of the spec.
func (n namespace) deleteAfterwards(args ...string) {
	DeferCleanup(func(ctx context.Context) {
		Eventually(ctx, func() error {
			_, err := kubectl(ctx, append([]string{"-n", string(n), "delete", "--ignore-not-found"}, args...)...)
			return err
		}).Should(Succeed())
	})
}

var (
	// patience is how long a spec waits for a state. It is five times as long as most waits take on a machine with 2
	// cores, so that it suffices on slower machines. A spec with longer waits calls waitLonger.
	patience = patienceOf(os.Getenv("E2E_PATIENCE"))
	// timeout is the flag of kubectl wait that sets the timeout to patience.
	timeout = "--timeout=" + patience.String()
)

func patienceOf(variable string) time.Duration {
	if variable == "" {
		return 5 * time.Minute
	}
	patience, err := time.ParseDuration(variable)
	if err != nil {
		panic("E2E_PATIENCE: " + err.Error())
	}
	return patience
}

// waitLonger multiplies the time that the running spec waits for each state. Other specs are not affected, because a
// process runs one spec at a time.
func waitLonger(times int) {
	usual := patience
	set := func(duration time.Duration) {
		patience, timeout = duration, "--timeout="+duration.String()
		SetDefaultEventuallyTimeout(duration)
	}
	set(usual * time.Duration(times))
	DeferCleanup(set, usual)
}

// kubectl runs kubectl in the namespace, expects it to succeed and returns its output. Use it for commands that
// change something or wait. For commands that only read, use the method output.
func (n namespace) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return n.kubectlWith(ctx, "", args...)
}

// kubectlWith does the same as the method kubectl, and passes the input on stdin.
func (n namespace) kubectlWith(ctx context.Context, input string, args ...string) string {
	GinkgoHelper()
	output, err := kubectlWith(ctx, input, append([]string{"-n", string(n)}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// output returns a function that runs kubectl in the namespace and returns its output. Pass this function to
// Eventually, because other processes take time to change the cluster. Pass it to the function now only if the state
// no longer changes.
func (n namespace) output(ctx context.Context, args ...string) func() (string, error) {
	return func() (string, error) { return kubectl(ctx, append([]string{"-n", string(n)}, args...)...) }
}

// now calls the function read once, expects it to succeed and returns its value.
func now[T any](read func() (T, error)) T {
	GinkgoHelper()
	value, err := read()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// names returns a function that returns the names of the objects of some kinds, as kubectl get prints them.
func (n namespace) names(ctx context.Context, kinds string) func() ([]string, error) {
	return func() ([]string, error) {
		output, err := n.output(ctx, "get", kinds, "-o", "name")()
		return strings.Fields(output), err
	}
}
