package simulated

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"tensorstack.dev/jobs/test/localcluster"
)

//go:embed kube-scheduler.yaml
var kubeSchedulerConfig string

// kwokConfig is the configuration of kwok. %d is the number of pods that kwok processes at the same time.
const kwokConfig = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: %d
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
---
`

// extenderURL is the URL of the extender in the shipped configuration of Volcano's scheduler.
const extenderURL = "http://volcano-extender.t9k-scheduler.svc"

func (c *ControlPlane) newProgram(name, dir string, ready func(context.Context) error, args ...string) *program {
	return &program{
		name: name, argv: append([]string{filepath.Join(dir, name)}, args...), log: c.logFile(name), ready: ready,
	}
}

// file writes a configuration file and returns its path.
func (c *ControlPlane) file(name string, content []byte) (string, error) {
	path := filepath.Join(c.options.Dir, name)
	return path, os.WriteFile(path, content, 0o600)
}

// Kubeconfig writes a kubeconfig for a component and returns its path. The component authenticates as the user with the
// groups.
func (c *ControlPlane) Kubeconfig(component, user string, groups ...string) (string, error) {
	added, err := c.environment.AddUser(envtest.User{Name: user, Groups: groups}, &rest.Config{})
	if err != nil {
		return "", err
	}
	content, err := added.KubeConfig()
	if err != nil {
		return "", err
	}
	return c.file(component+".kubeconfig", content)
}

// RunControllerManager starts a kube-controller-manager with the given name and returns when it is ready. Without
// other flags, it runs the controllers that Kubernetes runs by default, such as the garbage collector and the
// namespace controller.
func (c *ControlPlane) RunControllerManager(ctx context.Context, name string, flags ...string) error {
	kubeconfig, err := c.Kubeconfig(name, "system:"+name, "system:masters")
	if err != nil {
		return err
	}
	address, err := Listen()
	if err != nil {
		return err
	}
	argv := append([]string{
		filepath.Join(c.options.Programs.kubernetes, ControllerManager),
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--bind-address=" + address.host, "--secure-port=" + address.port, "--cert-dir=" + c.certDir(name),
		"--feature-gates=" + strings.Join(c.Kind.gates(), ","),
	}, flags...)
	certificate := filepath.Join(c.certDir(name), ControllerManager+".crt")
	return c.Run(ctx, name, argv, Probe("https://"+address.String()+"/healthz", certificate))
}

// kwokOfAllNodes returns the kwok that simulates all nodes, or nil if each node has its own kwok. It processes many
// pods at the same time, as the kubelets of several nodes do.
func (c *ControlPlane) kwokOfAllNodes() (*program, error) {
	if c.options.KwokPerNode {
		return nil, nil
	}
	return c.kwok(Kwok, "--manage-all-nodes=true", 16)
}

// kwokOfNode returns the kwok that simulates a node, or nil if one kwok simulates all nodes. It processes one pod after
// the other, as a kubelet does.
func (c *ControlPlane) kwokOfNode(node string) (*program, error) {
	if !c.options.KwokPerNode {
		return nil, nil
	}
	return c.kwok(Kwok+"-"+node, "--manage-single-node="+node, 1)
}

// kwok returns a kwok that simulates the nodes that the flag selects. It processes up to parallelism pods at the same
// time.
func (c *ControlPlane) kwok(name, nodesFlag string, parallelism int) (*program, error) {
	kubeconfig, err := c.Kubeconfig(name, "kwok", "system:masters")
	if err != nil {
		return nil, err
	}
	config, err := c.file(name+".yaml", append(fmt.Appendf(nil, kwokConfig, parallelism), localcluster.Stages()...))
	if err != nil {
		return nil, err
	}
	address, err := Listen()
	if err != nil {
		return nil, err
	}
	argv := []string{
		filepath.Join(c.options.Programs.kwok, Kwok), nodesFlag,
		"--kubeconfig=" + kubeconfig,
		"--config=" + config,
		"--node-lease-duration-seconds=40",
		"--server-address=" + address.String(),
	}
	return &program{
		name: name, argv: argv, log: c.logFile(name), ready: Probe("http://"+address.String()+"/healthz", ""),
	}, nil
}

// kubeScheduler returns the kube-scheduler. It authenticates as system:kube-scheduler, which has default roles.
func (c *ControlPlane) kubeScheduler() (*program, error) {
	c.Engine = "kube-scheduler"
	kubeconfig, err := c.Kubeconfig(c.Engine, "system:kube-scheduler")
	if err != nil {
		return nil, err
	}
	config, err := c.file("kube-scheduler.yaml", fmt.Appendf(nil, kubeSchedulerConfig, kubeconfig))
	if err != nil {
		return nil, err
	}
	gates := c.Kind.gates()
	if c.Kind == Mixed {
		gates = nil
	}
	address, err := Listen()
	if err != nil {
		return nil, err
	}
	c.attempts = logAttempts(c.logFile(c.Engine))
	return c.newProgram(c.Engine, c.options.Programs.kubernetes, Probe("https://"+address.String()+"/readyz",
		c.certificate(c.Engine)),
		"--config="+config,
		"--bind-address="+address.host, "--secure-port="+address.port, "--cert-dir="+c.certDir(c.Engine),
		"--feature-gates="+strings.Join(gates, ","),
		"--v=2", // logAttempts needs this level
	), nil
}

// volcano returns Volcano's scheduler. It has the shipped configuration with another URL of the extender.
func (c *ControlPlane) volcano() (*program, error) {
	c.Engine = "vc-scheduler"
	kubeconfig, err := c.Kubeconfig(c.Engine, "vc-scheduler", "system:masters")
	if err != nil {
		return nil, err
	}
	shipped, err := os.ReadFile(c.options.Programs.volcanoConfig)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(shipped, []byte(extenderURL)) {
		return nil, fmt.Errorf("%s does not name %s", c.options.Programs.volcanoConfig, extenderURL)
	}
	extender, err := Listen()
	if err != nil {
		return nil, err
	}
	c.ExtenderAddress = extender.String()
	config, err := c.file("volcano-scheduler.conf",
		bytes.ReplaceAll(shipped, []byte(extenderURL), []byte("http://"+c.ExtenderAddress)))
	if err != nil {
		return nil, err
	}
	address, err := Listen()
	if err != nil {
		return nil, err
	}
	metrics := "http://" + address.String() + "/metrics"
	c.attempts = sessionAttempts(metrics)
	ready := func(ctx context.Context) error {
		if n, err := volcanoSessions(ctx, metrics); err != nil || n > 0 {
			return err
		}
		return errors.New("no scheduling session has ended yet")
	}
	return c.newProgram(c.Engine, c.options.Programs.volcano, ready,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--scheduler-name="+SchedulerName,
		"--scheduler-conf="+config,
		"--schedule-period=200ms",
		"--enable-metrics=true", "--listen-address="+address.String(),
		"--cache-dumper=false",
		"--v=3",
	), nil
}

func volcanoCRDs(source string) []string {
	const folder = "config/crd/volcano/bases"
	var files []string
	for _, name := range []string{
		"scheduling.volcano.sh_podgroups", "scheduling.volcano.sh_queues",
		"topology.volcano.sh_hypernodes", "nodeinfo.volcano.sh_numatopologies",
	} {
		files = append(files, filepath.Join(source, folder, name+".yaml"))
	}
	return files
}

// certDir returns the folder for the self-signed certificate of a component.
func (c *ControlPlane) certDir(component string) string {
	return filepath.Join(c.options.Dir, component+"-cert")
}

func (c *ControlPlane) certificate(component string) string {
	return filepath.Join(c.certDir(component), component+".crt")
}
