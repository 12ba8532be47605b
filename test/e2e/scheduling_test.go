package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A job in a queue", Label("queues"), func() {
	It("is scheduled as a gang, as docs/train/scheduling.md shows", Label("always"), func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.deleteAfterwards("-f", "examples/scheduler/queue.yaml")
		n.follow(ctx, "docs/train/scheduling.md", "A gang")
	})

	It("waits for quota, trains as a gang, and releases its quota when it is paused or ends",
		func(ctx context.Context) {
			n := newNamespace(ctx)
			queue := n.queue(ctx, "300m")
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.holdsQueue(ctx, queue, "first")
			n.kubectl(ctx, "wait", "--for=condition=Running", "ptjob/first", timeout)
			Eventually(ctx, n.output(ctx, "get", "podgroup.scheduler.tensorstack.dev", "first", "-o",
				"jsonpath={.spec.minMember} {.status.running}")).Should(Equal("3 3"))

			By("creating a second job, which waits for quota")
			n.applyPatched(ctx, "examples/pytorch/gang.yaml", `[`+inQueue(queue)+`]`)
			n.kubectl(ctx, "wait", "--for=jsonpath={.status.conditions[?(@.type==\"Running\")].reason}=QuotaExceeded",
				"ptjob/digits-gang", timeout)

			By("pausing the first job")
			n.kubectl(ctx, "patch", "ptjob", "first", "--type=merge", "-p",
				`{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-gang", timeout)
			Eventually(ctx, n.output(ctx, "get", "podgroup.scheduler.tensorstack.dev", "-o", "name")).Should(BeEmpty(),
				"a paused job and a job that has ended have no PodGroup")
			Eventually(ctx, func() (string, error) {
				return kubectl(ctx, "get", "queue.scheduler.tensorstack.dev", queue, "-o",
					"jsonpath={.status.podGroups.total}{.status.allocated.cpu}")
			}).Should(BeEmpty(), "the queue has no PodGroup and nothing is allocated")
		})
})

var _ = Describe("A job in a queue with maxDuration", Label("queues"), func() {
	It("fails when it has run for maxDuration", func(ctx context.Context) {
		n := newNamespace(ctx)
		queue := n.queue(ctx, "300m")
		n.kubectl(ctx, "patch", "queue.scheduler.tensorstack.dev", queue,
			"--type=merge", "-p", `{"spec": {"maxDuration": "5s"}}`)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.holdsQueue(ctx, queue, "long")
		n.kubectl(ctx, "wait", "--for=condition=Failed", "ptjob/long", timeout)
		Expect(n.output(ctx, "get", "ptjob", "long", "-o", "jsonpath={.status.reason}")()).To(Equal("MaxDurationExceeded"))
		Eventually(ctx, n.output(ctx, "get", "pods,podgroups.scheduler.tensorstack.dev", "-o", "name")).Should(BeEmpty())
	})
})

// queue creates a queue for the namespace with a quota of CPUs, and returns its name.
func (n namespace) queue(ctx context.Context, cpu string) string {
	GinkgoHelper()
	queue := "lab-" + string(n)
	n.kubectlWith(ctx, `{
		"apiVersion": "scheduler.tensorstack.dev/v1beta1", "kind": "Queue", "metadata": {"name": "`+queue+`"},
		"spec": {"quota": {"requests": {"cpu": "`+cpu+`"}}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "`+string(n)+`"}}}
	}`, "apply", "-f", "-")
	n.deleteAfterwards("queue.scheduler.tensorstack.dev", queue)
	return queue
}

// inQueue returns an operation of a JSON patch that puts examples/pytorch/gang.yaml into a queue.
func inQueue(queue string) string {
	return `{"op": "replace", "path": "/spec/scheduler/t9kScheduler/queue", "value": "` + queue + `"}`
}

// holdsQueue creates a job in the queue. The pods of the job run until they are deleted.
func (n namespace) holdsQueue(ctx context.Context, queue, job string) {
	GinkgoHelper()
	n.applyPatched(ctx, "examples/pytorch/gang.yaml", `[`+inQueue(queue)+`,
		{"op": "add", "path": "/spec/runMode", "value": {}},
		{"op": "add", "path": "/metadata/name", "value": "`+job+`"},
		{"op": "replace", "path": "/spec/replicaSpecs/0/template/spec/containers/0/command", "value": ["sleep", "infinity"]}]`)
}
