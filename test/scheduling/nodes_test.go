package scheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

// recovery is the deadline for a job to run again. The controller delays the second restart by 10 s, and the third by
// 20 s.
const recovery = 4 * time.Minute

var _ = Describe("A job that loses a node twice", Label("nodes"), func() {
	It("runs on the other node that its affinity allows, unless it ignores bad nodes", func(ctx context.Context) {
		c := startPlane(ctx, simulated.Plain, "scheduler", "pytorch", "tensorboard")
		startController(c.ControlPlane, "pytorch")
		nodes := c.nodesOf(ctx, "4", "4", "4")
		c.cordon(ctx, true, nodes[1:]...)
		affinity := fmt.Sprintf(`affinity: {nodeAffinity: {
  requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%[1]s]}]},
    {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%[2]s]}]}]},
  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference:
    {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%[1]s]}]}}]}}`, nodes[0], nodes[1])
		avoids := c.job(ctx, "avoids", oneWorker(affinity))
		ignores := c.job(ctx, "ignores", oneWorker(affinity), `spec: {runPolicy: {badNodePolicy: Ignore}}`)
		for losses := range 2 {
			for _, j := range []job{avoids, ignores} {
				Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(losses, j.name+"-worker-0 on "+nodes[0])))
			}
			c.loseNode(ctx, nodes[0], avoids, ignores)
		}
		c.cordon(ctx, false, nodes[1:]...)
		Eventually(ctx, avoids.placement(ctx), recovery).Should(Equal(ran(2, "avoids-worker-0 on "+nodes[1])))
		Eventually(ctx, ignores.placement(ctx), recovery).Should(Equal(ran(2, "ignores-worker-0 on "+nodes[0])))
		avoids.isAvoiding(ctx, nodes[0])
		Expect(ignores.status(ctx).AvoidedNodes).To(BeEmpty())
		Eventually(ctx, avoids.events(ctx, batchv1beta1.EventNodeAvoided)).Should(
			ConsistOf(ContainSubstring("new pods avoid node " + nodes[0])))
		Expect(ignores.events(ctx, batchv1beta1.EventNodeAvoided)()).To(BeEmpty())
	}, SpecTimeout(timeout))

	It("runs on the node again after --avoid-nodes-patience if it can run on no other", func(ctx context.Context) {
		c := startPlane(ctx, simulated.Plain, "scheduler", "pytorch", "tensorboard")
		startController(c.ControlPlane, "pytorch", "--avoid-nodes-patience=2s")
		nodes := c.nodesOf(ctx, "4", "4")
		j := c.job(ctx, "job", oneWorker(fmt.Sprintf(`nodeSelector: {kubernetes.io/hostname: %s}`, nodes[0])))
		for losses := range 2 {
			Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(losses, "job-worker-0 on "+nodes[0])))
			c.loseNode(ctx, nodes[0], j)
		}
		Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(2, "job-worker-0 on "+nodes[0])))
		j.hasAllowed(ctx, nodes[0])
	}, SpecTimeout(timeout))
})

