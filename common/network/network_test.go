package network_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/report"
)

var (
	members    = map[string]string{"job": "a"}
	monitoring = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "monitoring"}}
	owner      = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "owner"}}
)

// spec returns the spec of a NetworkPolicy for the members.
func spec(policies network.Policies) networkingv1.NetworkPolicySpec {
	return network.Ingress(members, networkingv1.NetworkPolicyIngressRule{
		From: policies.Peers(metav1.LabelSelector{MatchLabels: members}),
	})
}

func TestIngress(t *testing.T) {
	t.Parallel()
	ofMembers := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: members}}
	for name, tc := range map[string]struct {
		policies network.Policies
		want     []networkingv1.NetworkPolicyPeer
	}{
		"only members are allowed by default": {want: []networkingv1.NetworkPolicyPeer{ofMembers}},
		"members and allowed namespaces are allowed": {
			policies: network.Policies{AllowedNamespaces: monitoring},
			want:     []networkingv1.NetworkPolicyPeer{ofMembers, {NamespaceSelector: monitoring}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: members},
				PolicyTypes: []networkingv1.PolicyType{"Ingress"},
				Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: tc.want}},
			}
			if diff := cmp.Diff(want, spec(tc.policies)); diff != "" {
				t.Errorf("unexpected spec (-want +got):\n%s", diff)
			}
		})
	}
}

// option modifies a NetworkPolicy.
type option = func(*networkingv1.NetworkPolicy)

// policy returns the NetworkPolicy of the owner.
func policy(options ...option) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", Labels: map[string]string{"ours": "true"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
			},
		},
		Spec: spec(network.Policies{}),
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// opened changes a NetworkPolicy so that it allows all ingress.
func opened(p *networkingv1.NetworkPolicy) {
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	p.Spec.PodSelector.MatchLabels = map[string]string{"other": "pods"}
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// stripped strips a NetworkPolicy as a cache does.
func stripped(p *networkingv1.NetworkPolicy) { network.Strip(p, spec(network.Policies{})) }

func unlabeled(p *networkingv1.NetworkPolicy) { p.Labels = nil }

func annotated(p *networkingv1.NetworkPolicy) { p.Annotations = map[string]string{"note": "of a user"} }

func foreign(p *networkingv1.NetworkPolicy) { p.OwnerReferences = nil }

func TestTheCacheOnlyKeepsTheWantedSpec(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ policy, want *networkingv1.NetworkPolicy }{
		"the wanted spec is kept": {policy(), policy()},
		"a changed spec is removed": {
			policy(opened), policy(func(p *networkingv1.NetworkPolicy) { p.Spec = networkingv1.NetworkPolicySpec{} }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				stripped(tc.policy)
			}
			if diff := cmp.Diff(tc.want, tc.policy); diff != "" {
				t.Errorf("unexpected NetworkPolicy (-want +got):\n%s", diff)
			}
		})
	}
}

// cluster is an API server with a cache. The cache can contain another NetworkPolicy than the API server, or none. The
// cluster records requests to the API server.
type cluster struct {
	client.Client

	cache client.Reader
	calls []string
}

// Get implements client.Reader.
func (c *cluster) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	return c.cache.Get(ctx, key, into, options...)
}

