package tenants

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// underWay is the number of pods that the attacker must have before the victim creates its job.
const underWay = 100

var _ = Describe("A large job of one tenant", Label("jobs"), func() {
	forEachJob("with excessively long lists is rejected or does not harm others:", func(ctx context.Context, s service) {
		c := runController(ctx, s)
		c.works(ctx, s, "before")
		template := plain()
		for range 12_000 {
			template.Spec.Tolerations = append(template.Spec.Tolerations,
				corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists})
		}
		if err := create(ctx, c.attacker, attacker, s.job("large", 1000, template)); err != nil {
			Expect(err).To(MatchError(And(ContainSubstring("template.spec.tolerations"), ContainSubstring("at most"))))
			return
		}
		c.worksDuring(ctx, s)
	})

	forEachJob("with the largest possible size does not harm others:", func(ctx context.Context, s service) {
		c := runController(ctx, s)
		c.works(ctx, s, "before")
		c.createLargeJobs(ctx, s, 1, 2000)
		c.worksDuring(ctx, s)
	})

	It("with many containers and variables does not harm others", Label("pytorch"), func(ctx context.Context) {
		c := runController(ctx, pytorch)
		c.works(ctx, pytorch, "before")
		Expect(create(ctx, c.attacker, attacker, pytorch.job("parts", 500, manyParts()))).To(Succeed())
		c.worksDuring(ctx, pytorch)
	})

	forEachJob("does not harm others if there are twenty such jobs:", func(ctx context.Context, s service) {
		c := runController(ctx, s)
		c.works(ctx, s, "before")
		c.createLargeJobs(ctx, s, 20, 1000)
		c.worksDuring(ctx, s)
	})
})

// createLargeJobs creates jobs of the attacker with the largest possible size.
func (c *cluster) createLargeJobs(ctx context.Context, s service, jobs int, replicas int64) {
	GinkgoHelper()
	c.inParallel(jobs, func(i int) error {
		return create(ctx, c.attacker, attacker, s.job(fmt.Sprintf("large-%d", i), replicas, largest()))
	})
}

// worksDuring waits until the attacker has many pods, and then checks that the controller works for the victim. It
// stops early if a controller is harmed.
func (c *cluster) worksDuring(ctx context.Context, s service) {
	GinkgoHelper()
	attack := func() (int, error) { return c.count(ctx, attacker, s) }
	Eventually(ctx, attack).WithTimeout(5 * bound).Should(BeNumerically(">=", underWay))
	c.works(ctx, s, "after")
	c.expectUnharmed()
}

// count returns the number of pods that the jobs of a kind have in a namespace.
func (c *cluster) count(ctx context.Context, namespace string, s service) (int, error) {
	jobs, err := c.jobsWithPods(ctx, namespace, s)
	pods := 0
	for _, n := range jobs {
		pods += n
	}
	return pods, err
}

// jobsWithPods returns the number of pods of each job of a kind in a namespace. Jobs without pods are left out.
func (c *cluster) jobsWithPods(ctx context.Context, namespace string, s service) (map[string]int, error) {
	list := metadataOf("Pod")
	err := c.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(s.labels))
	jobs := map[string]int{}
	for i := range list.Items {
		jobs[list.Items[i].Labels[batchv1beta1.LabelJobName]]++
	}
	return jobs, c.unless(err)
}

// manyParts returns a template that takes about three times as much memory as its JSON. It has 32 containers, each with
// the maximum number of environment variables.
func manyParts() corev1.PodTemplateSpec {
	template := plain()
	main := template.Spec.Containers[0]
	for i := range 1024 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i)})
	}
	template.Spec.Containers = nil
	for i := range 32 {
		main.Name = fmt.Sprintf("c%d", i)
		template.Spec.Containers = append(template.Spec.Containers, main)
	}
	return template
}

// largest returns a template with 1 MiB of environment variables. A job with this template is almost as large as the
// API server and etcd allow.
func largest() corev1.PodTemplateSpec {
	template := plain()
	main := &template.Spec.Containers[0]
	for i := range 64 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("LARGE_%d", i), Value: strings.Repeat("x", 16<<10)})
	}
	return template
}
