package e2e

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"tensorstack.dev/jobs/test/internal/modules"
	"tensorstack.dev/jobs/test/monitoring"
)

var _ = Describe("The alerts and the dashboard", Label("install"), func() {
	It("query only metrics and labels that controllers expose", func(ctx context.Context) {
		localClusterOrSkip("the test runs a device plugin on the node of the local cluster")
		n := newNamespace(ctx)
		By("creating a job that fails, one in a queue that runs, and one that reports progress")
		n.kubectl(ctx, "apply", "-f", "examples/pytorch/failing.yaml")
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.holdsQueue(ctx, n.queue(ctx, "300m"), "gang")
		n.silent(ctx, "silent", `{"step": 1, "totalSteps": 2}`)
		Eventually(ctx, n.progress(ctx, "ptjob", "silent")).Should(Equal("50% (1/2)"))
		n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/failing", timeout)
		n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/gang", timeout)
		By("turning a device unhealthy, so that a node causes a restart")
		withDevice := newNamespace(ctx)
		plugin := startDevicePlugin(ctx, string(withDevice), 1)
		withDevice.waitsAlone(ctx, 1, plugin.resource+": 1")
		plugin.setHealth(withDevice.knownDevices(ctx)["alone-worker-0"], deviceplugin.Unhealthy)
		Eventually(ctx, withDevice.failures(ctx, "ptjob/alone")).Should(ContainElement(ContainSubstring("DeviceUnhealthy")))

		queries, err := monitoring.Queries(root)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega) {
			exposed := exposed(ctx, g)
			for _, query := range queries {
				asked, err := query.Asked()
				g.Expect(err).NotTo(HaveOccurred())
				for _, selector := range asked {
					for _, label := range append(selector.Labels, "") {
						// Prometheus itself adds the labels job and __name__, and the metric up.
						if !slices.Contains([]string{"job", "__name__"}, label) && selector.Metric != "up" {
							g.Expect(exposed).To(HaveKey(strings.TrimSpace(selector.Metric+" "+label)), query.Where)
						}
					}
				}
			}
		}).Should(Succeed())
	})
})

// exposed returns a set that has the name of each metric of all controllers. For each label of a metric, the set also
// has the string "<name of the metric> <label>".
func exposed(ctx context.Context, g Gomega) map[string]bool {
	exposed := map[string]bool{}
	registry, err := modules.Read(root)
	g.Expect(err).NotTo(HaveOccurred())
	for _, controller := range registry.Controllers() {
		namespace := "t9k-" + controller
		pod, err := kubectl(ctx, "-n", namespace, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
		g.Expect(err).NotTo(HaveOccurred())
		text, err := kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":8080/proxy/metrics")
		g.Expect(err).NotTo(HaveOccurred())
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text + "\n"))
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			names := []string{family.GetName()}
			if family.GetType() == dto.MetricType_HISTOGRAM {
				names = []string{family.GetName() + "_bucket", family.GetName() + "_sum", family.GetName() + "_count"}
			}
			for _, name := range names {
				exposed[name] = true
				for _, metric := range family.GetMetric() {
					for _, label := range metric.GetLabel() {
						exposed[name+" "+label.GetName()] = true
					}
				}
			}
		}
	}
	return exposed
}
