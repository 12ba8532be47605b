package installed

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTagOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ image, want string }{
		"an image has its tag":                     {"tensorstack/pytorch-controller:v0.1.0", "v0.1.0"},
		"a port of a registry is no tag":           {"registry.example.com:5000/pytorch-controller", ""},
		"an image has a tag in a registry":         {"registry.example.com:5000/pytorch-controller:v0.1.0", "v0.1.0"},
		"an image can have a tag and a digest":     {"pytorch-controller:v0.1.0@sha256:62a25fdd", "v0.1.0"},
		"an image with only a digest has no tag":   {"pytorch-controller@sha256:62a25fdd", ""},
		"an image without a tag has none":          {"tensorstack/pytorch-controller", ""},
		"a tag with an escape sequence is ignored": {"pytorch-controller:v0.1.0\x1b[31m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tagOf(tc.image)); diff != "" {
				t.Errorf("unexpected tag (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequiredVersion(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "tensorstack.dev/jobs/common", Version: "(devel)"},
		{
			Path: "tensorstack.dev/jobs/pytorch", Version: "v0.1.0",
			Replace: &debug.Module{Path: "../pytorch", Version: "(devel)"},
		},
	}}
	for name, tc := range map[string]struct{ module, want string }{
		"a release has the versions that its go.mod requires":       {"pytorch", "v0.1.0"},
		"a build of a working copy has no versions":                 {"common", ""},
		"a module that the program does not contain has no version": {"tensorboard", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, requiredVersion(info, tc.module)); diff != "" {
				t.Errorf("unexpected version (-want +got):\n%s", diff)
			}
		})
	}
}

// deployed is an API server with these Deployments.
type deployed struct {
	client.Reader

	all []appsv1.Deployment
}

func (d deployed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*appsv1.DeploymentList).Items = d.all
	return nil
}

func TestAddDeployments(t *testing.T) {
	t.Parallel()
	deployment := func(namespace, account string) appsv1.Deployment {
		var d appsv1.Deployment
		d.Namespace = namespace
		d.Spec.Template.Labels = map[string]string{"app.kubernetes.io/name": "pytorch-controller"}
		d.Spec.Template.Spec.ServiceAccountName = account
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: "pytorch-controller:v0.1.0"}}
		return d
	}
	controllers := []Controller{{Name: "pytorch-controller"}}
	err := AddDeployments(t.Context(), deployed{all: []appsv1.Deployment{
		deployment("a", "default"), deployment("b", "pytorch-controller"), deployment("t9k-pytorch", "pytorch-controller"),
	}}, "", controllers)
	if err != nil {
		t.Fatal(err)
	}
	want := []Deployment{{Namespace: "t9k-pytorch", Version: "v0.1.0"}, {Namespace: "b", Version: "v0.1.0"}}
	if diff := cmp.Diff(want, controllers[0].Deployments); diff != "" {
		t.Errorf("unexpected Deployments (-want +got):\n%s", diff)
	}
}

// job is a type with each form of field that the kinds have.
type job struct {
	metav1.TypeMeta `json:",inline"`

	Spec jobSpec `json:"spec"`
}

type jobSpec struct {
	Embedded `json:",inline"`

	Name     string                 `json:"name,omitempty"`
	Policy   *policy                `json:"policy,omitempty"`
	Replicas []policy               `json:"replicas,omitempty"`
	ByName   map[string]policy      `json:"byName,omitempty"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// Embedded is a struct whose fields belong to the struct that embeds it.
type Embedded struct {
	Suspend bool `json:"suspend,omitempty"`
}

type policy struct {
	Limit int32 `json:"limit,omitempty"`
}

// of returns the schema of an object with these properties.
func of(properties map[string]spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Properties: properties}}
}

func TestMissingFields(t *testing.T) {
	t.Parallel()
	str := spec.StringProperty()
	full := func() map[string]spec.Schema {
		limit := of(map[string]spec.Schema{"limit": *spec.Int32Property()})
		return map[string]spec.Schema{
			"suspend": *spec.BooleanProperty(), "name": *str, "policy": limit, "replicas": *spec.ArrayProperty(&limit),
			"byName": *spec.MapProperty(&limit), "template": of(map[string]spec.Schema{"spec": *str}),
		}
	}
	other := of(map[string]spec.Schema{"other": *str})
	for name, tc := range map[string]struct {
		change func(properties map[string]spec.Schema)
		want   []string
	}{
		"no field is missing from the schema of the same version": {change: func(map[string]spec.Schema) {}},
		"a field of a newer cluster is not missing": {
			change: func(properties map[string]spec.Schema) { properties["progress"] = *str },
		},
		"a field of an embedded struct is missing": {
			change: func(properties map[string]spec.Schema) { delete(properties, "suspend") }, want: []string{"spec.suspend"},
		},
		"a missing struct is one missing field": {
			change: func(properties map[string]spec.Schema) { delete(properties, "policy") }, want: []string{"spec.policy"},
		},
		"fields of structs, lists and maps are missing": {
			change: func(properties map[string]spec.Schema) {
				properties["policy"], properties["replicas"] = other, *spec.ArrayProperty(&other)
				properties["byName"] = *spec.MapProperty(&other)
			},
			want: []string{"spec.policy.limit", "spec.replicas.limit", "spec.byName.limit"},
		},
		"a schema without properties accepts every field": {
			change: func(properties map[string]spec.Schema) { properties["policy"] = spec.Schema{} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			properties := full()
			tc.change(properties)
			definition := of(map[string]spec.Schema{"spec": of(properties)})
			if diff := cmp.Diff(tc.want, missingFields(job{}, &definition)); diff != "" {
				t.Errorf("unexpected fields (-want +got):\n%s", diff)
			}
		})
	}
}
