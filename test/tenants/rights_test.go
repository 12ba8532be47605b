package tenants

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
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
	forEach("do not include private data of tenants or privilege escalation:", func(ctx context.Context, s service) {
		c := start(ctx, s.module)
		for _, right := range hidden {
			// The pytorch-controller reads the logs of failed pods.
			readsOutput := right.Subresource == "log" && s.module == pytorch.module
			Expect(c.mayInVictim(ctx, s, right)).To(Equal(readsOutput), "%+v", right)
		}
	})

	It("would include private data and privilege escalation if its role granted them", Label("tensorboard"),
		func(ctx context.Context) {
			c := start(ctx, tensorboard.module)
			role := &rbacv1.ClusterRole{}
			Expect(c.Client.Get(ctx, client.ObjectKey{Name: "tensorstack-tensorboard-controller"}, role)).To(Succeed())
			for _, right := range hidden {
				resource := right.Resource
				if right.Subresource != "" {
					resource += "/" + right.Subresource
				}
				role.Rules = append(role.Rules, rbacv1.PolicyRule{
					Verbs: []string{right.Verb}, APIGroups: []string{right.Group}, Resources: []string{resource},
				})
			}
			Expect(c.Client.Update(ctx, role)).To(Succeed())
			for _, right := range hidden {
				Eventually(ctx, func() (bool, error) { return c.mayInVictim(ctx, tensorboard, right) }).
					Should(BeTrue(), "%+v", right)
			}
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

// hidden are permissions to read private data of a tenant or to escalate privileges.
var hidden = []authorizationv1.ResourceAttributes{
	{Verb: "get", Resource: "secrets"},
	{Verb: "list", Resource: "secrets"},
	{Verb: "watch", Resource: "secrets"},
	{Verb: "patch", Resource: "secrets"},
	{Verb: "get", Resource: "configmaps"},
	{Verb: "list", Resource: "configmaps"},
	{Verb: "patch", Resource: "configmaps"},
	{Verb: "get", Resource: "pods", Subresource: "log"},
	{Verb: "create", Resource: "pods", Subresource: "exec"},
	{Verb: "create", Resource: "pods", Subresource: "ephemeralcontainers"},
	{Verb: "create", Resource: "serviceaccounts", Subresource: "token"},
	{Verb: "impersonate", Resource: "serviceaccounts"},
	{Verb: "create", Group: rbacv1.GroupName, Resource: "rolebindings"},
	{Verb: "escalate", Group: rbacv1.GroupName, Resource: "roles"},
}

// mayInVictim reports whether a controller has a permission in the namespace of the victim.
func (c *cluster) mayInVictim(ctx context.Context, s service, right authorizationv1.ResourceAttributes) (bool, error) {
	right.Namespace = victim
	namespace := "t9k-" + s.module
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               fmt.Sprintf("system:serviceaccount:%s:%s-controller", namespace, s.module),
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &right,
	}}
	err := c.Client.Create(ctx, review)
	return review.Status.Allowed, err
}
