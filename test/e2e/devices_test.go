package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// The kubelet is real, and a device plugin of the test reports the health of devices to it.
var _ = Describe("A job whose pods have devices", Label("devices"), func() {
	BeforeEach(func() { waitLonger(2) }) // the kubelet reports devices only every 10 s, and the job trains twice

	It("restarts once after a device turns unhealthy, without counting it, and completes with another device",
		func(ctx context.Context) {
			localClusterOrSkip("the test runs a device plugin on the node of the local cluster")
			n := newNamespace(ctx)
			plugin := startDevicePlugin(ctx, string(n), 3)
			n.volume(ctx, "digits-progress")
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "create", "configmap", "schedule", "--from-literal=epochs=1000000")
			example, err := os.ReadFile(filepath.Join(root, "examples/pytorch/progress.yaml"))
			Expect(err).NotTo(HaveOccurred())
			n.kubectlWith(ctx, strings.NewReplacer(
				"--epochs=60", "--epochs=$(EPOCHS)",
				"env:\n", `env:
                - {name: EPOCHS, valueFrom: {configMapKeyRef: {name: schedule, key: epochs}}}
`, "limits:\n", fmt.Sprintf("limits:\n                  %s: 1\n", plugin.resource)).Replace(string(example)), "apply", "-f", "-")
			n.trainsAfter(ctx, 0)
			before, had := now(n.replicas(ctx)), n.knownDevices(ctx)
			Expect(had).To(HaveLen(2))
			node := before["digits-progress-worker-1"].node

			By("restarting the device plugin: meanwhile the kubelet does not offer its devices")
			plugin.stop()
			Eventually(ctx, offered(ctx, node, plugin.resource)).Should(Equal("0"))
			plugin.start(ctx)
			Eventually(ctx, offered(ctx, node, plugin.resource)).Should(Equal("3"))
			n.trainsAfter(ctx, now(n.epoch(ctx)))
			Expect(now(n.replicas(ctx))).To(Equal(before), "no pod is replaced")

			By("turning a device unhealthy that a worker has")
			// Running processes have already read the former number of epochs. Only new processes read the new number.
			n.kubectl(ctx, "patch", "configmap", "schedule", "-p",
				fmt.Sprintf(`{"data": {"epochs": "%d"}}`, now(n.epoch(ctx))+40))
			bad := had["digits-progress-worker-1"]
			plugin.setHealth(bad, deviceplugin.Unhealthy)
			Eventually(ctx, n.pods(ctx)).Should(And(HaveLen(2), Not(ContainElement(BeElementOf(uids(before))))))
			Eventually(ctx, n.devices(ctx)).Should(And(HaveLen(2), Not(ContainElement(bad))))
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-progress", timeout)

			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-progress", "-o",
				"jsonpath={.status.backoffCount} {.status.attempt} {.status.tasks[0].restartCount}")).Should(Equal("0 1 2"))
			Eventually(ctx, n.failures(ctx, "ptjob/digits-progress")).Should(
				ConsistOf("digits-progress-worker-1 DeviceUnhealthy counted=false on " + node))
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-progress", "-o",
				"jsonpath={.status.failures[0].devices[*]['resource','id']}")).Should(Equal(plugin.resource + " " + bad))
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-progress", "-o", "jsonpath={.status.avoidedNodes}")).
				Should(BeEmpty(), "the node has failed only once")
			Eventually(ctx, n.output(ctx, "describe", "ptjob", "digits-progress")).Should(ContainSubstring(
				"replica digits-progress-worker-1 failed (DeviceUnhealthy: %s (%s))", bad, plugin.resource))
			Eventually(ctx, n.output(ctx, "logs", "digits-progress-worker-0")).Should(
				And(ContainSubstring("rank 0 of 2"), Not(ContainSubstring("epoch  1  loss"))), "it continues from its checkpoint")
			Eventually(ctx, controllerMetrics(ctx)).Should(MatchRegexp(`(?m)^tensorstack_job_node_restarts_total` +
				`\{cause="DeviceUnhealthy",kind="PyTorchTrainingJob",node="` + node + `"\} [1-9]`))
		})

	It("waits without a counted restart while its node has no healthy device, and then runs again",
		func(ctx context.Context) {
			localClusterOrSkip("the test runs a device plugin on the node of the local cluster")
			n := newNamespace(ctx)
			plugin := startDevicePlugin(ctx, string(n), 1)
			n.waitsAlone(ctx, 1, plugin.resource+": 1")
			before := now(n.replicas(ctx))["alone-worker-0"]
			bad := n.knownDevices(ctx)["alone-worker-0"]

			plugin.setHealth(bad, deviceplugin.Unhealthy)
			Eventually(ctx, n.ofAlone(ctx, "{.status.conditions[?(@.type=='Running')]['reason','message']}")).Should(
				MatchRegexp("^Unschedulable .*Insufficient "+plugin.resource), "the node offers no device")
			plugin.setHealth(bad, deviceplugin.Healthy)
			n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/alone", timeout)
			Eventually(ctx, n.devices(ctx)).Should(HaveKeyWithValue("alone-worker-0", bad))
			n.kubectl(ctx, "exec", "alone-worker-0", "--", "touch", "/tmp/enough")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/alone", timeout)

			Eventually(ctx, n.ofAlone(ctx, "0{.status.backoffCount}")).Should(MatchRegexp("^0+$"))
			// Until the kubelet reports that the node has no healthy device, the scheduler can place new pods on the node. The
			// kubelet rejects these pods, and the failure of a rejected pod does not count.
			Eventually(ctx, n.failures(ctx, "ptjob/alone")).Should(And(
				ContainElement("alone-worker-0 DeviceUnhealthy counted=false on "+before.node),
				HaveEach(ContainSubstring("counted=false"))))
		})
})

