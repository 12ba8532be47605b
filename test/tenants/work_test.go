package tenants

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/kubelet"
)

// service describes one of the controllers and the work that it does for tenants.
type service struct {
	module string
	kind   schema.GroupVersionKind
	// labels are the labels by which the controller finds its pods and Services.
	labels map[string]string
	// object returns an object of the service's kind. The controller has no work for this object. If the kind has no pod
	// template, the argument template is ignored.
	object func(s service, name string, template corev1.PodTemplateSpec) *unstructured.Unstructured
	// works creates an object of the victim and waits until the controller has done its work for the object.
	works func(ctx context.Context, c *cluster, s service, name string)
	// bug is the name of a bug that go build compiles into the controller. A file testdata/mutants.yaml has this name in
	// its list "attacks". Empty means no bug.
	bug string
}

// with returns a copy of the service with a bug in its controller.
func (s service) with(bug string) service {
	s.bug = bug
	return s
}

// batchKind returns the GroupVersionKind of a kind of job.
func batchKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "batch.tensorstack.dev", Version: "v1beta1", Kind: kind}
}

var (
	pytorch = service{
		module: "pytorch", kind: batchKind("PyTorchTrainingJob"),
		labels: map[string]string{batchv1beta1.LabelJobKind: "PyTorchTrainingJob"}, object: pausedJob, works: jobEnds,
	}
	tensorflow = service{
		module: "tensorflow", kind: batchKind("TensorFlowTrainingJob"),
		labels: map[string]string{batchv1beta1.LabelJobKind: "TensorFlowTrainingJob"}, object: pausedJob, works: jobEnds,
	}
	deepspeed = service{
		module: "deepspeed", kind: batchKind("DeepSpeedJob"),
		labels: map[string]string{batchv1beta1.LabelJobKind: "DeepSpeedJob"}, object: pausedJob, works: jobEnds,
	}
	tensorboard = service{
		module: "tensorboard", kind: tensorboardv1beta1.GroupVersion.WithKind("TensorBoard"),
		labels: map[string]string{tensorboardv1beta1.LabelName: "board"},
		object: func(s service, name string, _ corev1.PodTemplateSpec) *unstructured.Unstructured {
			return largeBoard(s, name)
		},
		works: boardRuns,
	}
	scheduler = service{
		module: "scheduler", kind: schedulerv1beta1.GroupVersion.WithKind("PodGroup"),
		labels: map[string]string{schedulerv1beta1.LabelGroupName: "group"},
		object: func(s service, name string, _ corev1.PodTemplateSpec) *unstructured.Unstructured {
			return s.group(name, "of-nobody")
		},
		works: groupIsAdmitted,
	}
)

// forEachJob adds a table with a spec for each kind of job.
func forEachJob(text string, body func(context.Context, service)) {
	table(text, body, pytorch, tensorflow, deepspeed)
}

// forEach adds a table with a spec for each controller.
func forEach(text string, body func(context.Context, service)) {
	table(text, body, pytorch, tensorflow, deepspeed, tensorboard, scheduler)
}

func table(text string, body func(context.Context, service), services ...service) {
	arguments := []any{body}
	for _, s := range services {
		arguments = append(arguments, Entry("the "+s.module+"-controller", Label(s.module), s))
	}
	DescribeTable(text, arguments...)
}

// runController starts a control plane with the controller of a service.
func runController(ctx context.Context, s service) *cluster {
	GinkgoHelper()
	c := start(ctx, s.module)
	c.run(ctx, s)
	return c
}

// plain returns a pod template with only a container.
func plain() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "training"}}}}
}

// new returns an object of the service's kind with the given spec.
func (s service) new(name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(s.kind)
	object.SetName(name)
	return object
}

