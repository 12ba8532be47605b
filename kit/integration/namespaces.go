package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// labelUsers is the label of a namespace in which containers can have only certain user IDs.
const labelUsers = "test.tensorstack.dev/users"

// small has the fields of a main container for a namespace with rules. The container requests few resources, and meets
// the restricted Pod Security Standard.
const small = `
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  runAsNonRoot: true
  seccompProfile: {type: RuntimeDefault}
resources:
  requests: {cpu: 50m, memory: 32Mi}
  limits: {cpu: 50m, memory: 32Mi}
`

// NamespaceSpecs defines the specs of jobs in namespaces with rules. If the rules accept the main container of each
// replica, they must also accept the containers that the controller adds. The only exception is a sidecar that is too
// small for a rule. The specs apply the merge patch to the valid job, and the result must have two replicas. The
// Ginkgo container must be Ordered, because the specs use BeforeAll.
func (c *Cluster[J]) NamespaceSpecs(patch string) {
	BeforeAll(func(ctx context.Context) { c.restrictUsers(ctx) })

	// The function create creates a job in a new namespace with a rule. The YAML in the parameter main is merged into
	// the main containers.
	create := func(ctx context.Context, rule namespaceRule, main string, patches ...string) J {
		GinkgoHelper()
		manifest, job := c.Manifest(c.ruledBy(ctx, rule), append(patches, patch)...), c.Controller.Framework.NewJob()
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, job)).To(Succeed())
		for _, role := range c.Controller.Framework.JobSpec(job).Roles {
			Expect(yaml.Unmarshal([]byte(main), &role.Template.Spec.Containers[0])).To(Succeed())
		}
		Expect(c.Client.Create(ctx, job)).To(Succeed())
		return job
	}

	DescribeTable("creates all of its pods", func(ctx context.Context, rule namespaceRule, main string) {
		Eventually(ctx, c.Pods(ctx, create(ctx, rule, main))).Should(HaveLen(2))
	},
		Entry("where containers have a minimum", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, Min: quantities("200m", "128Mi"),
		}), "resources: {requests: {cpu: 200m, memory: 128Mi}, limits: {cpu: 1, memory: 1Gi}}"),
		Entry("where containers have a minimum of one CPU", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, Min: quantities("1", "1Gi"),
		}), "resources: {limits: {cpu: 1, memory: 1Gi}}"),
		Entry("where containers have a maximum", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, Max: quantities("50m", "32Mi"),
		}), small),
		Entry("where pods have a maximum", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypePod, Max: quantities("50m", "32Mi"),
		}), small),
		Entry("where pods have a minimum", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypePod, Min: quantities("50m", "32Mi"),
		}), small),
		Entry("where limits are at most twice the requests", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, MaxLimitRequestRatio: quantities("2", "2"),
		}), "resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 100m, memory: 64Mi}}"),
		Entry("where limits are at most twice the requests, of ephemeral storage, too", limits(corev1.LimitRangeItem{
			Type:                 corev1.LimitTypeContainer,
			MaxLimitRequestRatio: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2")},
		}), "resources: {limits: {ephemeral-storage: 1Gi}}"),
		Entry("where containers have defaults", limits(corev1.LimitRangeItem{
			Type: corev1.LimitTypeContainer, Min: quantities("1", "1Gi"), Max: quantities("2", "2Gi"),
			DefaultRequest: quantities("1", "1Gi"), Default: quantities("1", "1Gi"),
		}), "{}"),
		Entry("where the restricted Pod Security Standard is enforced", namespaceRule{
			labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}, small),
		Entry("where users are chosen from a range", usersInRange, small),
		Entry("where a quota has room only for the main containers", namespaceRule{quota: quantities("100m", "64Mi")}, small),
	)

	const reports = "spec: {progress: {enabled: true}}"

	It("creates all of its pods where a quota has room for them and their sidecars", func(ctx context.Context) {
		job := create(ctx, namespaceRule{quota: quantities("500m", "1Gi")}, small, reports)
		Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(2))
	})

	minimum := limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: quantities("200m", "128Mi")})

	It("names its sidecar and what to do if the sidecar is refused", func(ctx context.Context) {
		job := create(ctx, minimum, "resources: {limits: {cpu: 200m, memory: 128Mi}}", reports)
		Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonCreateFailed))
		Expect(Condition(job, batchv1beta1.ConditionInitialized).Message).To(And(
			ContainSubstring("minimum cpu usage per Container is 200m, but request is 100m"),
			ContainSubstring(`the API server accepts the pod without its container "progress", which the controller adds: `),
			HaveSuffix("or change its CPU and memory by --helper-resources of the controller; without "+
				"spec.progress.enabled, the job needs no such container"),
		))
	})

	It("names no container of the controller if the main container is refused", func(ctx context.Context) {
		job := create(ctx, minimum, small, reports)
		Eventually(ctx, c.reason(ctx, job)).Should(Equal(batchv1beta1.ReasonCreateFailed))
		Expect(Condition(job, batchv1beta1.ConditionInitialized).Message).To(And(
			ContainSubstring("minimum cpu usage per Container is 200m, but request is 50m"),
			Not(ContainSubstring("which the controller adds")),
		))
	})
}

