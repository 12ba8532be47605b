package tenants

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/simulated"
)

// A tenant who makes a controller act in the namespace of another tenant gets at most the permissions of the
// controller.
var _ = Describe("The permissions of a controller", Label("rights"), func() {
	forEach("include private data of tenants and privilege escalation only if the controller needs them:",
		func(ctx context.Context, s service) {
			c := start(ctx, s.module)
			var want []string
			for right, controllers := range needed {
				if slices.Contains(controllers, s.module) {
					want = append(want, right)
				}
			}
			Expect(want).NotTo(BeEmpty())
			Eventually(ctx, func() ([]string, error) { return c.dangerousOf(ctx, s) }).Should(ConsistOf(want))
		})

	It("would include private data and privilege escalation if its role granted them", Label("tensorboard"),
		func(ctx context.Context) {
			c := start(ctx, tensorboard.module)
			role := &rbacv1.ClusterRole{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Name: "tensorstack-tensorboard-controller"}, role)).To(Succeed())
			var all []string
			for _, of := range dangerous {
				role.Rules = append(role.Rules, rbacv1.PolicyRule{
					Verbs: of.verbs, APIGroups: []string{of.group}, Resources: []string{of.resource},
				})
				all = append(all, of.rights()...)
			}
			Expect(c.Client.Update(ctx, role)).To(Succeed())
			Eventually(ctx, func() ([]string, error) { return c.dangerousOf(ctx, tensorboard) }).Should(ConsistOf(all))
		})

	// RBAC grants a permission for all objects of a resource. Admission policies limit the permission to some objects.
	forEach("cannot be used for objects that the controller does not need:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		if s.module != scheduler.module {
			c.addComponent(ctx, s, "networkpolicies")
		}
		objects := c.createOfVictim(ctx)
		stolen := client.NewDryRunClient(c.as(c.kubeconfigOf(s)))
		var attempts []string
		for _, right := range c.writesOf(ctx, s) {
			if slices.ContainsFunc(unconfined, func(part string) bool { return strings.Contains(right, part) }) {
				continue
			}
			attempts = append(attempts, right)
			Eventually(ctx, func() error { return use(ctx, stolen, right, objects) }).
				Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")), right)
		}
		Expect(attempts).NotTo(BeEmpty())

		By("removing the policies")
		c.kubectl(ctx, "delete", "validatingadmissionpolicybindings", "--all")
		for _, right := range attempts {
			Eventually(ctx, func() error { return use(ctx, stolen, right, objects) }).Should(Succeed(), right)
		}
	})
})

// unconfined are parts of the names of permissions. No policy limits a permission with such a part in its name. The
// thief of a token can use these permissions to show false information about objects of the controller.
var unconfined = []string{"/status.", "/finalizers.", " events."}

// writesOf returns the permissions that a controller has in all namespaces, except those that only read. An example
// of a permission is "create podgroups.scheduler.tensorstack.dev".
func (c *cluster) writesOf(ctx context.Context, s service) []string {
	GinkgoHelper()
	var bindings rbacv1.ClusterRoleBindingList
	Expect(c.Client.List(ctx, &bindings)).To(Succeed())
	var rights []string
	for _, binding := range bindings.Items {
		if !slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
			return subject.Kind == rbacv1.ServiceAccountKind && subject.Name == s.module+"-controller"
		}) {
			continue
		}
		role := &rbacv1.ClusterRole{}
		Expect(c.Client.Get(ctx, client.ObjectKey{Name: binding.RoleRef.Name}, role)).To(Succeed())
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb) {
							rights = append(rights, verb+" "+strings.TrimSuffix(resource+"."+group, "."))
						}
					}
				}
			}
		}
	}
	return rights
}

