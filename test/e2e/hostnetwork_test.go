package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Two jobs with hostNetwork", Label("hostnetwork"), func() {
	BeforeEach(func() { waitLonger(2) }) // two jobs start together

	DescribeTable("complete side by side without sharing a port",
		func(ctx context.Context, code, example, template, kind string, portsOfJob int) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", code)
			n.completeSideBySide(ctx, example, template, kind, "")
			n.haveTheirOwnPorts(ctx, portsOfJob)
		},
		Entry("with PyTorch, where leaders listen", "examples/pytorch/code", "examples/pytorch/plain.yaml",
			"/spec/replicaSpecs/0/template/spec", "ptjob", 1),
		Entry("with TensorFlow, where all workers listen", "examples/tensorflow/code",
			"examples/tensorflow/multi-worker.yaml", "/spec/replicaSpecs/0/template/spec", "tfjob", 2),
		Entry("with DeepSpeed, where all workers serve ssh", "examples/deepspeed/code", "examples/deepspeed/zero.yaml",
			"/spec/worker/template/spec", "dsjob", 3),
	)

	It("complete side by side with torchrun, which identifies replicas by their names", Label("hostnetwork-torchrun"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			const template = "/spec/replicaSpecs/0/template/spec"
			changes := ""
			if trainsWithOldest() { // torch before 2.0 does not use PET_LOCAL_ADDR as its host name
				n.kubectl(ctx, "create", "configmap", "names", "--from-file=test/e2e/testdata/sitecustomize.py")
				changes = fmt.Sprintf(`,
			{"op": "add", "path": "%[1]s/volumes/-", "value": {"name": "names", "configMap": {"name": "names"}}},
			{"op": "add", "path": "%[1]s/containers/0/volumeMounts/-", "value": {"name": "names", "mountPath": "/names"}},
			{"op": "add", "path": "%[1]s/containers/0/env/-", "value": {"name": "PYTHONPATH", "value": "/names"}}`, template)
			}
			n.completeSideBySide(ctx, "examples/pytorch/torchrun.yaml", template, "ptjob", changes)
			n.haveTheirOwnPorts(ctx, 2)
		})
})

// completeSideBySide creates two jobs from an example, and waits until both have succeeded. Their pods use the
// network of the node, and stay when the jobs end. The parameter changes has more operations for the JSON patch of
// each job.
func (n namespace) completeSideBySide(ctx context.Context, example, template, kind, changes string) {
	GinkgoHelper()
	jobs := []string{"one", "other"}
	for _, job := range jobs {
		n.applyPatched(ctx, example, fmt.Sprintf(
			`[{"op": "replace", "path": "/metadata/name", "value": %q},
			  {"op": "add", "path": "/spec/runPolicy", "value": {"cleanUpPolicy": "None"}},
			  {"op": "add", "path": "%s/hostNetwork", "value": true}%s]`,
			job, template, changes))
	}
	for _, job := range jobs {
		n.kubectl(ctx, "wait", "--for=condition=Completed", kind+"/"+job, timeout)
		status := n.output(ctx, "get", kind, job, "-o", "jsonpath={.status.phase} {.status.backoffCount}")
		Eventually(ctx, status).Should(Equal("Succeeded 0"))
	}
}

// haveTheirOwnPorts expects all pods of the namespace to use the host network, and all their host ports to differ.
// Each of the two jobs must have portsOfJob ports.
func (n namespace) haveTheirOwnPorts(ctx context.Context, portsOfJob int) {
	GinkgoHelper()
	spec := func(field string) func() (string, error) {
		return n.output(ctx, "get", "pods", "-o", "jsonpath={.items[*].spec."+field+"}")
	}
	Expect(now(spec("hostNetwork"))).To(Equal("true true true true")) //nolint:dupword // one for each pod
	Expect(strings.Fields(now(spec("dnsPolicy")))).To(HaveEach("ClusterFirstWithHostNet"))
	ports := strings.Fields(now(spec("containers[*].ports[*].hostPort")))
	Expect(ports).To(HaveLen(2 * portsOfJob))
	seen := map[string]bool{}
	for _, port := range ports {
		Expect(port).To(MatchRegexp(`^2[0-6]\d{3}$`), "ports are from 20000 to 26003")
		Expect(seen[port]).To(BeFalse(), "two replicas have port %s", port)
		seen[port] = true
	}
}
