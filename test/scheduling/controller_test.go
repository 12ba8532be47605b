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

// cluster is a control plane with an engine and the scheduler-controller.
type cluster struct {
	*simulated.ControlPlane

	// scheduler is the scheduler-controller. It is nil if none runs.
	scheduler *controller
	// crashes is true if the method crash must restart the scheduler-controller.
	crashes bool
}

// crash kills the scheduler-controller and starts it again. If crashes is false, the method does nothing.
func (c cluster) crash() {
	GinkgoHelper()
	if c.crashes {
		By("killing the scheduler-controller and starting it again")
		c.scheduler.kill()
		c.scheduler.start()
	}
}

// controller is a program that can be killed and started again.
type controller struct {
	command []string
	session *gexec.Session
}

// controllers maps the name of each module to the path of its built controller.
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

// kill kills the program, like a crash.
func (c *controller) kill() {
	GinkgoHelper()
	c.session.Kill().Wait()
}

// startPlane starts a control plane with an engine and the CRDs of some modules.
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

// startScheduler starts a control plane with an engine and the scheduler-controller, and creates the Queue "default".
// The controller does not run on kube-scheduler without gangs, because it has nothing to do there.
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

// kubeconfig writes a kubeconfig for the API server and returns its path.
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

// queue creates a Queue that selects all namespaces.
func (c cluster) queue(ctx context.Context, name string, spec v1beta1.QueueSpec) *v1beta1.Queue {
	GinkgoHelper()
	spec.NamespaceSelector = &metav1.LabelSelector{}
	queue := &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	Expect(c.Client.Create(ctx, queue)).To(Succeed())
	return queue
}

// change reads an object, changes it with the function how, and updates it. It retries after each error, for example
// after a conflict.
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

// members describes a group and its pods.
type members struct {
	name     string
	queue    string
	priority int32
	min      int32
	roles    []v1beta1.PodGroupRole
	// pods is the number of pods without a role.
	pods int
	// cpu is the CPU of each pod. The default is 1.
	cpu string
	// gpu is the number of GPUs of each pod. The default is none.
	gpu string
}

// group creates the PodGroup without pods.
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

// gang creates the PodGroup, waits until it is admitted, and creates its pods, as job controllers do.
func (c cluster) gang(ctx context.Context, m members) *v1beta1.PodGroup {
	GinkgoHelper()
	group := c.group(ctx, m)
	c.admitted(ctx, group)
	for i := range m.pods {
		c.podOf(ctx, group, fmt.Sprintf("%s-%d", m.name, i), jobgang.Member{Extra: i >= int(m.min)}, requests(m.cpu, m.gpu))
	}
	return group
}

// admitted waits until a group is admitted. On an engine without groups it does not wait.
func (c cluster) admitted(ctx context.Context, group *v1beta1.PodGroup) {
	GinkgoHelper()
	if c.Kind != simulated.Plain {
		Eventually(ctx, c.reason(ctx, group, v1beta1.ConditionAdmitted)).Should(Equal(v1beta1.ReasonAdmitted))
	}
}

// requests returns resource requests. The default is 1 CPU and no GPU.
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

// pod creates a pod of a group, as job controllers do.
func (c cluster) pod(
	ctx context.Context, group *v1beta1.PodGroup, name string, member jobgang.Member, cpu string,
) *corev1.Pod {
	GinkgoHelper()
	return c.podOf(ctx, group, name, member, requests(cpu, ""))
}

// podOf creates a pod of a group with the given requests.
func (c cluster) podOf(
	ctx context.Context, group *v1beta1.PodGroup, name string, member jobgang.Member, requests corev1.ResourceList,
) *corev1.Pod {
	GinkgoHelper()
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image",
			// For resources other than CPU and memory, limits must equal requests.
			Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
		}}},
	}
	jobgang.Decorate(pod, batchv1beta1.T9kScheduler{Queue: group.Spec.Queue, Priority: group.Spec.Priority}, group, member)
	Expect(c.Client.Create(ctx, pod)).To(Succeed())
	return pod
}

// bound returns a function that lists the pods of a group that are bound to nodes.
func (c cluster) bound(ctx context.Context, group string) func() ([]string, error) {
	return func() ([]string, error) { return c.Bound(ctx, corev1.NamespaceDefault, group) }
}

// reason returns a function that returns the reason of a group's condition, or an empty text if the group does not
// have the condition. If the read fails, the function returns the text of the error.
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

// makeRoom deletes a group with its pods while the engine is down, and starts the engine again. So all waiting pods
// compete for the room. Without the restart, kube-scheduler would delay pods after a failed attempt, whatever their
// priority.
func (c cluster) makeRoom(ctx context.Context, group *v1beta1.PodGroup) {
	GinkgoHelper()
	Expect(c.Kill(c.Engine)).To(Succeed())
	c.delete(ctx, group)
	Eventually(ctx, c.bound(ctx, group.Name)).Should(BeEmpty())
	Expect(c.Restart(ctx, c.Engine)).To(Succeed())
}