// use tries to use the permission right on the victim's object of the resource. If the verb is create, it creates a
// copy of the object with another name. The client must make only dry runs. If objects has no object of the resource,
// the result is an error that stops Eventually.
func use(ctx context.Context, as client.Client, right string, objects map[string]client.Object) error {
	verb, resource, _ := strings.Cut(right, " ")
	object := objects[resource]
	if object == nil {
		return StopTrying("no object of the victim for the permission to " + right)
	}
	object = object.DeepCopyObject().(client.Object)
	switch verb {
	case "create":
		object.SetName("copy-of-" + object.GetName())
		object.SetResourceVersion("")
		return as.Create(ctx, object)
	case "patch":
		return as.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"stolen":""}}}`)))
	case "delete":
		return as.Delete(ctx, object)
	}
	return StopTrying("cannot try to " + right)
}

// createOfVictim creates one object of the victim for each kind that a controller writes. It returns the objects by
// resource.
func (c *cluster) createOfVictim(ctx context.Context) map[string]client.Object {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: victim, Name: "precious"}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: plain().Spec}
	headless := corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}
	objects := map[string]client.Object{
		"pods":                              pod,
		"services":                          &corev1.Service{ObjectMeta: meta, Spec: headless},
		"secrets":                           &corev1.Secret{ObjectMeta: meta},
		"networkpolicies.networking.k8s.io": &networkingv1.NetworkPolicy{ObjectMeta: meta},
		"priorityclasses.scheduling.k8s.io": &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: "precious"}, Value: 1,
		},
		"tensorboards.tensorstack.dev":        tensorboard.board("precious", true),
		"podgroups.scheduler.tensorstack.dev": scheduler.group("precious", "of-nobody"),
	}
	if c.Kind == simulated.Native {
		objects["podgroups.scheduling.k8s.io"] = &schedulingv1beta1.PodGroup{
			ObjectMeta: meta, Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1},
				},
			},
		}
	}
	for _, s := range []service{pytorch, tensorflow, deepspeed} {
		job := s.job("precious", 1, plain())
		objects[strings.ToLower(s.kind.Kind)+"s."+s.kind.Group] = job
	}
	for resource, object := range objects {
		object.SetNamespace(meta.Namespace)
		Expect(c.Client.Create(ctx, object)).To(Succeed(), resource)
	}
	return objects
}

// permissions are verbs for a resource or a subresource.
type permissions struct {
	group, resource string
	verbs           []string
}

// rights returns the names of the permissions, such as "create pods/exec".
func (p permissions) rights() []string {
	var names []string
	for _, verb := range p.verbs {
		names = append(names, verb+" "+p.resource)
	}
	return names
}

// dangerous are the permissions to read or change private data of a tenant, and the permissions that Kubernetes lists
// as risks of privilege escalation: https://kubernetes.io/docs/concepts/security/rbac-good-practices/. The kinds of
// this project are among the workloads, because their controllers create pods.
var dangerous = []permissions{
	{"", "secrets", []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}},
	{"", "configmaps", []string{"get", "list", "watch", "update", "patch"}},
	{"", "pods/log", []string{"get"}},
	{"", "pods/exec", []string{"get", "create"}},
	{"", "pods/attach", []string{"get", "create"}},
	{"", "pods/portforward", []string{"get", "create"}},
	{"", "pods/ephemeralcontainers", []string{"create", "update", "patch"}},
	// workloads
	{"", "pods", []string{"create", "update", "patch"}},
	{"", "replicationcontrollers", []string{"create", "update", "patch"}},
	{"apps", "deployments", []string{"create", "update", "patch"}},
	{"apps", "replicasets", []string{"create", "update", "patch"}},
	{"apps", "statefulsets", []string{"create", "update", "patch"}},
	{"apps", "daemonsets", []string{"create", "update", "patch"}},
	{"batch", "jobs", []string{"create", "update", "patch"}},
	{"batch", "cronjobs", []string{"create", "update", "patch"}},
	{"batch.tensorstack.dev", "pytorchtrainingjobs", []string{"create", "update", "patch"}},
	{"batch.tensorstack.dev", "tensorflowtrainingjobs", []string{"create", "update", "patch"}},
	{"batch.tensorstack.dev", "deepspeedjobs", []string{"create", "update", "patch"}},
	{"tensorstack.dev", "tensorboards", []string{"create", "update", "patch"}},
	// nodes and volumes
	{"", "nodes/proxy", []string{"get", "create"}},
	{"", "persistentvolumes", []string{"create", "update", "patch"}},
	// identities and roles
	{"", "serviceaccounts/token", []string{"create"}},
	{"", "serviceaccounts", []string{"impersonate"}},
	{"", "users", []string{"impersonate"}},
	{"", "groups", []string{"impersonate"}},
	{rbacv1.GroupName, "roles", []string{"create", "update", "patch", "escalate", "bind"}},
	{rbacv1.GroupName, "clusterroles", []string{"create", "update", "patch", "escalate", "bind"}},
	{rbacv1.GroupName, "rolebindings", []string{"create", "update", "patch"}},
	{rbacv1.GroupName, "clusterrolebindings", []string{"create", "update", "patch"}},
	{certificatesv1.GroupName, "certificatesigningrequests", []string{"create"}},
	{certificatesv1.GroupName, "certificatesigningrequests/approval", []string{"update", "patch"}},
	{certificatesv1.GroupName, "signers", []string{"approve", "sign"}},
	// admission, and the labels for Pod Security
	{admissionregistrationv1.GroupName, "mutatingwebhookconfigurations", []string{"create", "update", "patch"}},
	{admissionregistrationv1.GroupName, "validatingwebhookconfigurations", []string{"create", "update", "patch"}},
	{"", "namespaces", []string{"update", "patch"}},
}

// needed maps the dangerous permissions that controllers have to these controllers. docs/contribute/threat-model.md
// describes how admission policies limit these permissions, and what is left to somebody with a token.
var needed = map[string][]string{
	// The controllers create the pods of jobs and TensorBoards.
	"create pods": {"pytorch", "tensorflow", "deepspeed", "tensorboard"},
	// The job controllers remove the finalizer of leaders, and the scheduler-controller releases pods from their queues.
	"patch pods": {"pytorch", "tensorflow", "deepspeed", "scheduler"},
	// A job can have a TensorBoard.
	"create tensorboards": {"pytorch", "tensorflow"},
	// The job controllers change the TensorBoards of jobs, and the tensorboard-controller suspends TensorBoards.
	"patch tensorboards": {"pytorch", "tensorflow", "tensorboard"},
	// The pods of a DeepSpeedJob have ssh keys.
	"create secrets": {"deepspeed"},
	"delete secrets": {"deepspeed"},
	// The pytorch-controller reads the cause of a failure of torchrun.
	"get pods/log": {"pytorch"},
}

// dangerousOf returns the dangerous permissions that a controller has in the namespace of the victim or in the whole
// cluster.
func (c *cluster) dangerousOf(ctx context.Context, s service) ([]string, error) {
	namespace := "t9k-" + s.module
	var names []string
	for _, of := range dangerous {
		resource, subresource, _ := strings.Cut(of.resource, "/")
		for i, verb := range of.verbs {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   fmt.Sprintf("system:serviceaccount:%s:%s-controller", namespace, s.module),
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
				// In RBAC, a permission for the whole cluster is a permission for each namespace.
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: victim, Verb: verb, Group: of.group, Resource: resource, Subresource: subresource,
				},
			}}
			if err := c.Client.Create(ctx, review); err != nil {
				return nil, err
			}
			if review.Status.Allowed {
				names = append(names, of.rights()[i])
			}
		}
	}
	return names, nil
}