var _ = Describe("A gang that loses a node twice", Label("nodes"), func() {
	DescribeTable("waits as a whole, although the node is free, until all its pods fit on other nodes",
		withJobs(func(ctx context.Context, c cluster) {
			nodes := c.nodesOf(ctx, "2", "1", "1")
			c.cordon(ctx, true, nodes[1:]...)
			j := c.job(ctx, "job", inDefault, replicaSpecs("worker", 2))
			for losses := range 2 {
				Eventually(ctx, j.placement(ctx), recovery).Should(
					Equal(ran(losses, "job-worker-0 on "+nodes[0], "job-worker-1 on "+nodes[0])))
				c.loseNode(ctx, nodes[0], j)
			}
			j.isAvoiding(ctx, nodes[0])
			c.cordon(ctx, false, nodes[1])
			Eventually(ctx, j.unbound(ctx), recovery).Should(ConsistOf("job-worker-0", "job-worker-1"))
			Expect(c.Retry(ctx, 2, corev1.NamespaceDefault, j.name)).To(Succeed())
			Expect(c.bound(ctx, j.name)()).To(BeEmpty())
			c.cordon(ctx, false, nodes[2])
			Eventually(ctx, j.placement(ctx), recovery).Should(BeElementOf(
				ran(2, "job-worker-0 on "+nodes[1], "job-worker-1 on "+nodes[2]),
				ran(2, "job-worker-0 on "+nodes[2], "job-worker-1 on "+nodes[1])))
		})...)

	DescribeTable("runs on the node again after --avoid-nodes-patience if there is no other",
		onBoth(func(ctx context.Context, c cluster) {
			startController(c.ControlPlane, "pytorch", "--avoid-nodes-patience=2s")
			nodes := c.nodesOf(ctx, "2")
			j := c.job(ctx, "job", inDefault, replicaSpecs("worker", 2))
			all := []string{"job-worker-0 on " + nodes[0], "job-worker-1 on " + nodes[0]}
			for losses := range 2 {
				Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(losses, all...)))
				c.loseNode(ctx, nodes[0], j)
			}
			Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(2, all...)))
			j.hasAllowed(ctx, nodes[0])
		})...)

	DescribeTable("moves only the replica that was lost if it is elastic", withJobs(func(ctx context.Context, c cluster) {
		nodes := c.nodesOf(ctx, "1", "1", "1", "1")
		c.cordon(ctx, true, nodes[3])
		j := c.job(ctx, "job", inDefault, replicaSpecs("worker", 3),
			`spec: {torchrunConfig: {enabled: true, maxRestarts: 3}}`,
			`spec: {elastic: {enabled: true, minReplicas: 2, maxReplicas: 3, expectedReplicas: 3}}`)
		Eventually(ctx, j.running(ctx), recovery).Should(HaveLen(3))
		before := j.byName(ctx)
		lost := before["job-worker-2"].Spec.NodeName
		for losses := range 2 {
			Eventually(ctx, j.placement(ctx), recovery).Should(
				And(HavePrefix(ran(losses)), HaveSuffix("job-worker-2 on "+lost)))
			c.loseNode(ctx, lost, j)
		}
		j.isAvoiding(ctx, lost)
		Eventually(ctx, j.unbound(ctx), recovery).Should(ConsistOf("job-worker-2"))
		Expect(c.Retry(ctx, 2, corev1.NamespaceDefault, j.name)).To(Succeed())
		Expect(j.unbound(ctx)()).To(ConsistOf("job-worker-2"))
		c.cordon(ctx, false, nodes[3])
		Eventually(ctx, j.placement(ctx), recovery).Should(
			And(HavePrefix(ran(2)), HaveSuffix("job-worker-2 on "+nodes[3])))
		for _, name := range []string{"job-worker-0", "job-worker-1"} {
			Expect(j.byName(ctx)[name].UID).To(Equal(before[name].UID), "%s keeps its pod", name)
		}
	})...)
})

