// Package kueue tests jobs that Kueue admits, with the real Kueue and simulated nodes.
package kueue

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

func TestKueue(t *testing.T) {
	if os.Getenv("E2E") == "" {
		t.Skip("these tests run Kueue, which takes minutes to build: set E2E=true to run them")
	}
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "kueue", Label("kueue"))
}

var (
	// programs are the programs of the control planes.
	programs simulated.Programs
	// controllers maps each module to the path of its built controller.
	controllers = map[string]string{}
)

// modules are the modules whose controllers run.
var modules = []string{"pytorch", "tensorflow", "deepspeed"}

// The first Ginkgo process builds the programs. The other processes find them in the build cache.
var _ = SynchronizedBeforeSuite(build, build)

func build(ctx context.Context) {
	repo, err := localcluster.FindRepo("")
	Expect(err).NotTo(HaveOccurred())
	paths, err := localcluster.DefaultPaths()
	Expect(err).NotTo(HaveOccurred())
	builder := &localcluster.Builder{
		Repo: repo, Paths: paths, Kubernetes: localcluster.DefaultKubernetes, Progress: localcluster.NewProgress(os.Stdout),
	}
	programs, err = simulated.Build(ctx, builder)
	Expect(err).NotTo(HaveOccurred())
	Expect(programs.BuildKueue(ctx, builder)).To(Succeed())
	DeferCleanup(gexec.CleanupBuildArtifacts)
	for _, module := range modules {
		controllers[module], err = gexec.Build(fmt.Sprintf("tensorstack.dev/jobs/%[1]s/cmd/%[1]s-controller", module))
		Expect(err).NotTo(HaveOccurred())
	}
}

// cluster is a control plane with the job controllers.
type cluster struct {
	*simulated.ControlPlane

	controllers map[string]*gexec.Session
}

// configuration and queues are examples from docs/operate/kueue.md. The first one is a part of Kueue's configuration.
// It makes Kueue leave the pods of our jobs to the job controllers. The second one has a LocalQueue named queue with a
// quota of two CPUs. The tests create this LocalQueue in the namespace default.
var configuration, queues = documented()

func documented() (configuration, queues string) {
	content, err := os.ReadFile("../../docs/operate/kueue.md")
	if err != nil {
		panic(err)
	}
	integrations := regexp.MustCompile("(?s)```yaml\nintegrations:\n(.*?)```").FindSubmatch(content)
	objects := regexp.MustCompile(`(?s) <<EOF\n(.*?\n)EOF\n`).FindSubmatch(content)
	configuration = "integrations:\n  frameworks: [batch/job, pod]\n" + string(integrations[1])
	const name = "  name: queue\n"
	return configuration, strings.Replace(string(objects[1]), name, name+"  namespace: default\n", 1)
}

// start starts a control plane with nodes, installs examples/install/kueue, and runs the controllers with the
// permissions of that installation. The parameter config is the configuration of Kueue. If it is empty, Kueue does
// not run. If a spec fails, its report has the end of Kueue's log.
func start(ctx context.Context, config string, cpus ...string) *cluster {
	GinkgoHelper()
	plane, err := simulated.Start(ctx, simulated.Options{
		Kind: simulated.Plain, CRDs: []string{"../../tensorboard/config/crd", "../../scheduler/config/crd"},
		Dir: GinkgoT().TempDir(), Programs: programs, Kueue: config,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() && config != "" {
			AddReportEntry("the end of the log of Kueue", plane.LogTail(simulated.Kueue))
		}
		Expect(plane.Stop()).To(Succeed())
	})
	Expect(kueuev1beta2.AddToScheme(plane.Client.Scheme())).To(Succeed())
	_, err = plane.AddNodes(ctx, cpus...)
	Expect(err).NotTo(HaveOccurred())
	c := &cluster{ControlPlane: plane, controllers: map[string]*gexec.Session{}}
	c.apply(ctx, installation(ctx))
	for _, module := range modules {
		c.startController(module)
	}
	DeferCleanup(func() {
		for _, session := range c.controllers {
			session.Kill().Wait()
		}
	})
	return c
}

// installation returns the objects of examples/install/kueue, except for the Deployments, which would need images.
func installation(ctx context.Context) string {
	GinkgoHelper()
	output, err := exec.CommandContext(ctx, "../../bin/kustomize", "build", "../../examples/install/kueue").Output()
	Expect(err).NotTo(HaveOccurred())
	documents := slices.DeleteFunc(strings.Split(string(output), "\n---\n"), func(document string) bool {
		return strings.Contains(document, "\nkind: Deployment\n")
	})
	return strings.Join(documents, "\n---\n")
}

// startController runs the controller of a module with additional flags. The controller has the permissions of its
// ServiceAccount.
func (c *cluster) startController(module string, flags ...string) {
	GinkgoHelper()
	name := module + "-controller"
	kubeconfig, err := c.Kubeconfig(name, "system:serviceaccount:t9k-"+module+":"+name, "system:serviceaccounts")
	Expect(err).NotTo(HaveOccurred())
	command := exec.Command(controllers[module], append([]string{
		"--kubeconfig=" + kubeconfig, "--image=none", "--leader-elect=false", "--metrics-bind-address=0",
		"--health-probe-bind-address=0",
	}, flags...)...)
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	c.controllers[module] = session
}

// killController kills the controller of a module, like a crash.
func (c *cluster) killController(module string) {
	GinkgoHelper()
	c.controllers[module].Kill().Wait()
}
