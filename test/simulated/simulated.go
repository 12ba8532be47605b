// Package simulated runs Kubernetes control planes with simulated nodes. API server, etcd, controllers and scheduler
// are real, including the engines of the scheduler-controller. kwok simulates the nodes. Several control planes can
// run at the same time, and the cluster of the package localcluster can run next to them.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/kit/controlplane"
)

// Kind is the engine that schedules the pods whose schedulerName is SchedulerName.
type Kind string

const (
	// Native is the gang scheduling of kube-scheduler.
	Native Kind = "native"
	// Volcano is the scheduler of Volcano.
	Volcano Kind = "volcano"
	// Plain is kube-scheduler without gang scheduling, as in most clusters. Gang scheduling is disabled in
	// kube-scheduler and in the API server.
	Plain Kind = "plain"
	// Mixed is a misconfiguration: the API server supports gang scheduling, but it is disabled in kube-scheduler.
	Mixed Kind = "mixed"
	// None means no scheduler. Pods must name their nodes.
	None Kind = "none"
)

const (
	// SchedulerName is the schedulerName of pods that the engine schedules.
	SchedulerName = "t9k-scheduler"
	// LabelGroup is the key of the label that has the name of the group of a pod. This package and the
	// scheduler-controller read the label.
	LabelGroup = "scheduler.tensorstack.dev/group-name"
)

// Names of components that can be killed and restarted, in addition to the engine. With Options.KwokPerNode, there is
// no component Kwok.
const (
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
	Kueue             = "kueue"
)

// Options configure a control plane.
type Options struct {
	Kind Kind
	// CRDs are folders with CRDs to install, in addition to the CRDs of the engine.
	CRDs []string
	// Dir is the folder for configuration files and logs. It must exist.
	Dir string
	// Programs are the programs to run.
	Programs Programs
	// Kueue is the part of Kueue's configuration that is not about addresses and certificates. If the part is empty,
	// Kueue does not run.
	Kueue string
	// APIServer maps the name of each additional flag of the API server to its value.
	APIServer map[string]string
	// ControllerManager holds additional flags of the kube-controller-manager.
	ControllerManager []string
	// KwokPerNode simulates each node with a separate kwok named kwok-<node>. Like a kubelet, it watches only the pods
	// of its node. If KwokPerNode is false, a single kwok simulates all nodes, and uses less memory and CPU. But the
	// single kwok falls behind with 10,000 pods or more: every few minutes, it restarts its watch, which begins with all
	// existing pods.
	KwokPerNode bool
}

// ControlPlane is a cluster with a scheduling engine and simulated nodes.
type ControlPlane struct {
	// Config and Client have all permissions.
	Config *rest.Config
	Client client.Client
	// Kind is the kind from the options.
	Kind Kind
	// Engine is the name of the component that schedules. It is empty for None.
	Engine string
	// ExtenderAddress is the address of the extender. Volcano asks the extender which pods can be evicted. The address
	// is empty for other engines.
	ExtenderAddress string
	// StartTime is how long the start took.
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
	environment, err := controlplane.StartAPIServer(options.environment)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{
		Config: environment.Config, Kind: options.Kind, options: options, environment: environment,
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.StartTime = time.Since(began)
	return c, nil
}

// Stop stops all components. It does not delete logs.
func (c *ControlPlane) Stop() error {
	var errs []error
	for _, p := range c.programs {
		errs = append(errs, p.kill())
	}
	return errors.Join(append(errs, c.environment.Stop())...)
}

// Kill kills a component, like a crash.
func (c *ControlPlane) Kill(component string) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	return p.kill()
}

// Terminate sends SIGTERM to a component, as a kubelet does, and returns when the process has ended.
func (c *ControlPlane) Terminate(component string) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	return p.end(syscall.SIGTERM)
}

// Freeze stops the process of a component until Thaw. The other components continue to run.
func (c *ControlPlane) Freeze(component string) error { return c.signal(component, syscall.SIGSTOP) }

// Thaw continues a component after Freeze.
func (c *ControlPlane) Thaw(component string) error { return c.signal(component, syscall.SIGCONT) }

func (c *ControlPlane) signal(component string, signal syscall.Signal) error {
	p, err := c.program(component)
	if err != nil {
		return err
	}
	if !p.running() {
		return fmt.Errorf("%s is not running", component)
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

// LogTail returns the last lines of the log of a component.
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
	return nil, fmt.Errorf("the control plane has no component %q", name)
}

// environment returns the test environment with the API server of the control plane.
func (o *Options) environment() *envtest.Environment {
	environment := &envtest.Environment{
		BinaryAssetsDirectory: o.Programs.assets,
		CRDDirectoryPaths:     slices.Clone(o.CRDs),
		ErrorIfCRDPathMissing: true,
	}
	if o.Kind == Volcano {
		environment.CRDDirectoryPaths = append(environment.CRDDirectoryPaths, volcanoCRDs(o.Programs.volcanoSource)...)
	}
	apiServer := environment.ControlPlane.GetAPIServer().Configure()
	for name, value := range o.APIServer {
		apiServer.Append(name, value)
	}
	gates := o.Kind.gates()
	for _, gate := range gates {
		apiServer.Append("feature-gates", gate)
	}
	if gates != nil {
		apiServer.Append("runtime-config", "scheduling.k8s.io/v1beta1=true")
	}
	return environment
}

func (c *ControlPlane) start(ctx context.Context) (err error) {
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
	if c.options.Kueue != "" {
		return c.InstallKueue(ctx, c.options.Kueue)
	}
	return nil
}

// Run starts an additional program, such as a controller, and returns when it is ready. The program stops with the
// control plane.
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

// gates returns the feature gates that enable gang scheduling in a component of Kubernetes. For kinds whose API
// server does not support gang scheduling, it returns nil.
func (k Kind) gates() []string {
	if k == Native || k == Mixed {
		return []string{"GenericWorkload=true"}
	}
	return nil
}

// engine returns the program that schedules, or nil for None.
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