var _ = Describe("A job with a ResourceClaim", Label("nodes"), func() {
	It("restarts with another device after its device has got a taint, without counting it", func(ctx context.Context) {
		c := startPlane(ctx, simulated.Plain, "scheduler", "pytorch", "tensorboard")
		startController(c.ControlPlane, "pytorch")
		nodes := c.nodesOf(ctx, "4")
		for _, manifest := range []string{`
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: device}
spec: {selectors: [{cel: {expression: device.driver == "test.tensorstack.dev"}}]}
`, `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: devices}
spec:
  driver: test.tensorstack.dev
  nodeName: ` + nodes[0] + `
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices: [{name: device-0}, {name: device-1}]
`, `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: device, namespace: default}
spec: {spec: {devices: {requests: [{name: device, exactly: {deviceClassName: device}}]}}}
`} {
			c.create(ctx, manifest)
		}
		j := c.job(ctx, "job", oneWorker("resourceClaims: [{name: device, resourceClaimTemplateName: device}]"))
		Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(0, "job-worker-0 on "+nodes[0])))
		had := c.allocated(ctx)
		Expect(had).To(HaveLen(1))

		// While kwok is frozen, the deleted pod stays on the node. So the controller can record why Kubernetes deletes the
		// pod.
		Expect(c.Freeze(simulated.Kwok)).To(Succeed())
		c.create(ctx, `
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {driver: test.tensorstack.dev, pool: pool, device: `+had[0]+`}
  taint: {key: test.tensorstack.dev/broken, effect: NoExecute}
`)
		Eventually(ctx, func() []batchv1beta1.ReplicaFailure { return j.status(ctx).Failures }, recovery).Should(HaveLen(1))
		Expect(c.Thaw(simulated.Kwok)).To(Succeed())

		Eventually(ctx, j.placement(ctx), recovery).Should(Equal(ran(1, "job-worker-0 on "+nodes[0])))
		Expect(c.allocated(ctx)).To(ConsistOf(And(HavePrefix("device-"), Not(Equal(had[0])))))
		status := j.status(ctx)
		Expect(status.Failures[0].Reason).To(Equal(batchv1beta1.ReasonDeviceTainted))
		Expect(status.Failures[0].Counted).To(BeFalse())
		Expect(status.BackoffCount).To(BeZero())
	}, SpecTimeout(timeout))
})

// create creates the object of a manifest.
func (c cluster) create(ctx context.Context, manifest string) {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	merge(object.Object, manifest)
	Expect(c.Client.Create(ctx, object)).To(Succeed())
}

// allocated returns the names of the devices of all ResourceClaims that are not being deleted.
func (c cluster) allocated(ctx context.Context) []string {
	GinkgoHelper()
	var claims resourcev1.ResourceClaimList
	Expect(c.Client.List(ctx, &claims)).To(Succeed())
	var devices []string
	for _, claim := range claims.Items {
		if claim.Status.Allocation != nil && claim.DeletionTimestamp.IsZero() {
			for _, result := range claim.Status.Allocation.Devices.Results {
				devices = append(devices, result.Device)
			}
		}
	}
	return devices
}

// oneWorker returns the part of a manifest with one worker that requests one CPU. The parameter field is an
// additional field of the pod spec.
func oneWorker(field string) string {
	return fmt.Sprintf(`spec: {replicaSpecs: [{type: worker, restartPolicy: OnFailure, template: {spec: {%s,
  containers: [{name: pytorch, image: image, resources: {requests: {cpu: 1}}}]}}}]}`, field)
}

// nodesOf adds a node for each quantity of CPU, and returns the names of the nodes.
func (c cluster) nodesOf(ctx context.Context, cpus ...string) []string {
	GinkgoHelper()
	nodes, err := c.AddNodes(ctx, cpus...)
	Expect(err).NotTo(HaveOccurred())
	return nodes
}

// cordon sets whether nodes are unschedulable.
func (c cluster) cordon(ctx context.Context, unschedulable bool, nodes ...string) {
	GinkgoHelper()
	for _, node := range nodes {
		change(ctx, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			func(n *corev1.Node) { n.Spec.Unschedulable = unschedulable })
	}
}

// loseNode makes a node unavailable until each of the jobs has recorded a failure because of the lost node.
func (c cluster) loseNode(ctx context.Context, node string, jobs ...job) {
	GinkgoHelper()
	By("losing node " + node)
	failures := map[string]int{}
	for _, j := range jobs {
		failures[j.name] = len(j.status(ctx).Failures)
	}
	Expect(c.LoseNode(ctx, node, func() {
		for _, j := range jobs {
			Eventually(ctx, func() []batchv1beta1.ReplicaFailure { return j.status(ctx).Failures }).
				Should(HaveLen(failures[j.name] + 1))
			failure := j.status(ctx).Failures[0]
			Expect(failure.Reason).To(Equal(batchv1beta1.ReasonNodeLost))
			Expect(failure.Node).To(Equal(node))
			Expect(failure.Counted).To(BeFalse())
		}
	})).To(Succeed())
}

