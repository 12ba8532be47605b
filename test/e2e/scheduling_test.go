package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A job in a queue", Label("queues"), func() {
	It("trains as a gang of the queue, waits for its quota, and gives it back when it pauses or ends", func(ctx context.Context) {
		n := newNamespace(ctx)
		queue := "lab-" + string(n)
		n.kubectlWith(ctx, `{
			"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "Queue", "metadata": {"name": "`+queue+`"},
			"spec": {"quota": {"requests": {"cpu": "300m"}}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "`+string(n)+`"}}}
		}`, "apply", "-f", "-")
		DeferCleanup(func(ctx context.Context) { n.kubectl(ctx, "delete", "queue.scheduler.tensorstack.dev", queue) })
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		inQueue := `{"op": "replace", "path": "/spec/scheduler/t9kScheduler/queue", "value": "` + queue + `"}`
		n.applyPatched(ctx, "examples/pytorch/gang.yaml", `[`+inQueue+`,
			{"op": "add", "path": "/spec/runMode", "value": {}},
			{"op": "add", "path": "/metadata/name", "value": "first"},
			{"op": "replace", "path": "/spec/replicaSpecs/0/template/spec/containers/0/command", "value": ["sleep", "infinity"]}]`)
		n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/first", "--timeout=120s")
		Expect(n.kubectl(ctx, "get", "podgroup.scheduler.tensorstack.dev", "first", "-o", "jsonpath={.spec.minMember} {.status.running}")).To(Equal("3 3"))

		By("applying another")
		n.applyPatched(ctx, "examples/pytorch/gang.yaml", `[`+inQueue+`]`)
		n.kubectl(ctx, "wait", "--for=jsonpath={.status.conditions[?(@.type==\"Running\")].reason}=QuotaExceeded", "ptjob/digits-gang", "--timeout=60s")

		By("pausing the first")
		n.kubectl(ctx, "patch", "ptjob", "first", "--type=merge", "-p", `{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
		n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-gang", "--timeout=240s")
		Expect(n.kubectl(ctx, "get", "podgroup.scheduler.tensorstack.dev", "-o", "name")).To(BeEmpty(), "one is paused, the other has ended")
		Eventually(ctx, func() (string, error) {
			return kubectl(ctx, "get", "queue.scheduler.tensorstack.dev", queue, "-o", "jsonpath={.status.podGroups.total}{.status.allocated.cpu}")
		}).Should(BeEmpty(), "nothing is left of either")
	})
})
