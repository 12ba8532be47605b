// Package simulated runs control planes of Kubernetes with simulated nodes: real API server, etcd, controllers and
// scheduler, the scheduling engines that the scheduler-controller may stand on among them; nodes that kwok plays.
// Several may run beside each other and beside the local cluster.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Kind is the engine that schedules the pods whose schedulerName is SchedulerName.
type Kind string

const (
	// Native is the gang scheduling of kube-scheduler.
	Native Kind = "native"
	// Volcano is the scheduler of Volcano.
	Volcano Kind = "volcano"
	// Plain is kube-scheduler as most clusters have it: without gangs. The API server does not know them either.
	Plain Kind = "plain"
	// Mixed is kube-scheduler without gangs, by mistake: the rest of Kubernetes knows them.
	Mixed Kind = "mixed"
	// None is no scheduler: pods must name their nodes.
	None Kind = "none"
)

const (
	// SchedulerName is what pods name to be scheduled by the engine.
	SchedulerName = "t9k-scheduler"
	// LabelGroup is the label by which pods tell the harness, and the scheduler of this repository, their group.
	LabelGroup = "scheduler.tensorstack.dev/group-name"
)

// Names of the components that may be killed and restarted, beside that of the engine. Kwok is one unless there is one
// for each node.
const (
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
)

// Options say what to start.
type Options struct {
	Kind Kind
	// CRDs are folders with CRDs to install, beside those of the engine.
	CRDs []string
	// Dir takes configurations and logs. It must exist.
	Dir string
	// Programs are what to run.
	Programs Programs
	// APIServer are flags of the API server, beside those that it needs, by name.
	APIServer map[string]string
	// ControllerManager are flags of the kube-controller-manager, beside those that it needs.
	ControllerManager []string
	// KwokPerNode has a kwok of its own play each node, named kwok-<node>, which sees the pods of that node alone, as a
	// kubelet does. One for all nodes takes less, but every few minutes it begins its watch again with all pods that there
	// are, and with 10,000 and more it then falls behind.
	KwokPerNode bool
}

// ControlPlane is a cluster with a scheduling engine and simulated nodes.
type ControlPlane struct {
	// Config and Client may do everything.
	Config *rest.Config
	Client client.Client
	// Kind is what schedules.
	Kind Kind
	// Engine is the component that schedules.
	Engine string
	// ExtenderAddress is where Volcano asks whose pods may be evicted; empty for other engines.
	ExtenderAddress string
	// StartTime is how long it took to start.
	StartTime time.Duration

	options     Options
	environment *envtest.Environment
	programs    []*program
	attempts    attempts
	nodes       int
}

// Start starts a control plane. It returns an error if a component does not start.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	began := time.Now()
	c := &ControlPlane{Kind: options.Kind, options: options, environment: &envtest.Environment{
		BinaryAssetsDirectory: options.Programs.assets,
		CRDDirectoryPaths:     options.CRDs,
		ErrorIfCRDPathMissing: true,
	}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.StartTime = time.Since(began)
	return c, nil
}

// Stop stops everything. Logs stay.
func (c *ControlPlane) Stop() error {
	var errs []error
	for _, p := range c.programs {
		errs = append(errs, p.kill())
	}
	return errors.Join(append(errs, c.environment.Stop())...)
}

// Kill ends a component without a warning, as a crash would.
func (c *ControlPlane) Kill(component string) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	return p.kill()
}

// Terminate asks a component to end, as a kubelet does, and returns when it is gone.
func (c *ControlPlane) Terminate(component string) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	return p.end(syscall.SIGTERM)
}

// Freeze keeps a component from doing anything until Thaw, while the rest goes on.
func (c *ControlPlane) Freeze(component string) error { return c.signal(component, syscall.SIGSTOP) }

// Thaw lets a component go on after Freeze.
func (c *ControlPlane) Thaw(component string) error { return c.signal(component, syscall.SIGCONT) }

func (c *ControlPlane) signal(component string, signal syscall.Signal) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	if !p.running() {
		return fmt.Errorf("%s does not run", component)
	}
	return p.cmd.Process.Signal(signal)
}

// Restart starts a component that has ended, and waits until it is ready.
func (c *ControlPlane) Restart(ctx context.Context, component string) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	return p.start(ctx)
}

// LogTail returns the end of what a component has written.
func (c *ControlPlane) LogTail(component string) string {
	p, err := c.program(component)
	if err != nil {
		return err.Error()
	}
	return p.logTail()
}

func (c *ControlPlane) logFile(component string) string {
	return filepath.Join(c.options.Dir, component+".log")
}

func (c *ControlPlane) program(name string) (*program, error) {
	for _, p := range c.programs {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no component %q", name)
}

func (c *ControlPlane) start(ctx context.Context) (err error) {
	if c.Kind == Volcano {
		c.environment.CRDDirectoryPaths = append(c.environment.CRDDirectoryPaths,
			volcanoCRDs(c.options.Programs.volcanoSource)...)
	}
	apiServer := c.environment.ControlPlane.GetAPIServer().Configure()
	for name, value := range c.options.APIServer {
		apiServer.Append(name, value)
	}
	for _, gate := range c.gates() {
		apiServer.Append("feature-gates", gate)
	}
	if c.gates() != nil {
		apiServer.Append("runtime-config", "scheduling.k8s.io/v1beta1=true")
	}
	if c.Config, err = c.environment.Start(); err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), volcanov1beta1.AddToScheme(scheme)); err != nil {
		return err
	}
	if c.Client, err = client.New(c.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := c.RunControllerManager(ctx, ControllerManager, c.options.ControllerManager...); err != nil {
		return err
	}
	for _, make := range []func() (*program, error){c.kwokOfAllNodes, c.engine} {
		if p, err := make(); err != nil {
			return err
		} else if err := c.run(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Run starts another program, such as a controller, and returns when it is ready. It goes with the control plane.
func (c *ControlPlane) Run(ctx context.Context, name string, argv []string, ready func(context.Context) error) error {
	return c.run(ctx, &program{name: name, argv: argv, log: c.logFile(name), ready: ready})
}

func (c *ControlPlane) run(ctx context.Context, p *program) error {
	if p == nil {
		return nil
	}
	c.programs = append(c.programs, p)
	return p.start(ctx)
}

// gates are the feature gates that gangs need in every component of Kubernetes.
func (c *ControlPlane) gates() []string {
	if c.Kind == Native || c.Kind == Mixed {
		return []string{"GenericWorkload=true"}
	}
	return nil
}

// engine returns what schedules, or nil for nothing.
func (c *ControlPlane) engine() (*program, error) {
	switch c.Kind {
	case None:
		return nil, nil
	case Volcano:
		return c.volcano()
	default:
		return c.kubeScheduler()
	}
}
