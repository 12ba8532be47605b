package kueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/test/simulated"
)

const pytorch = "PyTorchTrainingJob"

// stopped expects the job to wait in its queue without pods. In the status of the job, the number of evictions must
// equal the parameter. The status must count no pause and no restart.
func (j job) stopped(ctx context.Context, evictions int) {
	GinkgoHelper()
	Eventually(ctx, j.pods(ctx)).Should(BeEmpty())
	Eventually(ctx, j.state(ctx)).Should(HavePrefix("Pending Queued: "))
	Eventually(ctx, j.counts(ctx)).Should(
		Equal(fmt.Sprintf("evictions %d, pauses 0, attempt 0, backoffCount 0", evictions)))
}

// workloadObject returns an object that only names the Workload of the job. A patch needs no more.
func (j job) workloadObject() *kueuev1beta2.Workload {
	return &kueuev1beta2.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: j.name}}
}

// hasMuchQuota raises the quota of the ClusterQueue of docs/operate/kueue.md, so that Kueue also admits jobs that fit
// on no node.
func (c *cluster) hasMuchQuota(ctx context.Context) {
	GinkgoHelper()
	c.patch(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": map[string]any{"name": "team"},
	}}, `{"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default",
		"resources": [{"name": "cpu", "nominalQuota": "1000"}]}]}]}}`)
}

