package tenants

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/internal/mutant"
	"tensorstack.dev/jobs/test/simulated"
)

// controller is a process that runs like the container of a controller's Deployment.
type controller struct {
	name string
	// limit is the memory limit of the container, in bytes.
	limit int64
	// peak is the peak of the resident memory, in bytes.
	peak atomic.Int64
	// ended is the error with which the process ended. It is nil while the process runs.
	ended atomic.Pointer[error]
	// unwatch stops watching the memory.
	unwatch func()
}

// farAbove is a factor. A controller that uses more than farAbove times its memory limit is killed, so that the
// machine does not run out of memory. In a container, exceeding the limit itself would end the controller.
const farAbove = 4

// built maps the module and the bug of a controller to the path of its binary.
var built = map[string]string{}

// build returns the path of the binary of a controller. If the service has a bug, the binary is compiled with the bug
// in place of the line of code that prevents an attack.
func build(s service) string {
	GinkgoHelper()
	key := s.module + " with " + s.bug
	if built[key] == "" {
		var flags []string
		if s.bug != "" {
			flags = append(flags, "-overlay="+overlay(s))
		}
		binary, err := gexec.Build(fmt.Sprintf("tensorstack.dev/jobs/%[1]s/cmd/%[1]s-controller", s.module), flags...)
		Expect(err).NotTo(HaveOccurred())
		built[key] = binary
	}
	return built[key]
}

// overlay returns the path of an overlay file. With this file, go build compiles the bug of a service into the
// controller.
func overlay(s service) string {
	GinkgoHelper()
	var overlays []string
	for _, root := range []string{"../../common", "../../" + s.module} {
		absolute, err := filepath.Abs(root)
		Expect(err).NotTo(HaveOccurred())
		for _, m := range mutant.Below(GinkgoTB(), absolute).Attacks {
			if m.Bug == s.bug {
				overlays = append(overlays, m.Overlay(GinkgoTB()))
			}
		}
	}
	Expect(overlays).To(HaveLen(1), "attacks with the bug %q in testdata/mutants.yaml", s.bug)
	return overlays[0]
}

// run starts the controller of a service and returns when it is ready. The controller has the flags, environment and
// ServiceAccount of its Deployment, and the additional flags.
func (c *cluster) run(ctx context.Context, s service, flags ...string) *controller {
	GinkgoHelper()
	binary := build(s)
	deployment := &appsv1.Deployment{}
	name := s.module + "-controller"
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: "t9k-" + s.module, Name: name}, deployment)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: name, Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	Expect(c.Client.Create(ctx, pod)).To(Succeed()) // the controller reads its own image from its pod
	container := pod.Spec.Containers[0]
	health, err := simulated.Listen()
	Expect(err).NotTo(HaveOccurred())
	argv := append([]string{"/usr/bin/env"}, environment(pod, container)...)
	argv = append(argv, binary)
	argv = append(argv, container.Args...)
	argv = append(argv, "--kubeconfig="+c.kubeconfigOf(s), "--leader-election-namespace="+pod.Namespace,
		"--metrics-bind-address=0", "--health-probe-bind-address="+health.String(),
		// A busy test machine can delay the renewal of the Lease.
		"--leader-elect-lease-duration=20m", "--leader-elect-renew-deadline=15m")
	if c.ExtenderAddress != "" {
		argv = append(argv, "--extender-bind-address="+c.ExtenderAddress)
	}
	argv = append(argv, flags...)
	started := &controller{name: name, limit: container.Resources.Limits.Memory().Value()}
	Expect(started.limit).To(BeNumerically(">", 0), "%s has no memory limit", name)
	c.runLimited(ctx, started, argv, simulated.Probe("http://"+health.String()+"/readyz", ""))
	return started
}

// kubeconfigOf writes a kubeconfig with the identity of a controller, and returns its path.
func (c *cluster) kubeconfigOf(s service) string {
	GinkgoHelper()
	name, namespace := s.module+"-controller", "t9k-"+s.module
	return must(c.Kubeconfig(name, fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name),
		"system:serviceaccounts", "system:serviceaccounts:"+namespace))
}

// runLimited starts a program and returns when it is ready. The program counts as harmed if it ends or exceeds its
// memory limit.
func (c *cluster) runLimited(
	ctx context.Context, started *controller, argv []string, ready func(context.Context) error,
) {
	GinkgoHelper()
	Expect(c.Run(ctx, started.name, argv, ready)).To(Succeed())
	c.controllers = append(c.controllers, started)
	c.watch(ctx, started)
	DeferCleanup(func() {
		started.unwatch()
		AddReportEntry(started.memory(), ReportEntryVisibilityAlways)
		if CurrentSpecReport().Failed() {
			AddReportEntry("the end of the log of "+started.name, c.LogTail(started.name))
		}
	})
}

// environment returns the environment variables that the kubelet would set in a container.
func environment(pod *corev1.Pod, container corev1.Container) []string {
	GinkgoHelper()
	var set []string
	for _, e := range container.Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			value = pod.Name
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
			value = pod.Namespace
		case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
			value = strconv.FormatInt(container.Resources.Limits.Memory().Value(), 10)
		default:
			Fail("unsupported source of the environment variable " + e.Name)
		}
		set = append(set, e.Name+"="+value)
	}
	return set
}

// watch records the memory of a controller, and the error with which the controller ends. It kills a controller that
// uses more than farAbove times its memory limit.
func (c *cluster) watch(ctx context.Context, watched *controller) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	watched.unwatch = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			usage, err := c.Usage(watched.name)
			if err == nil {
				watched.peak.Store(max(watched.peak.Load(), usage.PeakResident))
				if usage.PeakResident > farAbove*watched.limit {
					err = errors.Join(fmt.Errorf("killed at %d times its memory limit", farAbove), c.Kill(watched.name))
				}
			}
			if err != nil && ctx.Err() == nil {
				watched.ended.Store(&err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
}

// restart ends a controller as an update of its Deployment does, and starts it again.
func (c *cluster) restart(ctx context.Context, restarted *controller) {
	GinkgoHelper()
	restarted.unwatch()
	Expect(c.Terminate(restarted.name)).To(Succeed())
	Expect(c.Restart(ctx, restarted.name)).To(Succeed())
	c.watch(ctx, restarted)
}

// memory describes the peak of a controller's memory. If the controller has ended, memory also describes its end.
func (c *controller) memory() string {
	text := fmt.Sprintf("%s: peak of %d MiB, limit %d MiB", c.name, c.peak.Load()>>20, c.limit>>20)
	if ended := c.ended.Load(); ended != nil {
		text += fmt.Sprintf("; the process ended: %v", *ended)
	}
	return text
}

// harmed returns an error if a controller has ended or has exceeded its memory limit.
func (c *cluster) harmed() error {
	for _, controller := range c.controllers {
		if controller.ended.Load() != nil || controller.peak.Load() > controller.limit {
			return errors.New(controller.memory())
		}
	}
	return nil
}

// expectHarmed waits until a controller has ended or has exceeded its memory limit.
func (c *cluster) expectHarmed(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, c.harmed).WithTimeout(5 * bound).Should(HaveOccurred())
}

// expectUnharmed fails the spec if a controller has ended or has exceeded its memory limit.
func (c *cluster) expectUnharmed() {
	GinkgoHelper()
	Expect(c.harmed()).To(Succeed())
}
