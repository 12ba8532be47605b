package kueue

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// defaultQueue is the LocalQueue that Kueue uses for all objects in its namespace that name no queue.
const defaultQueue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: default, namespace: default}
spec: {clusterQueue: team}
`

// withoutOurKinds is the configuration of Kueue without the job kinds of this repository.
var withoutOurKinds, _, _ = strings.Cut(configuration, "  externalFrameworks:")

// Each spec leaves out one part of the installation, and shows the problem that follows.
var _ = Describe("Without a part of the installation", func() {
	It("jobs exceed the quota, if they have no label", func(ctx context.Context) {
		c := start(ctx, configuration, "8")
		c.apply(ctx, queues)
		for _, name := range []string{"first", "second"} {
			c.apply(ctx, fmt.Sprintf(kinds[pytorch], name, ""))
		}
		for _, name := range []string{"first", "second"} {
			Eventually(ctx, job{cluster: c, kind: pytorch, name: name}.state(ctx)).Should(Equal("Running"))
		}
	})

	DescribeTable("with a default queue, whether Kueue leaves the pods of an admitted job to us",
		func(ctx context.Context, config string, runs bool) {
			c := start(ctx, config, "8")
			c.apply(ctx, queues+"---"+defaultQueue)
			j := c.job(ctx, pytorch, "job")
			if runs {
				Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
				return
			}
			// Kueue also queues each pod by itself. It does not admit these pods, because the job already uses the whole
			// quota.
			Eventually(ctx, func(g Gomega) {
				pods, err := j.pods(ctx)()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(pods).To(HaveLen(2))
				for _, pod := range pods {
					g.Expect(pod.Spec.SchedulingGates).To(ContainElement(corev1.PodSchedulingGate{Name: "kueue.x-k8s.io/admission"}))
				}
			}).Should(Succeed())
		},
		Entry("with our kinds in externalFrameworks", configuration, true),
		Entry("without", withoutOurKinds, false),
	)
})