// job returns a job with the given number of replicas. It renames the first container of the template to the name of
// the main container.
func (s service) job(name string, replicas int64, template corev1.PodTemplateSpec) *unstructured.Unstructured {
	GinkgoHelper()
	template = *template.DeepCopy()
	template.Spec.Containers[0].Name = s.module
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
	Expect(err).NotTo(HaveOccurred())
	replicaSpec := map[string]any{"replicas": replicas, "template": content}
	if s.module == "deepspeed" {
		config := map[string]any{"run": map[string]any{"python": []any{"train.py"}}}
		if replicas > 1024 { // the launcher of DeepSpeed starts no more workers
			config = map[string]any{"customCommand": "train"}
		}
		return s.new(name, map[string]any{"config": config, "worker": replicaSpec})
	}
	replicaSpec["type"] = "worker"
	return s.new(name, map[string]any{"replicaSpecs": []any{replicaSpec}})
}

func pausedJob(s service, name string, template corev1.PodTemplateSpec) *unstructured.Unstructured {
	GinkgoHelper()
	job := s.job(name, 1, template)
	Expect(unstructured.SetNestedField(job.Object, true, "spec", "runMode", "pause", "enabled")).To(Succeed())
	return job
}

// board returns a TensorBoard that reads logs in S3.
func (s service) board(name string, suspended bool) *unstructured.Unstructured {
	return s.new(name, map[string]any{
		"suspend": suspended,
		"logDir": map[string]any{"s3": map[string]any{
			"secretRef": map[string]any{"name": "keys"}, "uri": []any{"s3://bucket/runs"},
		}},
	})
}

// largeBoard returns a suspended TensorBoard with 1.3 MB of sources.
func largeBoard(s service, name string) *unstructured.Unstructured {
	var claims []any
	for i := range 64 {
		var paths []any
		for n := range 20 {
			paths = append(paths, fmt.Sprintf("%01000d", n))
		}
		claims = append(claims, map[string]any{"name": fmt.Sprintf("claim-%d", i), "subPath": paths})
	}
	return s.new(name, map[string]any{"suspend": true, "logDir": map[string]any{"pvc": claims}})
}

// group returns a PodGroup of a queue.
func (s service) group(name, queue string) *unstructured.Unstructured {
	return s.new(name, map[string]any{"queue": queue, "minMember": int64(1)})
}

// create creates an object in the namespace of a tenant, with the permissions of the client.
func create(ctx context.Context, as client.Client, namespace string, object client.Object) error {
	object.SetNamespace(namespace)
	return as.Create(ctx, object)
}

// works waits until the controller has done its work for a new object of the victim. It stops early if a controller is
// harmed.
func (c *cluster) works(ctx context.Context, s service, name string) {
	GinkgoHelper()
	By("waiting for the " + s.module + "-controller to work for the victim: " + name)
	s.works(ctx, c, s, name)
}

// unless returns err while no controller is harmed. After that, it returns an error that stops Eventually.
func (c *cluster) unless(err error) error {
	if harmed := c.harmed(); harmed != nil {
		return StopTrying("a controller is harmed").Wrap(harmed)
	}
	return err
}

// podsOf returns the pods of a job.
func (c *cluster) podsOf(ctx context.Context, s service, namespace, job string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.Client.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{batchv1beta1.LabelJobKind: s.kind.Kind, batchv1beta1.LabelJobName: job})
	return list.Items, c.unless(err)
}

// jobEnds creates a job of two replicas for the victim, makes its pods succeed, and waits until the job has
// succeeded.
func jobEnds(ctx context.Context, c *cluster, s service, name string) {
	GinkgoHelper()
	Expect(create(ctx, c.victim, victim, s.job(name, 2, plain()))).To(Succeed())
	c.jobHasPods(ctx, s, name)
	c.jobSucceeds(ctx, s, name)
}

// jobHasPods waits until the victim's job has its pods.
func (c *cluster) jobHasPods(ctx context.Context, s service, name string) {
	GinkgoHelper()
	pods := func() ([]corev1.Pod, error) { return c.podsOf(ctx, s, victim, name) }
	Eventually(ctx, pods).WithTimeout(5 * bound).Should(HaveLen(2))
}

