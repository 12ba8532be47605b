package tenants

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
})

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
