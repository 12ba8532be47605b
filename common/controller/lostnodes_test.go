package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/policy"
)

func TestANodeIsLostOnlyIfItDoesNotRespond(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node", errors.New("no permission"))
	evicted := pod("job-worker-0", running)
	kubelet.LoseNode(evicted, time.Now())
	evicted.Spec.NodeName = "node"
	unbound := evicted.DeepCopy()
	unbound.Spec.NodeName = ""
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		taint   string // empty means that the node has none
		answer  error
		want    string
		wantErr error
	}{
		"a pod on an unreachable node is of a lost node": {
			pod: evicted, taint: corev1.TaintNodeUnreachable, want: "NodeLost",
		},
		"a pod that another taint evicts is evicted":       {pod: evicted, taint: "maintenance", want: "Evicted"},
		"a pod whose node has no taint anymore is evicted": {pod: evicted, want: "Evicted"},
		"a pod whose node is gone is of a lost node": {
			pod: evicted, answer: apierrors.NewNotFound(schema.GroupResource{}, "node"), want: "NodeLost",
		},
		"without the permission, the node counts as lost": {pod: evicted, answer: forbidden, want: "NodeLost"},
		"an error is returned":                            {pod: evicted, answer: down, want: "NodeLost", wantErr: down},
		"no node is read for a pod that has none":         {pod: unbound, answer: down, want: "NodeLost"},
		"no node is read for a pod that runs":             {pod: pod("job-worker-0", running), answer: down},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
			if tc.taint != "" {
				node.Spec.Taints = []corev1.Taint{{Key: tc.taint, Effect: corev1.TaintEffectNoExecute}}
			}
			api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
					options ...client.GetOption,
				) error {
					if tc.answer != nil {
						return tc.answer
					}
					return c.Get(ctx, key, object, options...)
				},
			}).Build()
			r := &Reconciler[framework.Job]{cluster: Cluster{APIReader: api}}
			pods := map[string]*corev1.Pod{"job-worker-0": tc.pod}
			err := r.observeNodes(t.Context(), pods)
			diff(t, "error", true, errors.Is(err, tc.wantErr))
			diff(t, "disruption", tc.want, policy.Disruption(pods["job-worker-0"]))
		})
	}
}
