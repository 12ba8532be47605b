package kueue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// flavor is the manifest of a ResourceFlavor for the nodes with the label pool. %[1]s is its name and the value of the
// label.
const flavor = `---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %[1]s}
spec: {nodeLabels: {pool: %[1]s}}
`

// clusterQueue has the manifests of a ClusterQueue and its LocalQueue. The ClusterQueue is in the cohort named lab.
// %[1]s is the name of both queues, and %[2]s is the list of flavors.
const clusterQueue = `---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  cohortName: lab
  namespaceSelector: {}
  preemption: {reclaimWithinCohort: Any}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [%[2]s]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[1]s, namespace: default}
spec: {clusterQueue: %[1]s}
`

// quota returns an entry for the flavors of a ClusterQueue: a flavor with its quota of CPUs.
func quota(flavor string, cpus int) string {
	return fmt.Sprintf(`{name: %s, resources: [{name: cpu, nominalQuota: %d}]}`, flavor, cpus)
}

// label sets a label of a node.
func (c *cluster) label(ctx context.Context, node, key, value string) {
	GinkgoHelper()
	c.patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, key, value))
}

// jobIn creates a PyTorchTrainingJob for a LocalQueue. If the parameter annotation is not empty, the template has it.
func (c *cluster) jobIn(ctx context.Context, queue, name, annotation string) job {
	GinkgoHelper()
	manifest := fmt.Sprintf(kinds[pytorch], name, kueuev1beta2.LabelQueueName+": "+queue)
	if annotation != "" {
		metadata := "template: {metadata: {annotations: {" + annotation + "}}, spec:"
		manifest = strings.Replace(manifest, "template: {spec:", metadata, 1)
	}
	c.apply(ctx, manifest)
	return job{cluster: c, kind: pytorch, name: name}
}

// nodes returns a function that lists the nodes of the job's pods, without duplicates.
func (j job) nodes(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		pods, err := j.pods(ctx)()
		var nodes []string
		for _, pod := range pods {
			nodes = append(nodes, pod.Spec.NodeName)
		}
		slices.Sort(nodes)
		return slices.Compact(nodes), err
	}
}

