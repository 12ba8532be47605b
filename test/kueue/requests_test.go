package kueue

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// elasticJob is an elastic job that expects three replicas and can train with one.
const elasticJob = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: elastic, namespace: default, labels: {kueue.x-k8s.io/queue-name: queue}}
spec:
  torchrunConfig: {enabled: true, maxRestarts: 3}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 3, expectedReplicas: 3}
  replicaSpecs:
    - {type: worker, restartPolicy: OnFailure, template: ` + template + `}
`

// prebuiltWorkload is a Workload for a job with two replicas.
const prebuiltWorkload = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: before, namespace: default}
spec:
  queueName: queue
  podSets:
    - {name: worker, count: 2, template: {spec: {restartPolicy: Never, containers: [{name: main, image: image,
        resources: {requests: {cpu: 1}}}]}}}
`

// oldWorkloads is the Workload CRD of an old version of Kueue. It serves only v1beta1.
const oldWorkloads = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: kueue.x-k8s.io
  names: {kind: Workload, listKind: WorkloadList, plural: workloads, singular: workload}
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var _ = Describe("A job in a queue of Kueue", func() {
	It("is admitted with fewer replicas if it is elastic", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		c.apply(ctx, elasticJob)
		j := job{cluster: c, kind: pytorch, name: "elastic"}
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, j.pods(ctx)).Should(HaveLen(2))
		Eventually(ctx, j.condition(ctx, kueuev1beta2.ConditionPodsReady)).Should(Equal("True Started"))
		Eventually(ctx, j.message(ctx)).Should(
			ContainSubstring("Kueue has admitted 2 replicas of type worker, and the job has 3"))
	})

	It("waits for the controllers that must allow its admission", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		c.apply(ctx, strings.Replace(fmt.Sprintf(kinds[pytorch], "gated", "kueue.x-k8s.io/queue-name: queue"), "labels:",
			"annotations: {kueue.x-k8s.io/admission-gated-by: example.com/budget}, labels:", 1))
		gated := job{cluster: c, kind: pytorch, name: "gated"}
		Eventually(ctx, gated.state(ctx)).Should(HavePrefix("Pending Queued: "))

		By("running a job that was created later")
		later := c.job(ctx, pytorch, "later")
		Eventually(ctx, later.state(ctx)).Should(Equal("Running"))
		later.ends(ctx, 1)
		later.ends(ctx, 0)
		Eventually(ctx, later.state(ctx)).Should(Equal("Succeeded"))
		Expect(gated.pods(ctx)()).To(BeEmpty())

		By("allowing the admission")
		c.patch(ctx, gated.object(), `{"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": null}}}`)
		Eventually(ctx, gated.state(ctx)).Should(Equal("Running"))
	})

	It("has the priority of its class, also if the class changes while it waits or runs", func(ctx context.Context) {
		c := start(ctx, configuration, "8")
		c.apply(ctx, queues)
		c.apply(ctx, "{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: low}, value: -1}")
		first := c.job(ctx, pytorch, "first", kueuev1beta2.LabelPriorityClass+": low")
		Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
		second := c.job(ctx, pytorch, "second", kueuev1beta2.LabelPriorityClass+": low")
		Eventually(ctx, second.state(ctx)).Should(HavePrefix("Pending Queued: "))

		By("making the job that waits more important")
		c.patch(ctx, second.object(), `{"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "urgent"}}}`)
		Eventually(ctx, second.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, first.counts(ctx)).Should(HavePrefix("evictions 1, "))

		By("making the job that runs less important")
		c.patch(ctx, second.object(), `{"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "low"}}}`)
		Eventually(ctx, func() (int32, error) {
			workload, err := second.workload(ctx)
			return ptr.Deref(workload.Spec.Priority, 0), err
		}).Should(BeEquivalentTo(-1))
		Expect(second.counts(ctx)()).To(HavePrefix("evictions 0, "))
	})

	It("passes the parameters of a ProvisioningRequest to its Workload", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		c.apply(ctx, strings.Replace(fmt.Sprintf(kinds[pytorch], "job", "kueue.x-k8s.io/queue-name: queue"), "labels:",
			`annotations: {provreq.kueue.x-k8s.io/maxRunDurationSeconds: "600", note: mine}, labels:`, 1))
		j := job{cluster: c, kind: pytorch, name: "job"}
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		workload, err := j.workload(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(workload.Annotations).To(Equal(map[string]string{"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"}))
	})

	It("stops when it exceeds its maximum time", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		j := c.job(ctx, pytorch, "job", kueuev1beta2.LabelMaxExecTime+`: "3"`)
		j.stopped(ctx, 1)
		Eventually(ctx, j.condition(ctx, kueuev1beta2.ConditionEvicted)).Should(
			Equal("True DeactivatedDueToMaximumExecutionTimeExceeded"))
		Eventually(ctx, j.state(ctx)).Should(ContainSubstring("workload job is not active: set its spec.active to true"))
	})

	It("runs by the Workload that was created for it", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		j := c.job(ctx, pytorch, "job", kueuev1beta2.PrebuiltWorkload+": before")
		Eventually(ctx, j.state(ctx)).Should(
			ContainSubstring("workload before, which was to be created for the job, does not exist"))
		c.apply(ctx, prebuiltWorkload)
		Eventually(ctx, j.state(ctx)).WithTimeout(dispatchTimeout).Should(Equal("Running"))
		before := &kueuev1beta2.Workload{}
		key := client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "before"}
		Expect(c.Client.Get(ctx, key, before)).To(Succeed())
		Expect(metav1.GetControllerOf(before)).To(HaveField("Name", "job"))
		_, err := j.workload(ctx)
		Expect(found(err)).To(BeFalse(), "the job creates no other Workload")
		j.ends(ctx, 1)
		j.ends(ctx, 0)
		Eventually(ctx, job{cluster: c, kind: pytorch, name: "before"}.condition(ctx, kueuev1beta2.ConditionFinished)).Should(
			Equal("True Succeeded"))
	})

	It("has quota for the sidecar that receives reports of progress", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		c.apply(ctx, strings.Replace(fmt.Sprintf(kinds[pytorch], "job", "kueue.x-k8s.io/queue-name: queue"), "replicas: 2",
			"replicas: 1", 1)+"  progress: {enabled: true}\n")
		j := job{cluster: c, kind: pytorch, name: "job"}
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		usage := func() (string, error) {
			workload := &unstructured.Unstructured{}
			workload.SetGroupVersionKind(kueuev1beta2.GroupVersion.WithKind("Workload"))
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "job"}, workload)
			sets, _, _ := unstructured.NestedSlice(workload.Object, "status", "admission", "podSetAssignments")
			return fmt.Sprint(sets), err
		}
		Eventually(ctx, usage).Should(ContainSubstring("resourceUsage:map[cpu:1100m]"))
	})

	It("waits while Kueue is too old", func(ctx context.Context) {
		c := start(ctx, "", "4")
		c.apply(ctx, oldWorkloads)
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(ContainSubstring("needs Workloads of kueue.x-k8s.io/v1beta2, which the API " +
			"server does not have: no replica is created until Kueue 0.15 or later is installed"))
		Expect(j.pods(ctx)()).To(BeEmpty())
	})
})

