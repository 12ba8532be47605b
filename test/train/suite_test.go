// Package train tests the commands of kubectl train against a real API server, with the job controllers. There is no
// kubelet: the specs start and end pods by writing their status.
package train

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/deepspeed"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/tensorflow"
)

func TestTrain(t *testing.T) {
	if testing.Short() {
		t.Skip("the specs need an API server, and -short is set")
	}
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "kubectl train")
}

var (
	// api is a client of the API server with all permissions.
	api client.Client
	// config is the configuration of api.
	config *rest.Config
	// kubeconfig is the kubeconfig file that the commands use.
	kubeconfig string
)

var _ = BeforeSuite(func() {
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "run the specs with make test, which builds the API server")
	log.SetLogger(GinkgoLogr)
	environment, err := controlplane.StartAPIServer(func() *envtest.Environment {
		environment := &envtest.Environment{ErrorIfCRDPathMissing: true}
		for _, module := range []string{"pytorch", "tensorflow", "deepspeed", "tensorboard", "scheduler"} {
			environment.CRDDirectoryPaths = append(environment.CRDDirectoryPaths, filepath.Join("../..", module, "config/crd"))
		}
		environment.CRDs = append(environment.CRDs, workloadCRD())
		return environment
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config = environment.Config
	scheme, err := jobs.Scheme()
	Expect(err).NotTo(HaveOccurred())
	api, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
	options := controller.DefaultOptions()
	options.StatusInterval, options.FailureWindow = 100*time.Millisecond, 100*time.Millisecond
	for _, program := range []manager.Program{
		manager.JobProgram(pytorch.Controller(), options),
		manager.JobProgram(tensorflow.Controller(), options),
		manager.JobProgram(deepspeed.Controller(), options),
	} {
		run(config, program)
	}
})

// run runs a controller until the end of the suite.
func run(config *rest.Config, program manager.Program) {
	GinkgoHelper()
	options := manager.DefaultOptions()
	options.LeaderElect = false
	options.MetricsBindAddress, options.HealthProbeBindAddress = "0", "0"
	options.PodNamespace, options.Image, options.ClusterDomain = "default", "controller:test", "cluster.local"
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Run(ctx, program, config, options, GinkgoLogr) }()
	DeferCleanup(func() {
		stop()
		Eventually(stopped).Should(Receive(BeNil()))
	})
}

// namespace is a namespace of one spec.
type namespace string

// newNamespace creates a namespace.
func newNamespace(ctx context.Context) namespace {
	GinkgoHelper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "train-"}}
	Expect(api.Create(ctx, object)).To(Succeed())
	return namespace(object.Name)
}

// train runs kubectl train in the namespace, and returns the output on stdout and the output on stderr.
func (n namespace) train(ctx context.Context, args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	err = n.trainWith(ctx, &stdout, &stderr, args...)
	return stdout.String(), stderr.String(), err
}

// trainWith is like train, but writes the output to two streams.
func (n namespace) trainWith(ctx context.Context, out, errOut io.Writer, args ...string) error {
	cmd := command.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: errOut})
	cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig, "--namespace", string(n)}, args...))
	return cmd.ExecuteContext(ctx)
}

// create creates the object in a manifest. It returns the name of the object.
func (n namespace) create(ctx context.Context, manifest string) string {
	GinkgoHelper()
	object := n.object(manifest)
	Expect(api.Create(ctx, object)).To(Succeed())
	return object.GetName()
}

// object returns the job in a manifest, as an object of the namespace.
func (n namespace) object(manifest string) client.Object {
	GinkgoHelper()
	var kind metav1.TypeMeta
	Expect(yaml.Unmarshal([]byte(manifest), &kind)).To(Succeed())
	job := jobs.KindNamed(kind.Kind)
	Expect(job).NotTo(BeNil(), "%q is no job kind", kind.Kind)
	object := job.New()
	Expect(yaml.UnmarshalStrict([]byte(manifest), object)).To(Succeed())
	object.SetNamespace(string(n))
	return object
}

// run waits until each of the pods exists, and marks it as running.
func (n namespace) run(ctx context.Context, pods ...string) {
	GinkgoHelper()
	for _, name := range pods {
		n.changePod(ctx, name, startContainers)
	}
}

// startContainers marks a pod and its containers as running in the status of the pod.
func startContainers(status *corev1.PodStatus, containers []corev1.Container) {
	status.Phase = corev1.PodRunning
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, c := range containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()},
			},
		})
	}
}

// exit ends all containers of a pod with an exit code and a termination message. Use it for the leader last, because a
// job that ends deletes the pods that still run.
func (n namespace) exit(ctx context.Context, pod string, code int32, message string) {
	GinkgoHelper()
	n.changePod(ctx, pod, func(status *corev1.PodStatus, containers []corev1.Container) {
		endContainers(status, containers, code, message)
	})
}

// endContainers marks a pod and its containers as ended in the status of the pod.
func endContainers(status *corev1.PodStatus, containers []corev1.Container, code int32, message string) {
	status.Phase = corev1.PodSucceeded
	reason := "Completed"
	if code != 0 {
		status.Phase, reason = corev1.PodFailed, "Error"
	}
	status.ContainerStatuses = nil
	for _, c := range containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Reason: reason, Message: message, FinishedAt: metav1.Now(),
			}},
		})
	}
}

// changePod waits until a pod exists, and then changes its status as the kubelet would.
func (n namespace) changePod(
	ctx context.Context, name string, change func(*corev1.PodStatus, []corev1.Container),
) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		var pod corev1.Pod
		if err := api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: name}, &pod); err != nil {
			return err
		}
		change(&pod.Status, pod.Spec.Containers)
		return api.Status().Update(ctx, &pod)
	}).Should(Succeed(), "pod %s", name)
}

// plain returns the manifest of a job of a kind with two replicas.
func plain(kind, name string) string {
	spec := `{replicaSpecs: [{type: worker, replicas: 2, template: {spec: {containers: [{name: main, image: training}]}}}]}`
	if kind == "DeepSpeedJob" {
		spec = `{config: {run: {python: [train.py]}}, worker: {replicas: 2, template: {spec: {containers: [{name: worker, image: training}]}}}}`
	}
	return fmt.Sprintf("{apiVersion: batch.tensorstack.dev/v1beta1, kind: %s, metadata: {name: %s}, spec: %s}",
		kind, name, spec)
}