// ran returns the text with which job.placement describes a running job. The parameter pods lists the running pods of
// the job.
func ran(failures int, pods ...string) string {
	return fmt.Sprintf("Running after %d failures: %s", failures, strings.Join(pods, ", "))
}

// placement returns a function that describes the phase of the job, the number of its failures, and its running pods.
func (j job) placement(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		pods, err := j.running(ctx)()
		status := j.status(ctx)
		return strings.Replace(ran(len(status.Failures), pods...), "Running", string(status.Phase), 1), err
	}
}

// running returns a function that lists the running pods of the job with their nodes.
func (j job) running(ctx context.Context) func() ([]string, error) {
	return j.list(ctx, func(pod corev1.Pod) (string, bool) {
		return pod.Name + " on " + pod.Spec.NodeName, pod.Status.Phase == corev1.PodRunning
	})
}

// unbound returns a function that lists the pods of the job that the engine should bind.
func (j job) unbound(ctx context.Context) func() ([]string, error) {
	return j.list(ctx, func(pod corev1.Pod) (string, bool) {
		return pod.Name, pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0
	})
}

// list returns a function that returns a text for each pod of the job, sorted. It leaves out pods that are being
// deleted. The function describe returns the text for a pod, and reports whether the list must have the pod.
func (j job) list(ctx context.Context, describe func(corev1.Pod) (string, bool)) func() ([]string, error) {
	return func() ([]string, error) {
		var pods corev1.PodList
		err := j.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault),
			client.MatchingLabels{batchv1beta1.LabelJobName: j.name})
		var listed []string
		for _, pod := range pods.Items {
			if text, ok := describe(pod); ok && pod.DeletionTimestamp.IsZero() {
				listed = append(listed, text)
			}
		}
		slices.Sort(listed)
		return listed, err
	}
}

// byName returns the pods of the job by name.
func (j job) byName(ctx context.Context) map[string]corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(j.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault),
		client.MatchingLabels{batchv1beta1.LabelJobName: j.name})).To(Succeed())
	byName := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		byName[pod.Name] = pod
	}
	return byName
}

// isAvoiding expects that the job avoids the node, and that no restart has counted towards backoffLimit.
func (j job) isAvoiding(ctx context.Context, node string) {
	GinkgoHelper()
	status := j.status(ctx)
	Expect(status.AvoidedNodes).To(HaveLen(1))
	Expect(status.AvoidedNodes[0].Name).To(Equal(node))
	Expect(status.AvoidedNodes[0].Reason).To(Equal(batchv1beta1.ReasonNodeLost))
	Expect(status.BackoffCount).To(BeZero())
}

// hasAllowed expects that the job has avoided the node, and that it has allowed the node again because its replicas
// waited for a node. The job must have restarted twice in all.
func (j job) hasAllowed(ctx context.Context, node string) {
	GinkgoHelper()
	status := j.status(ctx)
	Expect(status.AvoidedNodes).To(BeEmpty())
	Expect(status.Attempt).To(Equal(int32(2)))
	Expect(status.BackoffCount).To(BeZero())
	Eventually(ctx, j.events(ctx, batchv1beta1.EventNodeAvoided)).Should(
		ConsistOf(ContainSubstring("new pods avoid node " + node)))
	Eventually(ctx, j.events(ctx, batchv1beta1.EventNodeAllowed)).Should(ConsistOf(
		"new pods can run on node " + node + " again: replicas of the job have waited for a node"))
}

// events returns a function that lists the messages of the job's events with a reason.
func (j job) events(ctx context.Context, reason string) func() ([]string, error) {
	return func() ([]string, error) {
		var events eventsv1.EventList
		err := j.Client.List(ctx, &events, client.InNamespace(corev1.NamespaceDefault))
		var notes []string
		for _, event := range events.Items {
			if event.Regarding.Name == j.name && event.Reason == reason {
				notes = append(notes, event.Note)
			}
		}
		return notes, err
	}
}