var _ = Describe("With examples/install/kueue-required", func() {
	It("a job without a queue is refused", func(ctx context.Context) {
		c := start(ctx, "", "4")
		c.apply(ctx, fmt.Sprintf(kinds[pytorch], "old", ""))
		policy, err := os.ReadFile("../../examples/install/kueue-required/policy.yaml")
		Expect(err).NotTo(HaveOccurred())
		c.apply(ctx, string(policy))
		refusal := MatchError(ContainSubstring("metadata.labels: jobs of this namespace need a queue of Kueue: add the"))
		for kind, manifest := range kinds {
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal(fmt.Appendf(nil, manifest, "new", ""), object)).To(Succeed())
			// The API server does not enforce a new policy immediately.
			create := func() error { return c.Client.Create(ctx, object.DeepCopy(), client.DryRunAll) }
			Eventually(ctx, create).Should(refusal, kind)
		}

		By("changing a job that is older than the policy")
		c.patch(ctx, job{cluster: c, kind: pytorch, name: "old"}.object(), `{"spec": {"runPolicy": {"backoffLimit": 1}}}`)

		By("removing the label of a job")
		j := c.job(ctx, pytorch, "job")
		remove := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": null}}}`))
		Eventually(ctx, func() error { return c.Client.Patch(ctx, j.object(), remove, client.DryRunAll) }).Should(MatchError(
			ContainSubstring("metadata.labels: ")))
	})
})
