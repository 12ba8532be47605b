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

// kwokConfig lets as many pods go on at once as is to be filled in.
const kwokConfig = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: %d
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
---
`

// extenderURL is where the configuration of Volcano's scheduler, as it is shipped, has the extender.
const extenderURL = "http://volcano-extender.t9k-scheduler.svc"

func (c *ControlPlane) newProgram(name, dir string, ready func(context.Context) error, args ...string) *program {
	return &program{
		name: name, argv: append([]string{filepath.Join(dir, name)}, args...), log: c.logFile(name), ready: ready,
	}
}

// file writes a configuration and returns its path.
func (c *ControlPlane) file(name string, content []byte) (string, error) {
	path := filepath.Join(c.options.Dir, name)
	return path, os.WriteFile(path, content, 0o600)
}

// Kubeconfig writes the kubeconfig of a component, with the rights that Kubernetes gives to that name or to the groups.
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

// RunControllerManager starts a kube-controller-manager of the given name and returns when it is ready. Without other
// flags it runs all controllers of Kubernetes: the garbage collector, that of namespaces, and what else could get in
// the way of a scheduler.
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
		"--feature-gates=" + strings.Join(c.gates(), ","),
	}, flags...)
	certificate := filepath.Join(c.certDir(name), ControllerManager+".crt")
	return c.Run(ctx, name, argv, Probe("https://"+address.String()+"/healthz", certificate))
}

// kwokOfAllNodes returns the kwok that plays all nodes, or nil if each has its own. It lets many pods go on at once: a
// kubelet of each node would.
func (c *ControlPlane) kwokOfAllNodes() (*program, error) {
	if c.options.KwokPerNode {
		return nil, nil
	}
	return c.kwok(Kwok, "--manage-all-nodes=true", 16)
}

// kwokOfNode returns the kwok that plays a node, or nil if one plays all. It lets one pod go on after the other, as a
// kubelet does.
func (c *ControlPlane) kwokOfNode(node string) (*program, error) {
	if !c.options.KwokPerNode {
		return nil, nil
	}
	return c.kwok(Kwok+"-"+node, "--manage-single-node="+node, 1)
}

// kwok plays the nodes that the flag tells, and lets so many of their pods go on at once.
func (c *ControlPlane) kwok(name, nodes string, atOnce int) (*program, error) {
	kubeconfig, err := c.Kubeconfig(name, "kwok", "system:masters")
	if err != nil {
		return nil, err
	}
	config, err := c.file(name+".yaml", append(fmt.Appendf(nil, kwokConfig, atOnce), localcluster.Stages()...))
	if err != nil {
		return nil, err
	}
	address, err := Listen()
	if err != nil {
		return nil, err
	}
	argv := []string{
		filepath.Join(c.options.Programs.kwok, Kwok), nodes,
		"--kubeconfig=" + kubeconfig,
		"--config=" + config,
		"--node-lease-duration-seconds=40",
		"--server-address=" + address.String(),
	}
	return &program{
		name: name, argv: argv, log: c.logFile(name), ready: Probe("http://"+address.String()+"/healthz", ""),
	}, nil
}

// kubeScheduler runs as the user whose rights Kubernetes ships, as the real one does.
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
	gates := c.gates()
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
		"--v=2", // logAttempts reads that
	), nil
}

// volcano runs with the configuration that is shipped, but for where the extender is.
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
		return errors.New("it has not scheduled once")
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

// certDir is where a component writes the certificate that it signs itself.
func (c *ControlPlane) certDir(component string) string {
	return filepath.Join(c.options.Dir, component+"-cert")
}

func (c *ControlPlane) certificate(component string) string {
	return filepath.Join(c.certDir(component), component+".crt")
}