// namespaceRule is a rule of a namespace about its pods.
type namespaceRule struct {
	labels map[string]string
	limits []corev1.LimitRangeItem
	// quota limits the sum of the requests and the sum of the limits of all containers. With a quota, each container
	// needs a request and a limit.
	quota corev1.ResourceList
}

// limits returns the rule of a namespace that has a LimitRange with the items.
func limits(items ...corev1.LimitRangeItem) namespaceRule { return namespaceRule{limits: items} }

// usersInRange is the rule of a namespace in which another program chooses the user IDs of containers, as OpenShift
// does.
var usersInRange = namespaceRule{labels: map[string]string{labelUsers: "true"}}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

// ruledBy creates a namespace with a rule, and returns its name.
func (c *Cluster[J]) ruledBy(ctx context.Context, rule namespaceRule) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: rule.labels}}
	Expect(c.Client.Create(ctx, namespace)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: namespace.Name, Name: "rule"}
	if rule.limits != nil {
		Expect(c.Client.Create(ctx, &corev1.LimitRange{
			ObjectMeta: meta, Spec: corev1.LimitRangeSpec{Limits: rule.limits},
		})).To(Succeed())
	}
	if rule.quota != nil {
		hard, used := corev1.ResourceList{}, corev1.ResourceList{}
		for name, quantity := range rule.quota {
			hard["requests."+name], hard["limits."+name] = quantity, quantity
			used["requests."+name], used["limits."+name] = resource.MustParse("0"), resource.MustParse("0")
		}
		quota := &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		Expect(c.Client.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard, quota.Status.Used = hard, used // as the controller-manager does
		Expect(c.Client.Status().Update(ctx, quota)).To(Succeed())
	}
	return namespace.Name
}

// restrictUsers makes the API server reject a pod in a namespace with labelUsers if a container sets a user ID below
// 1000840000.
func (c *Cluster[J]) restrictUsers(ctx context.Context) {
	GinkgoHelper()
	name := metav1.ObjectMeta{Name: "users-in-range"}
	Expect(c.Client.Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: usersInRange.labels},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
					},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "(object.spec.containers + " +
				"object.spec.?initContainers.orValue([])).all(c, !has(c.securityContext) || " +
				"!has(c.securityContext.runAsUser) || c.securityContext.runAsUser >= 1000840000)"}},
		},
	})).To(Succeed())
	Expect(c.Client.Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	})).To(Succeed())
	namespace := c.ruledBy(ctx, usersInRange)
	Eventually(ctx, func() bool { // the API server applies a new policy with a delay
		return apierrors.IsInvalid(c.Client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fixed-user"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "training", SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(65532))},
			}}},
		}, client.DryRunAll))
	}).Should(BeTrue())
}