var _ = Describe("A job that Kueue admits", func() {
	It("runs on the nodes of the flavor that has quota for it", func(ctx context.Context) {
		c := start(ctx, configuration, "8", "8")
		c.label(ctx, "simulated-0", "pool", "reserved")
		c.label(ctx, "simulated-1", "pool", "spot")
		c.apply(ctx, fmt.Sprintf(flavor, "reserved")+fmt.Sprintf(flavor, "spot")+
			fmt.Sprintf(clusterQueue, "team", quota("reserved", 2)+", "+quota("spot", 2)))
		first := c.jobIn(ctx, "team", "first", "")
		Eventually(ctx, first.state(ctx)).Should(Equal("Running"))
		second := c.jobIn(ctx, "team", "second", "")
		Eventually(ctx, second.state(ctx)).Should(Equal("Running"))
		Expect(first.nodes(ctx)()).To(Equal([]string{"simulated-0"}))
		Expect(second.nodes(ctx)()).To(Equal([]string{"simulated-1"}))
	})

	It("borrows quota, and gives it back when its owner needs it", func(ctx context.Context) {
		c := start(ctx, configuration, "8")
		c.label(ctx, "simulated-0", "pool", "default")
		c.apply(ctx, fmt.Sprintf(flavor, "default")+fmt.Sprintf(clusterQueue, "ours", quota("default", 2))+
			fmt.Sprintf(clusterQueue, "theirs", quota("default", 2)))
		jobs := []job{c.jobIn(ctx, "ours", "first", ""), c.jobIn(ctx, "ours", "second", "")}
		for _, j := range jobs {
			Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		}
		owner := c.jobIn(ctx, "theirs", "owner", "")
		Eventually(ctx, owner.state(ctx)).Should(Equal("Running"))
		// Kueue can evict either of the two jobs.
		Eventually(ctx, func(g Gomega) {
			var states []string
			for _, j := range jobs {
				state, err := j.state(ctx)()
				g.Expect(err).NotTo(HaveOccurred())
				states = append(states, strings.SplitN(state, ":", 2)[0])
			}
			g.Expect(states).To(ConsistOf("Running", "Pending Queued"))
		}).Should(Succeed())
		owner.ends(ctx, 1)
		owner.ends(ctx, 0)
		for _, j := range jobs {
			Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		}
	})

	It("runs within the rack that its template requires", func(ctx context.Context) {
		c := startRacks(ctx)
		var all []string
		for _, name := range []string{"first", "second"} {
			j := c.jobIn(ctx, "team", name, withinRack)
			Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
			nodes, err := j.nodes(ctx)()
			Expect(err).NotTo(HaveOccurred())
			Expect(nodes).To(BeElementOf([]string{"simulated-0", "simulated-2"}, []string{"simulated-1", "simulated-3"}))
			all = append(all, nodes...)
		}
		Expect(all).To(ConsistOf("simulated-0", "simulated-1", "simulated-2", "simulated-3"))
	})

	It("runs each slice of its replicas within a rack", func(ctx context.Context) {
		c := startRacks(ctx)
		manifest := fmt.Sprintf(kinds[pytorch], "job", kueuev1beta2.LabelQueueName+": team")
		manifest = strings.Replace(manifest, "replicas: 2", "replicas: 4", 1)
		c.apply(ctx, strings.Replace(manifest, "template: {spec:", `template: {metadata: {annotations: {
			kueue.x-k8s.io/podset-slice-required-topology: rack, kueue.x-k8s.io/podset-slice-size: "2"}}, spec:`, 1))
		j := job{cluster: c, kind: pytorch, name: "job"}
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		pods, err := j.pods(ctx)()
		Expect(err).NotTo(HaveOccurred())
		slicesOf := map[string][]string{}
		for _, pod := range pods {
			node := &corev1.Node{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)).To(Succeed())
			slicesOf[node.Labels["rack"]] = append(slicesOf[node.Labels["rack"]], pod.Name)
		}
		Expect(slices.Collect(maps.Values(slicesOf))).To(ConsistOf(
			ConsistOf("job-worker-0", "job-worker-1"), ConsistOf("job-worker-2", "job-worker-3")))
	})

	It("is refused with a slice that has no size", func(ctx context.Context) {
		c := startRacks(ctx)
		j := c.jobIn(ctx, "team", "job", "kueue.x-k8s.io/podset-slice-required-topology: rack")
		Eventually(ctx, func() (string, error) {
			status, err := j.status(ctx)
			return fmt.Sprint(status.Reason), err
		}).Should(Equal("InvalidTemplate"))
	})

	// Kueue replaces an assigned node only if the node has a taint. Kueue does not read the health of devices, so the
	// job gets the same nodes after each failure of a device.
	It("does not avoid a node that Kueue assigns, even if devices of the node are unhealthy twice",
		func(ctx context.Context) {
			c := startRacks(ctx)
			j := c.jobIn(ctx, "team", "job", withinRack)
			Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
			nodes, err := j.nodes(ctx)()
			Expect(err).NotTo(HaveOccurred())
			for failures := range 2 {
				j.losesDevice(ctx, nodes[0])
				Eventually(ctx, j.failures(ctx)).Should(HaveLen(failures + 1))
				Expect(j.failures(ctx)()).To(HaveEach("DeviceUnhealthy on " + nodes[0]))
				Eventually(ctx, j.state(ctx), 2*time.Minute).Should(Equal("Running"))
				Expect(j.nodes(ctx)()).To(Equal(nodes))
			}
			Expect(j.counts(ctx)()).To(Equal("evictions 0, pauses 0, attempt 2, backoffCount 0"))
			status, err := j.status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status.AvoidedNodes).To(BeEmpty())
			pods, err := j.pods(ctx)()
			Expect(err).NotTo(HaveOccurred())
			for _, pod := range pods {
				Expect(pod.Spec.Affinity).To(BeNil(), pod.Name)
			}
		})
})

// withinRack is the annotation of a template whose pods must be in one rack.
const withinRack = "kueue.x-k8s.io/podset-required-topology: rack"

// startRacks starts a cluster with two racks of two nodes. For jobs of the queue named team, Kueue assigns nodes in
// these racks.
func startRacks(ctx context.Context) *cluster {
	GinkgoHelper()
	c := start(ctx, configuration, "1", "1", "1", "1")
	for node, rack := range map[string]string{
		"simulated-0": "a", "simulated-1": "b", "simulated-2": "a", "simulated-3": "b",
	} {
		c.label(ctx, node, "pool", "default")
		c.label(ctx, node, "rack", rack)
	}
	c.apply(ctx, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
`+strings.Replace(fmt.Sprintf(flavor, "default"), "spec: {", "spec: {topologyName: racks, ", 1)+
		fmt.Sprintf(clusterQueue, "team", quota("default", 4)))
	return c
}

// failures returns a function that lists the failures of the job, each with its reason and its node.
func (j job) failures(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		status, err := j.status(ctx)
		var failures []string
		for _, failure := range status.Failures {
			failures = append(failures, failure.Reason+" on "+failure.Node)
		}
		return failures, err
	}
}

// losesDevice reports a device of the replica on the node as unhealthy, as a kubelet does. The device belongs to the
// resource cpu: the API server rejects a status with a resource that the container does not request.
func (j job) losesDevice(ctx context.Context, node string) {
	GinkgoHelper()
	pods, err := j.pods(ctx)()
	Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node })
	Expect(i).NotTo(Equal(-1), "no replica is on node %s", node)
	pod := &pods[i]
	base := pod.DeepCopy()
	pod.Status.ContainerStatuses[0].AllocatedResourcesStatus = []corev1.ResourceStatus{{
		Name:      corev1.ResourceCPU,
		Resources: []corev1.ResourceHealth{{ResourceID: "cpu-0", Health: corev1.ResourceHealthStatusUnhealthy}},
	}}
	Expect(j.Client.Status().Patch(ctx, pod, client.MergeFrom(base))).To(Succeed())
}
