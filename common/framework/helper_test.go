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
	// helper returns the container that is added, with the given resources.
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
	podLevel := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}}
	for name, tc := range map[string]struct {
		allOrNothing bool
		spec, want   corev1.PodSpec
		// wantErr is the expected error; empty means none. After an error, the pod must be unchanged.
		wantErr string
	}{
		"the helper has no resources in a pod without resources, which stays BestEffort": {
			spec: corev1.PodSpec{Containers: main},
			want: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(nil)}},
		},
		"the helper has no resources in a pod with only GPUs, which stays BestEffort": {
			spec: corev1.PodSpec{Containers: bestEffort},
			want: corev1.PodSpec{Containers: bestEffort, InitContainers: []corev1.Container{helper(nil)}},
		},
		"the helper has small requests and limits in a pod with limits, which stays Guaranteed": {
			spec: corev1.PodSpec{Containers: limited},
			want: corev1.PodSpec{Containers: limited, InitContainers: []corev1.Container{helper(small)}},
		},
		"the helper has small requests in a pod where any container has requests": {
			spec: corev1.PodSpec{Containers: requesting},
			want: corev1.PodSpec{Containers: requesting, InitContainers: []corev1.Container{helper(small)}},
		},
		"the helper has small requests in a pod of a gang": {
			allOrNothing: true,
			spec:         corev1.PodSpec{Containers: main},
			want:         corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(small)}},
		},
		"the helper is the first init container": {
			spec: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
			want: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(nil), {Name: "a"}, {Name: "b"}}},
		},
		"the helper has no resources in a pod with pod-level resources": {
			spec: corev1.PodSpec{Containers: limited, Resources: podLevel},
			want: corev1.PodSpec{Containers: limited, Resources: podLevel, InitContainers: []corev1.Container{helper(nil)}},
		},
		"the helper has small requests in a pod with empty pod-level resources": {
			spec: corev1.PodSpec{Containers: limited, Resources: &corev1.ResourceRequirements{}},
			want: corev1.PodSpec{
				Containers: limited, Resources: &corev1.ResourceRequirements{}, InitContainers: []corev1.Container{helper(small)},
			},
		},
		"a pod for Linux gets the helper": {
			spec: corev1.PodSpec{Containers: main, OS: &corev1.PodOS{Name: corev1.Linux}},
			want: corev1.PodSpec{
				Containers: main, OS: &corev1.PodOS{Name: corev1.Linux}, InitContainers: []corev1.Container{helper(nil)},
			},
		},
		"a container with the name of the helper is an error": {
			spec:    corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "help"}}},
			want:    corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "help"}}},
			wantErr: `the template of type "worker" has a container named "help", which is reserved`,
		},
		"an init container with the name of the helper is an error": {
			spec:    corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "help"}}},
			want:    corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "help"}}},
			wantErr: `the template of type "worker" has a container named "help", which is reserved`,
		},
		"a pod for Windows is an error": {
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

// Copies of a template share the array of its init containers.
func TestAddHelperDoesNotChangeASharedArray(t *testing.T) {
	t.Parallel()
	shared := append(make([]corev1.Container, 0, 4), corev1.Container{Name: "a"})
	spec := corev1.PodSpec{InitContainers: shared}
	if err := (Gang{}).AddHelper(Member{}, &spec, "help", nil); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if shared[0].Name != "a" {
		t.Errorf("the first init container of the shared array is %q, want %q", shared[0].Name, "a")
	}
}

func TestReserveHelper(t *testing.T) {
	t.Parallel()
	list := func(resources ...corev1.ResourceName) corev1.ResourceList {
		small := corev1.ResourceList{}
		for _, name := range resources {
			small[name] = map[corev1.ResourceName]resource.Quantity{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}[name]
		}
		return small
	}
	requesting := func(requests corev1.ResourceList) []corev1.Container {
		return []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests}}}
	}
	helper := func(requests corev1.ResourceList) corev1.Container {
		return corev1.Container{
			Name: "t9k-helper", Image: "t9k-helper", Resources: corev1.ResourceRequirements{Requests: requests},
		}
	}
	sidecar := func(requests corev1.ResourceList) corev1.Container {
		return corev1.Container{
			Name: "t9k-sidecar", Image: "t9k-helper", Resources: corev1.ResourceRequirements{Requests: requests},
			RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		}
	}
	both := list(corev1.ResourceCPU, corev1.ResourceMemory)
	fetch := corev1.Container{Name: "fetch"}
	for name, tc := range map[string]struct {
		spec       corev1.PodSpec
		hasSidecar bool
		want       []corev1.Container
	}{
		"a template without resources gets no placeholder": {
			spec: corev1.PodSpec{Containers: requesting(nil)}, hasSidecar: true,
		},
		"a template with pod-level resources gets no placeholder": {
			spec: corev1.PodSpec{
				Containers: requesting(both), Resources: &corev1.ResourceRequirements{Requests: both},
			},
			hasSidecar: true,
		},
		"a template with requests gets a placeholder for a helper": {
			spec: corev1.PodSpec{Containers: requesting(both), InitContainers: []corev1.Container{fetch}},
			want: []corev1.Container{helper(both), fetch},
		},
		"a pod with the sidecar gets a second placeholder, which restarts like the sidecar": {
			spec:       corev1.PodSpec{Containers: requesting(both), InitContainers: []corev1.Container{fetch}},
			hasSidecar: true, want: []corev1.Container{sidecar(both), helper(both), fetch},
		},
		"the placeholders request only resources that the template requests": {
			spec:       corev1.PodSpec{Containers: requesting(list(corev1.ResourceMemory))},
			hasSidecar: true,
			want:       []corev1.Container{sidecar(list(corev1.ResourceMemory)), helper(list(corev1.ResourceMemory))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.spec.DeepCopy()
			ReserveHelper(got, tc.hasSidecar)
			if diff := cmp.Diff(tc.want, got.InitContainers); diff != "" {
				t.Errorf("unexpected init containers (-want +got):\n%s", diff)
			}
		})
	}
}
