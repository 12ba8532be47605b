package bounded

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOwner(t *testing.T) {
	t.Parallel()
	job := func(change func(*metav1.OwnerReference)) *metav1.OwnerReference {
		owner := &metav1.OwnerReference{
			APIVersion: "batch.tensorstack.dev/v1beta1", Kind: "TestJob", Name: "job", UID: "job-uid", Controller: new(true),
		}
		change(owner)
		return owner
	}
	long := strings.Repeat("a", 600)
	for name, tc := range map[string]struct {
		owner  *metav1.OwnerReference
		isKept bool
	}{
		"a job":                          {job(func(*metav1.OwnerReference) {}), true},
		"a job with the longest name":    {job(func(o *metav1.OwnerReference) { o.Name = long[:253] }), true},
		"an owner that does not control": {job(func(o *metav1.OwnerReference) { o.Controller = nil }), false},
		"a long version":                 {job(func(o *metav1.OwnerReference) { o.APIVersion = long }), false},
		"a long kind":                    {job(func(o *metav1.OwnerReference) { o.Kind = long }), false},
		"a long name":                    {job(func(o *metav1.OwnerReference) { o.Name = long }), false},
		"a long UID":                     {job(func(o *metav1.OwnerReference) { o.UID = types.UID(long) }), false},
		"a name that leaves the path":    {job(func(o *metav1.OwnerReference) { o.Name = "../../openapi/v2" }), false},
		"a name with a query":            {job(func(o *metav1.OwnerReference) { o.Name = "job?watch=true" }), false},
		"no name":                        {job(func(o *metav1.OwnerReference) { o.Name = "" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := tc.owner
			if !tc.isKept {
				want = nil
			}
			got := Owner(&metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
				{Kind: "ConfigMap", Name: "other"}, *tc.owner,
			}})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected owner (-want +got):\n%s", diff)
			}
		})
	}
}
