package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A PodDisruptionBudget", Label("pytorch", "elastic"), func() {
	DescribeTable("with a number for minAvailable protects the replicas of a job that is not elastic",
		func(ctx context.Context, manifest string) {
			n := newNamespace(ctx)
			n.kubectlWith(ctx, manifest, "apply", "-f", "-")
			n.budget(ctx, "minAvailable: 2")
			n.allowsDisruptions(ctx, 0)
			Expect(n.evict(ctx, "steady-worker-1")).To(MatchError(ContainSubstring("violate the pod's disruption budget")))

			n.kubectl(ctx, "patch", "pdb", "steady", "--type=merge", "-p", `{"spec": {"minAvailable": 1}}`)
			n.allowsDisruptions(ctx, 1)
			Expect(n.evict(ctx, "steady-worker-1")).To(Succeed())
			kind := strings.Fields(manifest)[3]
			Eventually(ctx, n.failures(ctx, kind+"/steady")).
				Should(ConsistOf(HavePrefix("steady-worker-1 Evicted counted=false")))
		},
		Entry("a PyTorchTrainingJob", steady("PyTorchTrainingJob", `
  replicaSpecs:
    - type: worker
      replicas: 2`)),
		Entry("a TensorFlowTrainingJob", steady("TensorFlowTrainingJob", `
  replicaSpecs:
    - type: worker
      replicas: 2`)),
		Entry("a DeepSpeedJob", steady("DeepSpeedJob", `
  config: {customCommand: sleep 3600}
  worker:
      replicas: 2`)),
	)

	It("with maxUnavailable counts the replicas of an elastic job without expectedReplicas, with deploy/scaling",
		func(ctx context.Context) {
			kinds, err := kubectl(ctx, "api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
			Expect(err).NotTo(HaveOccurred())
			if !strings.Contains(kinds, "mutatingadmissionpolicies") {
				Skip("this Kubernetes has no MutatingAdmissionPolicies")
			}
			_, err = kubectl(ctx, "apply", "-k", "deploy/scaling")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx context.Context) {
				_, err := kubectl(ctx, "delete", "-k", "deploy/scaling")
				Expect(err).NotTo(HaveOccurred())
			})
			n := newNamespace(ctx)
			elastic := steady("PyTorchTrainingJob", `
  elastic: {enabled: true, minReplicas: 2, maxReplicas: 3}
  torchrunConfig: {enabled: true, maxRestarts: 3}
  replicaSpecs:
    - type: worker`)
			Eventually(ctx, func() (string, error) { // the API server applies a new policy with a delay
				return kubectlWith(ctx, elastic, "-n", string(n), "apply", "--dry-run=server", "-f", "-",
					"-o", "jsonpath={.spec.elastic.expectedReplicas}")
			}).Should(Equal("2"))
			n.kubectlWith(ctx, elastic, "apply", "-f", "-")
			n.budget(ctx, "maxUnavailable: 1")
			n.allowsDisruptions(ctx, 1)
			Expect(n.evict(ctx, "steady-worker-1")).To(Succeed())

			By("letting a HorizontalPodAutoscaler, which needs the scale subresource, too, set 3 replicas")
			n.kubectlWith(ctx, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: steady
spec:
  scaleTargetRef: {apiVersion: batch.tensorstack.dev/v1beta1, kind: PyTorchTrainingJob, name: steady}
  minReplicas: 3
  maxReplicas: 3
`, "apply", "-f", "-")
			Eventually(ctx, n.output(ctx, "get", "ptjob/steady", "-o", "jsonpath={.spec.elastic.expectedReplicas}")).
				Should(Equal("3"))
			n.allowsDisruptions(ctx, 1)
		})

	It("is used as docs/train/elastic.md shows", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
		n.follow(ctx, "docs/train/elastic.md", "Disruption budgets")
	})
})

// steady returns the manifest of a job of the given kind with the name "steady". Its replicas run until their pods
// are deleted. The parameter spec is the YAML of the job's spec, up to the template of the replicas.
func steady(kind, spec string) string {
	command := "\n              command: [sh, -c, 'sleep 3600']"
	if kind == "DeepSpeedJob" {
		command = "" // a DeepSpeedJob has its command in spec.config
	}
	return fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: %s
metadata:
  name: steady
spec:%s
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: main
              image: tensorstack/pytorch-example:2.6.0%s
`, kind, spec, command)
}

// budget creates the PodDisruptionBudget of the job "steady". The parameter field is one line of the budget's spec,
// for example "maxUnavailable: 1".
func (n namespace) budget(ctx context.Context, field string) {
	GinkgoHelper()
	n.kubectlWith(ctx, fmt.Sprintf(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: steady
spec:
  %s
  selector:
    matchLabels: {batch.tensorstack.dev/job-name: steady}
`, field), "apply", "-f", "-")
}

// allowsDisruptions waits until the status of the PodDisruptionBudget counts 2 or 3 healthy pods, and allows the
// eviction of the given number of pods.
func (n namespace) allowsDisruptions(ctx context.Context, pods int) {
	GinkgoHelper()
	Eventually(ctx, n.output(ctx, "get", "pdb", "steady", "-o",
		`jsonpath={.status.conditions[?(@.type=="DisruptionAllowed")].reason} {.status.disruptionsAllowed} of `+
			`{.status.currentHealthy}`)).Should(MatchRegexp(`^(SufficientPods|InsufficientPods) %d of [23]$`, pods))
}

// evict evicts a pod, as kubectl drain does.
func (n namespace) evict(ctx context.Context, pod string) error {
	eviction := fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q}}`, pod)
	_, err := kubectlWith(ctx, eviction, "create", "--raw",
		fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", n, pod), "-f", "-")
	return err
}
