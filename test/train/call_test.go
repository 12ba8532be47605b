package train

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/command"
)

// isProgram is the name of the environment variable that makes the test binary run kubectl train.
const isProgram = "TEST_RUNS_KUBECTL_TRAIN"

// TestMain runs the tests. If the environment variable isProgram is set, it runs kubectl train instead. So the specs
// can start kubectl train as a process without building it.
func TestMain(m *testing.M) {
	if os.Getenv(isProgram) != "" {
		command.Main()
	}
	os.Exit(m.Run())
}

// program returns a command that runs this test binary as kubectl train. The command is not started yet.
func program(ctx context.Context, args ...string) *exec.Cmd {
	GinkgoHelper()
	file, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Env = append(os.Environ(), isProgram+"=true")
	return cmd
}

// call is a running command of kubectl train.
type call struct {
	out, errOut *gbytes.Buffer
	// ended receives the error of the command.
	ended chan error
	// interrupt ends the command as Ctrl-C does.
	interrupt context.CancelFunc
}

// start starts kubectl train in the namespace. The command is interrupted at the end of the spec. For commands that
// end by themselves, use the method train.
func (n namespace) start(ctx context.Context, args ...string) *call {
	c := &call{out: gbytes.NewBuffer(), errOut: gbytes.NewBuffer(), ended: make(chan error, 1)}
	ctx, c.interrupt = context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.ended <- n.trainWith(ctx, c.out, c.errOut, args...)
	}()
	DeferCleanup(func() {
		c.interrupt()
		Eventually(over).Should(BeClosed())
	})
	return c
}

// messages returns the output of the command on stderr so far.
func (c *call) messages() string { return string(c.errOut.Contents()) }

// typed returns the reference to a job as kubectl train prints it in suggested commands: with the flags that select
// the cluster and the namespace.
func (n namespace) typed(ref string) string {
	return fmt.Sprintf("%s --kubeconfig %s -n %s", ref, kubeconfig, n)
}

// key returns the key of an object of the namespace.
func (n namespace) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: string(n), Name: name}
}

// hold gives a pod a finalizer, so that the API server keeps the pod after a deletion. The returned function removes
// the finalizer.
func (n namespace) hold(ctx context.Context, pod string) (release func(context.Context)) {
	GinkgoHelper()
	finalizers := func(ctx context.Context, list string) func() error {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: string(n), Name: pod}}
		patch := fmt.Sprintf(`{"metadata": {"finalizers": %s}}`, list)
		return func() error {
			return api.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))
		}
	}
	Eventually(ctx, finalizers(ctx, `["example.com/hold"]`)).Should(Succeed())
	return func(ctx context.Context) {
		GinkgoHelper()
		Eventually(ctx, finalizers(ctx, `[]`)).Should(Succeed())
	}
}

// phase returns a function that reads the phase of a job.
func (n namespace) phase(ctx context.Context, ref string) func() (string, error) {
	return func() (string, error) {
		out, _, err := n.train(ctx, "list", "-o", "jsonpath={.items[?(@.metadata.name=='"+ref+"')].status.phase}")
		return out, err
	}
}

// debugging returns the manifest of a job in debug mode.
func debugging(name string) string {
	return withSpec("PyTorchTrainingJob", name, `runMode: {debug: {enabled: true}}, `+workers)
}

// workers is the field replicaSpecs with two workers.
const workers = `replicaSpecs: [{type: worker, replicas: 2, template: {spec: {containers: [{name: main, image: training,
	command: [python3, train.py], args: [--epochs=10]}]}}}]`

// elastic returns the manifest of an elastic job with minReplicas 1, maxReplicas 3 and expectedReplicas 2.
func elastic(name string) string {
	return withSpec("PyTorchTrainingJob", name, `torchrunConfig: {enabled: true, maxRestarts: 3},
		elastic: {enabled: true, minReplicas: 1, maxReplicas: 3, expectedReplicas: 2}, `+workers)
}

// withSpec returns the manifest of a job whose spec has the given fields.
func withSpec(kind, name, spec string) string {
	return fmt.Sprintf("{apiVersion: batch.tensorstack.dev/v1beta1, kind: %s, metadata: {name: %s}, spec: {%s}}",
		kind, name, spec)
}
