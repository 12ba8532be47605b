package suite

import (
	"context"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ExpectTypedUpdate checks that a Go program can read an object into its Go type and write the object back. An update
// without a change must not change the spec, and an update with a change must take effect.
func ExpectTypedUpdate[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) {
	ginkgo.GinkgoHelper()
	update := func(change func(T)) {
		ginkgo.GinkgoHelper()
		gomega.Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			change(object)
			return c.Update(ctx, object)
		})).To(gomega.Succeed())
	}
	gvk, err := c.GroupVersionKindFor(object)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	read := func() (spec any, generation int64) {
		ginkgo.GinkgoHelper()
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(gvk)
		gomega.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), stored)).To(gomega.Succeed())
		return stored.Object["spec"], stored.GetGeneration()
	}
	before, first := read()
	update(func(T) {})
	after, generation := read()
	gomega.Expect(after).To(gomega.Equal(before))
	gomega.Expect(generation).To(gomega.Equal(first))
	update(change)
	_, generation = read()
	gomega.Expect(generation).To(gomega.Equal(first+1), "the generation after the update with a change")
}