func newCluster(cached, live *networkingv1.NetworkPolicy, rejection error) (*cluster, network.Keeper) {
	c := &cluster{}
	with := func(p *networkingv1.NetworkPolicy) *fake.ClientBuilder {
		b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
		if p != nil {
			b.WithObjects(p.DeepCopy())
		}
		return b
	}
	c.cache = with(cached).Build()
	api := with(live).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, api client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption,
		) error {
			c.calls = append(c.calls, "get")
			return api.Get(ctx, key, into, options...)
		},
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.CreateOption) error {
			c.calls = append(c.calls, "create")
			return errors.Join(rejection, api.Create(ctx, object, options...))
		},
		Patch: func(
			ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			c.calls = append(c.calls, "patch")
			if rejection != nil {
				return rejection
			}
			return api.Patch(ctx, object, patch, options...)
		},
	}).Build()
	c.Client = api
	return c, network.Keeper{Client: c, APIReader: api}
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("no right"))
	for name, tc := range map[string]struct {
		cached, live *networkingv1.NetworkPolicy
		rejection    error                       // the error of the API server for a write
		want         *networkingv1.NetworkPolicy // the NetworkPolicy in the API server after Ensure
		wantCalls    []string
		wantReason   string
	}{
		"a NetworkPolicy with the wanted spec stays": {cached: policy(), live: policy(), want: policy()},
		"a missing NetworkPolicy is created":         {want: policy(), wantCalls: []string{"create"}},
		"a changed NetworkPolicy is restored": {
			cached: policy(opened, stripped), live: policy(opened, annotated), want: policy(annotated),
			wantCalls: []string{"get", "patch"},
		},
		"a NetworkPolicy that is not in the cache yet stays": {
			live: policy(), want: policy(), wantCalls: []string{"create", "get", "get"},
		},
		"a NetworkPolicy that has its former spec in the cache stays": {
			cached: policy(opened, stripped), live: policy(), want: policy(), wantCalls: []string{"get"},
		},
		"a NetworkPolicy whose labels were removed is restored": {
			live: policy(unlabeled, opened), want: policy(), wantCalls: []string{"create", "get", "get", "patch"},
		},
		"a NetworkPolicy that the owner does not control stays": {
			live: policy(foreign, opened), want: policy(foreign, opened),
			wantCalls: []string{"create", "get"}, wantReason: "NameConflict",
		},
		"a NetworkPolicy that replaced the owner's stays": {
			cached: policy(opened, stripped), live: policy(foreign, opened), want: policy(foreign, opened),
			wantCalls: []string{"get"}, wantReason: "NameConflict",
		},
		"a missing permission to patch is reported": {
			cached: policy(opened, stripped), live: policy(opened), rejection: forbidden, want: policy(opened),
			wantCalls: []string{"get", "patch"}, wantReason: "UpdateFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, keeper := newCluster(tc.cached, tc.live, tc.rejection)
			err := keeper.Ensure(t.Context(), owner, "the job", policy())
			if diff := cmp.Diff(tc.wantCalls, c.calls); diff != "" {
				t.Errorf("unexpected requests (-want +got):\n%s", diff)
			}
			reason := ""
			if refused, ok := errors.AsType[*report.RefusedError](err); ok {
				reason = refused.Reason
			}
			if reason != tc.wantReason || (err != nil) != (tc.wantReason != "") {
				t.Errorf("the error is %v, want the reason %q", err, tc.wantReason)
			}
			got := &networkingv1.NetworkPolicy{}
			if err := keeper.APIReader.Get(t.Context(), client.ObjectKeyFromObject(policy()), got); err != nil {
				t.Fatal(err)
			}
			got.ResourceVersion = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected NetworkPolicy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cached *networkingv1.NetworkPolicy
		want   bool
	}{
		"the cache has the NetworkPolicy with the wanted spec":           {policy(), true},
		"the cache does not have a NetworkPolicy":                        {nil, false},
		"a NetworkPolicy with another spec does not count":               {policy(opened, stripped), false},
		"a NetworkPolicy that the owner does not control does not count": {policy(foreign), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, keeper := newCluster(tc.cached, nil, nil)
			if got, err := keeper.Has(t.Context(), owner, policy()); got != tc.want || err != nil {
				t.Errorf("Has returned %t, %v; want %t, nil", got, err, tc.want)
			}
		})
	}
}

func TestControllerPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		namespace string
		want      *networkingv1.NetworkPolicyPeer
	}{
		"outside of a cluster, nobody knows the pods of the controller": {},
		"the controller is selected by its namespace and its name": {
			namespace: "tensorstack",
			want: &networkingv1.NetworkPolicyPeer{
				NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{"kubernetes.io/metadata.name": "tensorstack"},
				},
				PodSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{"app.kubernetes.io/name": "test-controller"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, network.ControllerPods(tc.namespace, "test-controller")); diff != "" {
				t.Errorf("unexpected peer (-want +got):\n%s", diff)
			}
		})
	}
}
