package suite

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ExpectTypedUpdate expects that an object can be updated as a Go program does that reads all of it: that nothing
// changes if the program changes nothing, and that its change is taken.
func ExpectTypedUpdate[T client.Object](ctx context.Context, c client.Client, object T, change func(T)) {
	GinkgoHelper()
	update := func(change func(T)) {
		GinkgoHelper()
		Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			change(object)
			return c.Update(ctx, object)
		})).To(Succeed())
	}
	gvk, err := c.GroupVersionKindFor(object)
	Expect(err).NotTo(HaveOccurred())
	read := func() (spec any, generation int64) {
		GinkgoHelper()
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(gvk)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), stored)).To(Succeed())
		return stored.Object["spec"], stored.GetGeneration()
	}
	before, first := read()
	update(func(T) {})
	after, generation := read()
	Expect(after).To(Equal(before))
	Expect(generation).To(Equal(first))
	update(change)
	_, generation = read()
	Expect(generation).To(Equal(first+1), "the change is taken")
}