// jobSucceeds marks the pods of the victim's job as succeeded, and waits until the job has succeeded.
func (c *cluster) jobSucceeds(ctx context.Context, s service, name string) {
	GinkgoHelper()
	pods, err := c.podsOf(ctx, s, victim, name)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		Expect(c.report(ctx, &pods[i], func(pod *corev1.Pod) { kubelet.Exit(pod, 0, "", time.Now()) })).To(Succeed())
	}
	Eventually(ctx, c.phase(ctx, s, name)).Should(Equal("Succeeded"))
}

// phase returns a function that reads the phase of an object of the victim.
func (c *cluster) phase(ctx context.Context, s service, name string) func() (string, error) {
	return func() (string, error) {
		object := s.new(name, nil)
		err := c.victim.Get(ctx, client.ObjectKey{Namespace: victim, Name: name}, object)
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		return phase, c.unless(err)
	}
}

// boardRuns creates a TensorBoard for the victim and marks its pod as running. The sidecar does not answer, but the
// TensorBoard gets the phase Running without an answer.
func boardRuns(ctx context.Context, c *cluster, s service, name string) {
	GinkgoHelper()
	Expect(create(ctx, c.victim, victim, s.board(name, false))).To(Succeed())
	c.runBoard(ctx, victim, name, "127.3.0.2")
	Eventually(ctx, c.phase(ctx, s, name)).Should(Equal(string(tensorboardv1beta1.TensorBoardRunning)))
}

// runBoard waits for the pod of a TensorBoard, and marks it as running and ready with the given address.
func (c *cluster) runBoard(ctx context.Context, namespace, name, address string) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Eventually(ctx, func() error {
		return c.unless(c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-tb"}, pod))
	}).Should(Succeed())
	Expect(c.answerAt(ctx, pod, address)).To(Succeed())
}

// answerAt marks a pod as running and ready with the given address.
func (c *cluster) answerAt(ctx context.Context, pod *corev1.Pod, address string) error {
	return c.report(ctx, pod, func(pod *corev1.Pod) {
		kubelet.Run(pod, "", time.Now())
		pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	})
}

// report changes the status of a pod, as a kubelet does. It sends a patch, so that others, such as kube-scheduler,
// can change the status at the same time.
func (c *cluster) report(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod)) error {
	before := pod.DeepCopy()
	change(pod)
	return c.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// groupIsAdmitted creates a Queue for all namespaces and a PodGroup of the victim, and waits until the PodGroup is
// admitted.
func groupIsAdmitted(ctx context.Context, c *cluster, s service, name string) {
	GinkgoHelper()
	c.createQueue(ctx, name, map[string]any{"namespaceSelector": map[string]any{}})
	Expect(create(ctx, c.victim, victim, s.group(name, name))).To(Succeed())
	Eventually(ctx, func() (string, error) {
		object := s.new(name, nil)
		err := c.victim.Get(ctx, client.ObjectKey{Namespace: victim, Name: name}, object)
		return reasonOf(object, schedulerv1beta1.ConditionAdmitted), c.unless(err)
	}).Should(Equal(schedulerv1beta1.ReasonAdmitted))
}

// createQueue creates a Queue as an administrator.
func (c *cluster) createQueue(ctx context.Context, name string, spec map[string]any) {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, queueOf(name, spec))).To(Succeed())
}

// queueOf returns a Queue.
func queueOf(name string, spec map[string]any) *unstructured.Unstructured {
	queue := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	queue.SetGroupVersionKind(schedulerv1beta1.GroupVersion.WithKind("Queue"))
	queue.SetName(name)
	return queue
}

// reasonOf returns the reason of a condition. The reason is empty if the object does not have the condition.
func reasonOf(object *unstructured.Unstructured, condition string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		if content := one.(map[string]any); content["type"] == condition {
			return content["reason"].(string)
		}
	}
	return ""
}
