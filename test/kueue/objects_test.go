package kueue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// apply creates the objects of a manifest. It retries after each error, because the webhooks of Kueue might not be
// ready yet.
func (c *cluster) apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, object)).To(Succeed())
		if object.GetKind() == "" {
			continue
		}
		Eventually(ctx, func() error { return c.Client.Create(ctx, object.DeepCopy()) }).Should(Succeed())
	}
}

// kinds maps each job kind to the manifest of a job with two replicas that need one CPU each. The first %s is the
// name of the job, and the second %s are its labels.
var kinds = map[string]string{
	"PyTorchTrainingJob": `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: %s, namespace: default, labels: {%s}}
spec:
  replicaSpecs:
    - {type: worker, replicas: 2, restartPolicy: OnFailure, template: ` + template + `}
`,
	"TensorFlowTrainingJob": `
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata: {name: %s, namespace: default, labels: {%s}}
spec:
  replicaSpecs:
    - {type: worker, replicas: 2, restartPolicy: OnFailure, template: ` + template + `}
`,
	"DeepSpeedJob": `
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: %s, namespace: default, labels: {%s}}
spec:
  config: {slotsPerWorker: 1, run: {python: [train.py]}}
  worker: {replicas: 2, restartPolicy: OnFailure, template: ` + template + `}
`,
}

// template is the template of the replicas.
const template = `{spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: image, command: [train], ` +
	`resources: {requests: {cpu: 1}}}]}}`

// job is a job in the namespace default. Its replicas have the type worker.
type job struct {
	*cluster

	kind, name string
}

// job creates a job for the LocalQueue named queue. The job has the given labels in addition to the label that names
// the queue.
func (c *cluster) job(ctx context.Context, kind, name string, labels ...string) job {
	GinkgoHelper()
	all := append([]string{kueuev1beta2.LabelQueueName + ": queue"}, labels...)
	c.apply(ctx, fmt.Sprintf(kinds[kind], name, strings.Join(all, ", ")))
	return job{cluster: c, kind: kind, name: name}
}

func (j job) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("batch.tensorstack.dev/v1beta1")
	object.SetKind(j.kind)
	object.SetNamespace(corev1.NamespaceDefault)
	object.SetName(j.name)
	return object
}

// status returns the status of the job.
func (j job) status(ctx context.Context) (batchv1beta1.JobStatus, error) {
	object := j.object()
	if err := j.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return batchv1beta1.JobStatus{}, err
	}
	content, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return batchv1beta1.JobStatus{}, err
	}
	var status batchv1beta1.JobStatus
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)
}

// state returns a function that returns the phase of the job. If the condition Running is False and the job has not
// finished, the reason and the message of the condition follow the phase.
func (j job) state(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		status, err := j.status(ctx)
		running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning)
		if err != nil || running == nil || running.Status == metav1.ConditionTrue || status.Finished() {
			return string(status.Phase), err
		}
		return fmt.Sprintf("%s %s: %s", status.Phase, running.Reason, running.Message), nil
	}
}

// message returns a function that returns the message of the condition Running, or an empty text if the job does not
// have the condition.
func (j job) message(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		status, err := j.status(ctx)
		running := meta.FindStatusCondition(status.Conditions, batchv1beta1.ConditionRunning)
		if err != nil || running == nil {
			return "", err
		}
		return running.Message, nil
	}
}

// counts returns a function that describes how often the job was stopped and restarted.
func (j job) counts(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		status, err := j.status(ctx)
		return fmt.Sprintf("evictions %d, pauses %d, attempt %d, backoffCount %d",
			status.Evictions, status.Pauses, status.Attempt, status.BackoffCount), err
	}
}

// pods returns a function that lists the pods of the job.
func (j job) pods(ctx context.Context) func() ([]corev1.Pod, error) {
	return func() ([]corev1.Pod, error) {
		var pods corev1.PodList
		err := j.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault),
			client.MatchingLabels{batchv1beta1.LabelJobName: j.name})
		return pods.Items, err
	}
}

// workload returns the Workload of the job.
func (j job) workload(ctx context.Context) (*kueuev1beta2.Workload, error) {
	workload := &kueuev1beta2.Workload{}
	return workload, j.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: j.name}, workload)
}

// condition returns a function that returns the status and the reason of a condition of the Workload, or an empty
// text if the Workload does not have the condition.
func (j job) condition(ctx context.Context, conditionType string) func() (string, error) {
	return func() (string, error) {
		workload, err := j.workload(ctx)
		if c := meta.FindStatusCondition(workload.Status.Conditions, conditionType); c != nil {
			return fmt.Sprintf("%s %s", c.Status, c.Reason), err
		}
		return "", err
	}
}

// patch changes an object with a merge patch.
func (c *cluster) patch(ctx context.Context, object client.Object, patch string) {
	GinkgoHelper()
	Expect(c.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// ends makes the main container of a replica exit with 0.
func (j job) ends(ctx context.Context, index int) {
	GinkgoHelper()
	j.exits(ctx, index, 0)
}

// exits makes the main container of a replica exit with a code.
func (j job) exits(ctx context.Context, index, code int) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = corev1.NamespaceDefault, fmt.Sprintf("%s-worker-%d", j.name, index)
	j.patch(ctx, pod, fmt.Sprintf(`{"metadata": {"annotations": {"simulation.tensorstack.dev/exit-code": "%d"}}}`, code))
}
