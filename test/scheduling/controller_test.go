package scheduling

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	jobgang "tensorstack.dev/jobs/common/gang"
	"tensorstack.dev/jobs/test/simulated"
)

// cluster is a control plane with an engine, and with the scheduler-controller on it.
type cluster struct {
	*simulated.ControlPlane

	// scheduler is the scheduler-controller as it was started last.
	scheduler *controller
	// crashes says whether crash does what it says.
	crashes bool
}

// crash kills the scheduler-controller and starts it again, in those runs of a case that are about this.
func (c cluster) crash() {
	GinkgoHelper()
	if c.crashes {
		By("killing the scheduler-controller and starting it again")
		c.scheduler.kill()
		c.scheduler.start()
	}
}

// controller is a program that may be killed and started again.
type controller struct {
	command []string
	session *gexec.Session
}

// controllers are programs by the name of their module, which are built once.
var controllers = map[string]string{}

// startController runs the controller of a module on a control plane until the test ends.
func startController(c *simulated.ControlPlane, module string, flags ...string) *controller {
	GinkgoHelper()
	if controllers[module] == "" {
		built, err := gexec.Build(fmt.Sprintf("tensorstack.dev/jobs/%[1]s/cmd/%[1]s-controller", module))
		Expect(err).NotTo(HaveOccurred())
		controllers[module] = built
	}
	started := &controller{command: append([]string{
		controllers[module], "--kubeconfig=" + kubeconfig(c.Config), "--image=none", "--leader-elect=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, flags...)}
	started.start()
	DeferCleanup(func() { started.session.Terminate().Wait() })
	return started
}

func (c *controller) start() {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(c.command[0], c.command[1:]...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	c.session = session
}

// kill ends the program without a warning, as a crash would.
func (c *controller) kill() {
	GinkgoHelper()
	c.session.Kill().Wait()
}

// startPlane starts a control plane with an engine, on which the kinds of some modules are installed.
func startPlane(ctx context.Context, kind simulated.Kind, modules ...string) cluster {
	GinkgoHelper()
	var crds []string
	for _, module := range modules {
		crds = append(crds, fmt.Sprintf("../../%s/config/crd", module))
	}
	c := cluster{ControlPlane: start(ctx, kind, crds...)}
	Expect(v1beta1.AddToScheme(c.Client.Scheme())).To(Succeed())
	return c
}

// startScheduler starts a control plane with an engine and the scheduler-controller, and makes the queue "default". On
// kube-scheduler without gangs there is nothing for the controller to do, and it does not run.
func startScheduler(ctx context.Context, kind simulated.Kind) cluster {
	GinkgoHelper()
	c := startPlane(ctx, kind, "scheduler", "pytorch", "tensorboard")
	if kind != simulated.Plain {
		c.scheduler = startController(c.ControlPlane, "scheduler", "--engine="+string(kind),
			"--extender-bind-address="+c.ExtenderAddress)
	}
	c.queue(ctx, "default", v1beta1.QueueSpec{})
	return c
}

// kubeconfig writes a file by which a program reaches the API server.
func kubeconfig(config *rest.Config) string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, file)).To(Succeed())
	Expect(os.Chmod(file, 0o600)).To(Succeed())
	return file
}

// queue makes a queue that takes the groups of all namespaces.
func (c cluster) queue(ctx context.Context, name string, spec v1beta1.QueueSpec) *v1beta1.Queue {
	GinkgoHelper()
	spec.NamespaceSelector = &metav1.LabelSelector{}
	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	Expect(c.Client.Create(ctx, queue)).To(Succeed())
	return queue
}

// change changes the spec of an object.
func change[T client.Object](ctx context.Context, c cluster, object T, how func(T)) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how(object)
		return c.Client.Update(ctx, object)
	}).Should(Succeed())
}

// members is a group and the pods that are made for it.
type members struct {
	name     string
	queue    string
	priority int32
	min      int32
	roles    []v1beta1.PodGroupRole
	// pods by role; of no role unless it is named.
	pods int
	// cpu of each pod; 1 unless it is named.
	cpu string
	// gpu of each pod; none unless it is named.
	gpu string
}