// epoch returns a function that returns the last epoch in the log of the job digits-progress.
func (n namespace) epoch(ctx context.Context) func() (int, error) {
	return func() (int, error) {
		log, err := n.output(ctx, "logs", "digits-progress-worker-0", "-c", "pytorch")()
		if err != nil {
			return 0, err
		}
		epochs := regexp.MustCompile(`epoch +(\d+)  loss`).FindAllStringSubmatch(log, -1)
		if len(epochs) == 0 {
			return 0, errors.New("the log has no epoch")
		}
		return strconv.Atoi(epochs[len(epochs)-1][1])
	}
}

// trainsAfter waits until the job digits-progress has trained a later epoch than the given one.
func (n namespace) trainsAfter(ctx context.Context, epoch int) {
	GinkgoHelper()
	Eventually(ctx, n.epoch(ctx)).Should(BeNumerically(">", epoch), "the job trains")
}

// devices returns a function that maps the name of each pod in the namespace to the ID of its device, as the kubelet
// reports it. The function fails if a pod does not have exactly one device, or if two pods share a device.
func (n namespace) devices(ctx context.Context) func() (map[string]string, error) {
	return func() (map[string]string, error) {
		devices := map[string]string{}
		output, err := n.output(ctx, "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name} `+
			`{.status.containerStatuses[*].allocatedResourcesStatus[*].resources[*].resourceID}{"\n"}{end}`)()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(output) {
			fields := strings.Fields(line)
			if len(fields) != 2 {
				return nil, fmt.Errorf("pod %s has no device", fields[0])
			}
			devices[fields[0]] = fields[1]
		}
		if ids := slices.Sorted(maps.Values(devices)); len(slices.Compact(ids)) != len(devices) {
			return nil, fmt.Errorf("pods share a device: %v", devices)
		}
		return devices, nil
	}
}

// knownDevices waits until the kubelet has reported a device for each pod in the namespace. It returns a map from the
// name of each pod to the ID of its device.
func (n namespace) knownDevices(ctx context.Context) map[string]string {
	GinkgoHelper()
	var devices map[string]string
	Eventually(ctx, func() (err error) {
		devices, err = n.devices(ctx)()
		return err
	}).Should(Succeed())
	return devices
}

// offered returns a function that returns the allocatable amount of a resource on a node.
func offered(ctx context.Context, node, resource string) func() (string, error) {
	return func() (string, error) {
		name := strings.ReplaceAll(resource, ".", `\.`)
		return kubectl(ctx, "get", "node", node, "-o", "jsonpath={.status.allocatable."+name+"}")
	}
}

// controllerMetrics returns a function that returns the metrics of the PyTorch controller.
func controllerMetrics(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		pod, err := controllersNamespace.output(ctx, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")()
		if err != nil {
			return "", err
		}
		return kubectl(ctx, "get", "--raw",
			"/api/v1/namespaces/"+string(controllersNamespace)+"/pods/"+pod+":8080/proxy/metrics")
	}
}
