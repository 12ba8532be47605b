package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestAddHelper(t *testing.T) {
	t.Parallel()
	// helper is the container that is added, with resources of its own or without.
	helper := func(resources corev1.ResourceList) corev1.Container {
		return corev1.Container{
			Name: "help", Image: "controller:test", Args: []string{"help", "me"},
			VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}},
			Resources:    corev1.ResourceRequirements{Requests: resources, Limits: resources},
			SecurityContext: &corev1.SecurityContext{
				RunAsNonRoot: new(true), RunAsUser: ptr.To[int64](65532), AllowPrivilegeEscalation: new(false),
				ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}
	}
	small := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	worker := Member{Role: Role{Type: "worker"}}
	main := []corev1.Container{{Name: "main"}}
	limited := []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: small}}}
	bestEffort := []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")},
		Limits:   corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
	}}}
	requesting := []corev1.Container{
		{Name: "main"}, {Name: "sidecar", Resources: corev1.ResourceRequirements{Requests: small}},
	}
	ofThePod := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}}
	for name, tc := range map[string]struct {
		allOrNothing bool
		spec, want   corev1.PodSpec
		// wantErr is the error, empty for none. The pod is then as it was.
		wantErr string
	}{
		"it asks for nothing in a pod that asks for nothing, which stays BestEffort": {
			spec: corev1.PodSpec{Containers: main},
			want: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(nil)}},
		},
		"it asks for nothing in a pod with GPUs alone, which stays BestEffort": {
			spec: corev1.PodSpec{Containers: bestEffort},
			want: corev1.PodSpec{Containers: bestEffort, InitContainers: []corev1.Container{helper(nil)}},
		},
		"it asks for little, with limits, in a pod that has limits, which stays Guaranteed": {
			spec: corev1.PodSpec{Containers: limited},
			want: corev1.PodSpec{Containers: limited, InitContainers: []corev1.Container{helper(small)}},
		},
		"it asks for little in a pod of which any container asks for something": {
			spec: corev1.PodSpec{Containers: requesting},
			want: corev1.PodSpec{Containers: requesting, InitContainers: []corev1.Container{helper(small)}},
		},
		"it asks for little in a pod that is scheduled all or nothing": {
			allOrNothing: true,
			spec:         corev1.PodSpec{Containers: main},
			want:         corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(small)}},
		},
		"it comes first": {
			spec: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
			want: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(nil), {Name: "a"}, {Name: "b"}}},
		},
		"it takes of the resources of the pod": {
			spec: corev1.PodSpec{Containers: limited, Resources: ofThePod},
			want: corev1.PodSpec{Containers: limited, Resources: ofThePod, InitContainers: []corev1.Container{helper(nil)}},
		},
		"a pod that has resources of its own, but none": {
			spec: corev1.PodSpec{Containers: limited, Resources: &corev1.ResourceRequirements{}},
			want: corev1.PodSpec{
				Containers: limited, Resources: &corev1.ResourceRequirements{}, InitContainers: []corev1.Container{helper(small)},
			},
		},
		"a pod that says that it is for Linux": {
			spec: corev1.PodSpec{Containers: main, OS: &corev1.PodOS{Name: corev1.Linux}},
			want: corev1.PodSpec{
				Containers: main, OS: &corev1.PodOS{Name: corev1.Linux}, InitContainers: []corev1.Container{helper(nil)},
			},
		},
		"a container of its name": {
			spec:    corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "help"}}},
			want:    corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "help"}}},
			wantErr: `the template of type "worker" has a container named "help", which is reserved`,
		},
		"an init container of its name": {
			spec:    corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "help"}}},
			want:    corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "help"}}},
			wantErr: `the template of type "worker" has a container named "help", which is reserved`,
		},
		"a pod for Windows": {
			spec:    corev1.PodSpec{Containers: main, OS: &corev1.PodOS{Name: corev1.Windows}},
			want:    corev1.PodSpec{Containers: main, OS: &corev1.PodOS{Name: corev1.Windows}},
			wantErr: `the template of type "worker" is for Windows, but the container "help" of its pods is for Linux`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gang := Gang{Image: "controller:test", AllOrNothing: tc.allOrNothing}
			err := gang.AddHelper(worker, &tc.spec, "help", []string{"help", "me"},
				corev1.VolumeMount{Name: "shared", MountPath: "/shared"})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, got); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, tc.spec); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
		})
	}
}

// The templates of a job's replicas share what they are copied from.
func TestAddHelperLeavesTheListAlone(t *testing.T) {
	t.Parallel()
	shared := append(make([]corev1.Container, 0, 4), corev1.Container{Name: "a"})
	spec := corev1.PodSpec{InitContainers: shared}
	if err := (Gang{}).AddHelper(Member{}, &spec, "help", nil); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if shared[0].Name != "a" {
		t.Errorf("the list that the pod had begins with %q", shared[0].Name)
	}
}