// group makes the PodGroup alone.
func (c cluster) group(ctx context.Context, m members) *v1beta1.PodGroup {
	GinkgoHelper()
	group := &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: m.name},
		Spec:       v1beta1.PodGroupSpec{Queue: m.queue, MinMember: m.min, Roles: m.roles},
	}
	if m.priority > 0 {
		group.Spec.Priority = &m.priority
	}
	Expect(c.Client.Create(ctx, group)).To(Succeed())
	return group
}

// gang makes the PodGroup, waits until it is admitted, as job controllers do, and makes its pods.
func (c cluster) gang(ctx context.Context, m members) *v1beta1.PodGroup {
	GinkgoHelper()
	group := c.group(ctx, m)
	c.admitted(ctx, group)
	for i := range m.pods {
		c.podOf(ctx, group, fmt.Sprintf("%s-%d", m.name, i), jobgang.Member{Extra: i >= int(m.min)}, requests(m.cpu, m.gpu))
	}
	return group
}

// admitted returns when a group may have pods. Without an engine that knows groups nobody says so.
func (c cluster) admitted(ctx context.Context, group *v1beta1.PodGroup) {
	GinkgoHelper()
	if c.Kind != simulated.Plain {
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionAdmitted)).Should(Equal(v1beta1.ReasonAdmitted))
	}
}

// requests are what a pod asks for: 1 CPU unless it is named, and no GPU unless it is named.
func requests(cpu, gpu string) corev1.ResourceList {
	if cpu == "" {
		cpu = "1"
	}
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if gpu != "" {
		list["nvidia.com/gpu"] = resource.MustParse(gpu)
	}
	return list
}

// pod makes a pod of a group, as job controllers do.
func (c cluster) pod(
	ctx context.Context, group *v1beta1.PodGroup, name string, member jobgang.Member, cpu string,
) *corev1.Pod {
	GinkgoHelper()
	return c.podOf(ctx, group, name, member, requests(cpu, ""))
}

// podOf makes a pod of a group that asks for any resources.
func (c cluster) podOf(
	ctx context.Context, group *v1beta1.PodGroup, name string, member jobgang.Member, requests corev1.ResourceList,
) *corev1.Pod {
	GinkgoHelper()
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image",
			// Of what is neither CPU nor memory, a pod must be limited to what it requests.
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
		}}},
	}
	jobgang.Decorate(pod, batchv1beta1.T9kScheduler{Queue: group.Spec.Queue, Priority: group.Spec.Priority}, group, member)
	Expect(c.Client.Create(ctx, pod)).To(Succeed())
	return pod
}

// bound returns a function that lists the pods of a group on nodes.
func (c cluster) bound(ctx context.Context, group string) func() ([]string, error) {
	return func() ([]string, error) { return c.Bound(ctx, corev1.NamespaceDefault, group) }
}

// reason returns a function that reads the reason of a group's condition.
func (c cluster) reason(ctx context.Context, group *v1beta1.PodGroup, condition string) func() string {
	return func() string {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(group), group); err != nil {
			return err.Error()
		}
		found := meta.FindStatusCondition(group.Status.Conditions, condition)
		if found == nil {
			return ""
		}
		return found.Reason
	}
}

// delete deletes a group with its pods, as job controllers do.
func (c cluster) delete(ctx context.Context, group *v1beta1.PodGroup) {
	GinkgoHelper()
	Expect(c.Client.Delete(ctx, group)).To(Succeed())
	Expect(c.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(group.Namespace),
		client.MatchingLabels{v1beta1.LabelGroupName: group.Name})).To(Succeed())
}

// makeRoom deletes a group with its pods so that all that waits competes for the room. kube-scheduler tries a pod that
// it has tried before only after a while, whatever its priority. One that has just started has tried none.
func (c cluster) makeRoom(ctx context.Context, group *v1beta1.PodGroup) {
	GinkgoHelper()
	Expect(c.Kill(c.Engine)).To(Succeed())
	c.delete(ctx, group)
	Eventually(ctx, c.bound(ctx, group.Name)).Should(BeEmpty())
	Expect(c.Restart(ctx, c.Engine)).To(Succeed())
}