var _ = Describe("A job in a queue of Kueue", func() {
	It("runs on the nodes of its flavor, with the tolerations of the flavor", func(ctx context.Context) {
		c := start(ctx, configuration, "4", "4")
		c.apply(ctx, strings.Replace(queues, "metadata:\n  name: default\n", `metadata:
  name: default
spec:
  nodeLabels: {kubernetes.io/hostname: simulated-1}
  tolerations: [{key: spot, operator: Exists}]
`, 1))
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		pods, err := j.pods(ctx)()
		Expect(err).NotTo(HaveOccurred())
		Expect(pods).To(HaveLen(2))
		for _, pod := range pods {
			Expect(pod.Spec.NodeName).To(Equal("simulated-1"))
			Expect(pod.Spec.Tolerations).To(ContainElement(corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}))
			Expect(pod.Labels).To(HaveKeyWithValue(kueuev1beta2.LabelPodSet, "worker"))
		}
	})

	It("stops when its workload is deactivated or deleted, and runs again", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))

		By("deactivating the workload")
		c.patch(ctx, j.workloadObject(), `{"spec": {"active": false}}`)
		j.stopped(ctx, 1)
		Eventually(ctx, j.state(ctx)).Should(ContainSubstring("workload job is not active: set its spec.active to true"))
		c.patch(ctx, j.workloadObject(), `{"spec": {"active": true}}`)
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))

		By("deleting the workload")
		before, err := j.workload(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Client.Delete(ctx, before)).To(Succeed())
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 2, pauses 0, attempt 0, backoffCount 0"))
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, func() (types.UID, error) {
			workload, err := j.workload(ctx)
			return workload.UID, err
		}).ShouldNot(Equal(before.UID))
	})

	It("releases its quota while it is paused, and queues again when it is resumed", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		first := c.job(ctx, pytorch, "first")
		Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
		second := c.job(ctx, pytorch, "second")
		Eventually(ctx, second.state(ctx)).Should(HavePrefix("Pending Queued: "))

		c.patch(ctx, first.object(), `{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
		Eventually(ctx, second.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, first.state(ctx)).Should(HavePrefix("Paused"))
		_, err := first.workload(ctx)
		Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		Expect(err).To(HaveOccurred())

		c.patch(ctx, first.object(), `{"spec": {"runMode": {"pause": {"enabled": false}}}}`)
		Eventually(ctx, first.state(ctx)).Should(ContainSubstring(" Queued: "))
		second.ends(ctx, 1)
		second.ends(ctx, 0)
		Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, first.counts(ctx)).Should(Equal("evictions 0, pauses 1, attempt 0, backoffCount 0"))
	})

	It("keeps running when the controllers are killed, and notices an eviction that it missed", func(ctx context.Context) {
		c := start(ctx, configuration, "8")
		c.apply(ctx, queues)
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		before, err := j.pods(ctx)()
		Expect(err).NotTo(HaveOccurred())

		workload, err := j.workload(ctx)
		Expect(err).NotTo(HaveOccurred())

		By("killing Kueue and the job controller, and starting both, the controller as a version with another image")
		Expect(c.Kill(simulated.Kueue)).To(Succeed())
		c.killController("pytorch")
		c.startController("pytorch", "--image=newer")
		Expect(c.Restart(ctx, simulated.Kueue)).To(Succeed())
		other := c.job(ctx, pytorch, "other")
		Eventually(ctx, other.state(ctx)).Should(HavePrefix("Pending Queued: "))
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		after, err := j.pods(ctx)()
		Expect(err).NotTo(HaveOccurred())
		Expect(uids(after)).To(Equal(uids(before)))
		same, err := j.workload(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(same.UID).To(Equal(workload.UID))
		Expect(same.Generation).To(Equal(workload.Generation), "the pod sets do not depend on the version")

		By("evicting the job while its controller is away")
		c.killController("pytorch")
		c.patch(ctx, j.workloadObject(), `{"spec": {"active": false}}`)
		Eventually(ctx, j.condition(ctx, kueuev1beta2.ConditionEvicted)).Should(HavePrefix("True "))
		c.startController("pytorch")
		j.stopped(ctx, 1)
		Eventually(ctx, other.state(ctx)).Should(Equal("Running"))
	})

	It("restarts after a failure without another admission", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		before, err := j.workload(ctx)
		Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "job-worker-1"}}
		c.patch(ctx, pod, `{"metadata": {"annotations": {"simulation.tensorstack.dev/exit-code": "1"}}}`)
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 0, pauses 0, attempt 1, backoffCount 1"))
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, j.condition(ctx, kueuev1beta2.ConditionPodsReady)).Should(Equal("True Recovered"))
		after, err := j.workload(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID))
	})

	It("keeps its queue while it runs, and has only one", func(ctx context.Context) {
		c := start(ctx, configuration, "4")
		c.apply(ctx, queues)
		object := &unstructured.Unstructured{}
		manifest := fmt.Sprintf(kinds[pytorch], "both", "kueue.x-k8s.io/queue-name: queue")
		const scheduler = "spec:\n  scheduler: {t9kScheduler: {queue: queue}}\n"
		manifest = strings.Replace(manifest, "spec:\n", scheduler, 1)
		Expect(yaml.Unmarshal([]byte(manifest), object)).To(Succeed())
		// The API server does not enforce a new policy immediately.
		Eventually(ctx, func() error { return c.Client.Create(ctx, object.DeepCopy(), client.DryRunAll) }).Should(MatchError(
			ContainSubstring("the label kueue.x-k8s.io/queue-name cannot be used with spec.scheduler.t9kScheduler: " +
				"remove one of them")))

		By("leaving a job without a queue to MultiKueue")
		object = &unstructured.Unstructured{}
		manifest = strings.Replace(fmt.Sprintf(kinds[pytorch], "left", ""), "spec:\n", "spec:\n"+managedBy, 1)
		Expect(yaml.Unmarshal([]byte(manifest), object)).To(Succeed())
		Eventually(ctx, func() error { return c.Client.Create(ctx, object.DeepCopy(), client.DryRunAll) }).Should(MatchError(
			ContainSubstring("spec.managedBy: a job that MultiKueue runs needs a queue")))

		By("changing a job that runs")
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		name := client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata": {"annotations": {"kueue.x-k8s.io/prebuilt-workload-name": "other"}}}`))
		Eventually(ctx, func() error { return c.Client.Patch(ctx, j.object(), name, client.DryRunAll) }).Should(MatchError(
			ContainSubstring("metadata.annotations: kueue.x-k8s.io/prebuilt-workload-name cannot be changed")))
		for metadata, message := range map[string]string{
			`{"labels": {"kueue.x-k8s.io/priority-class": "urgent"}}`:       "priority-class can be changed, but not be added or removed",
			`{"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "60"}}`:    "can be changed only while the job is paused",
			`{"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "1h"}}`:    "must be a positive number of seconds",
			`{"annotations": {"kueue.x-k8s.io/admission-gated-by": "a/b"}}`: "can be added only to a new job",
		} {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": `+metadata+`}`))
			Expect(c.Client.Patch(ctx, j.object(), patch, client.DryRunAll)).To(MatchError(ContainSubstring(message)))
		}
		for _, queue := range []string{`"other"`, "null"} {
			patch := client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata": {"labels": {"kueue.x-k8s.io/queue-name": `+queue+`}}}`))
			Eventually(ctx, func() error { return c.Client.Patch(ctx, j.object(), patch, client.DryRunAll) }).Should(MatchError(
				ContainSubstring("the label kueue.x-k8s.io/queue-name cannot be changed while the job runs")))
		}
	})

	It("is evicted under waitForPodsReady only if its pods do not become ready", func(ctx context.Context) {
		c := start(ctx, configuration+`
waitForPodsReady: {timeout: 10s, blockAdmission: true}
`, "8")
		c.apply(ctx, queues)
		first := c.job(ctx, pytorch, "first")
		Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
		Eventually(ctx, first.condition(ctx, kueuev1beta2.ConditionPodsReady)).Should(Equal("True Started"))
		By("admitting a job whose pods never become ready, as they fit on no node")
		c.hasMuchQuota(ctx)
		c.apply(ctx, strings.Replace(fmt.Sprintf(kinds[pytorch], "huge", "kueue.x-k8s.io/queue-name: queue"),
			"requests: {cpu: 1}", "requests: {cpu: 400}", 1))
		huge := job{cluster: c, kind: pytorch, name: "huge"}
		Eventually(ctx, huge.condition(ctx, kueuev1beta2.ConditionEvicted)).Should(Equal("True PodsReadyTimeout"))
		huge.stopped(ctx, 1)
		Expect(first.counts(ctx)()).To(Equal("evictions 0, pauses 0, attempt 0, backoffCount 0"))
	})

	It("is not evicted under waitForPodsReady if it is elastic and trains with fewer replicas", func(ctx context.Context) {
		c := start(ctx, configuration+`
waitForPodsReady: {timeout: 3s}
`, "2")
		c.apply(ctx, queues)
		c.hasMuchQuota(ctx)
		c.apply(ctx, elasticJob) // two of the three replicas fit on the node
		j := job{cluster: c, kind: pytorch, name: "elastic"}
		Eventually(ctx, j.condition(ctx, kueuev1beta2.ConditionPodsReady)).Should(Equal("True Started"))
		Consistently(ctx, j.counts(ctx)).WithTimeout(6 * time.Second).
			Should(Equal("evictions 0, pauses 0, attempt 0, backoffCount 0"))
		Eventually(ctx, j.pods(ctx)).Should(HaveLen(3))
	})

	It("waits until Kueue is installed, and keeps running when Kueue is removed", func(ctx context.Context) {
		c := start(ctx, "", "4")
		j := c.job(ctx, pytorch, "job")
		Eventually(ctx, j.state(ctx)).Should(ContainSubstring("no replica is created until Kueue 0.15 or later is installed"))
		Expect(j.pods(ctx)()).To(BeEmpty())

		By("installing Kueue")
		Expect(c.InstallKueue(ctx, configuration)).To(Succeed())
		c.apply(ctx, queues)
		Eventually(ctx, j.state(ctx)).WithTimeout(3 * time.Minute).Should(Equal("Running"))

		By("removing Kueue with its CRDs")
		Expect(c.RemoveKueue(ctx)).To(Succeed())
		Consistently(ctx, j.state(ctx)).WithTimeout(5 * time.Second).Should(Equal("Running"))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "job-worker-1"}}
		c.patch(ctx, pod, `{"metadata": {"annotations": {"simulation.tensorstack.dev/exit-code": "1"}}}`)
		Eventually(ctx, j.state(ctx)).Should(ContainSubstring("no replica is created until Kueue 0.15 or later is installed"))
	})
})

// uids returns the UIDs of pods by name.
func uids(pods []corev1.Pod) map[string]types.UID {
	all := map[string]types.UID{}
	for _, pod := range pods {
		all[pod.Name] = pod.UID
	}
	return all
}
