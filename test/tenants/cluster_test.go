package tenants

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/simulated"
)

// attacker and victim are the tenants. Each has a namespace of the same name, and the role edit in that namespace only.
const (
	attacker = "attacker"
	victim   = "victim"
)

// cluster is a control plane with controllers and two tenants.
type cluster struct {
	*simulated.ControlPlane

	// attacker and victim are clients with the permissions of the tenants.
	attacker, victim client.Client
	// controllers are the controllers that were started.
	controllers []*controller
	kubeconfig  string
}

// start starts a control plane, installs the manifests of the controllers of some modules, and creates the tenants.
// It starts no controller. The control plane stops after the spec. If the modules include the scheduler-controller,
// kube-scheduler runs as its engine. Otherwise, no engine runs.
func start(ctx context.Context, modules ...string) *cluster {
	GinkgoHelper()
	kind := simulated.None
	if slices.Contains(modules, scheduler.module) {
		kind = simulated.Native
	}
	return startOn(ctx, kind, modules...)
}

// startOn does the same as the function start, but with the given engine.
func startOn(ctx context.Context, kind simulated.Kind, modules ...string) *cluster {
	GinkgoHelper()
	options := simulated.Options{
		Kind: kind, Dir: GinkgoT().TempDir(), Programs: programs,
		// The default range of the test environment has addresses for only 254 Services.
		APIServer: map[string]string{"service-cluster-ip-range": "10.0.0.0/16"},
		ControllerManager: []string{
			// The deployment-controller would create pods for the controllers, which run as processes here.
			"--controllers=*,-deployment-controller",
			// The nodes have no kubelet, but must not count as lost.
			"--node-startup-grace-period=10h", "--node-monitor-grace-period=10h",
		},
	}
	for _, module := range []string{"pytorch", "tensorflow", "deepspeed", "tensorboard", "scheduler"} {
		options.CRDs = append(options.CRDs, fmt.Sprintf("../../%s/config/crd", module))
	}
	plane, err := simulated.Start(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	plane.Config.QPS = -1
	plane.Client, err = client.New(plane.Config, client.Options{Scheme: plane.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())

	c := &cluster{ControlPlane: plane}
	c.kubeconfig, err = plane.Kubeconfig("admin", "admin", "system:masters")
	Expect(err).NotTo(HaveOccurred())
	for _, module := range modules {
		c.apply(ctx, module)
	}
	c.attacker, c.victim = c.tenant(ctx, attacker), c.tenant(ctx, victim)
	return c
}

// apply installs the manifests of a module as users do, including the roles for users.
func (c *cluster) apply(ctx context.Context, module string) {
	GinkgoHelper()
	c.kubectl(ctx, "apply", "-k", c.deployment(module))
}

// deployment returns the folder of the kustomization of a module.
func (c *cluster) deployment(module string) string {
	folder := "../../deploy/" + module
	if module == scheduler.module {
		folder += "/" + string(c.Kind)
	}
	return folder
}

// addComponent adds a kustomize component to an installed controller. It applies a kustomization with the component,
// as users do.
func (c *cluster) addComponent(ctx context.Context, s service, component string) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	relative := func(path string) string {
		return must(filepath.Rel(must(filepath.EvalSymlinks(folder)), must(filepath.Abs(path))))
	}
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil,
		"resources: [%s]\ncomponents: [%s]\n",
		relative(c.deployment(s.module)), relative("../../"+s.module+"/config/"+component)), 0o600)).To(Succeed())
	c.kubectl(ctx, "apply", "-k", folder)
}

// kubectl runs kubectl as the administrator.
func (c *cluster) kubectl(ctx context.Context, args ...string) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, kubectl, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
}

// tenant creates a namespace and a user of the same name with the role edit in it. It returns the client of that user.
func (c *cluster) tenant(ctx context.Context, name string) client.Client {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	Expect(c.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "edit"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(Succeed())
	return c.as(must(c.Kubeconfig(name, name)))
}

// as returns a client with the identity in a kubeconfig.
func (c *cluster) as(kubeconfig string) client.Client {
	GinkgoHelper()
	config := must(clientcmd.BuildConfigFromFlags("", kubeconfig))
	config.QPS = -1
	return must(client.New(config, client.Options{Scheme: c.Client.Scheme()}))
}

// inParallel calls the function do for each number below n, 20 at a time. It makes no more calls after a controller
// is harmed (see cluster.harmed).
func (c *cluster) inParallel(n int, do func(i int) error) {
	GinkgoHelper()
	var group errgroup.Group
	group.SetLimit(20)
	for i := range n {
		group.Go(func() error {
			if c.harmed() == nil {
				return do(i)
			}
			return nil
		})
	}
	Expect(group.Wait()).To(Succeed())
}
