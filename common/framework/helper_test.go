package framework

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestAddHelper(t *testing.T) {
	t.Parallel()
	// helper returns the container that addHelper adds in this test, with the given resources.
	helper := func(resources corev1.ResourceList) corev1.Container {
		return corev1.Container{
			Name: "help", Image: "controller:test", Args: []string{"help", "me"},
			VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}},
			Resources:    corev1.ResourceRequirements{Requests: resources, Limits: resources},
			SecurityContext: &corev1.SecurityContext{
				RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
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
	// resources parses requests and limits. Each is a list of <resource>=<quantity>.
	resources := func(requests, limits string) corev1.ResourceRequirements {
		parse := func(text string) corev1.ResourceList {
			list := corev1.ResourceList{}
			for pair := range strings.FieldsSeq(text) {
				name, quantity, _ := strings.Cut(pair, "=")
				list[corev1.ResourceName(name)] = resource.MustParse(quantity)
			}
			return list
		}
		return corev1.ResourceRequirements{Requests: parse(requests), Limits: parse(limits)}
	}
	// pod returns a pod whose main container has the given resources. For each element of helpers, the pod has a helper
	// with these resources.
	pod := func(of corev1.ResourceRequirements, helpers ...corev1.ResourceRequirements) corev1.PodSpec {
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: of}}}
		for _, r := range helpers {
			c := helper(nil)
			c.Resources = r
			spec.InitContainers = append(spec.InitContainers, c)
		}
		return spec
	}
	asRoot := helper(nil)
	asRoot.SecurityContext.RunAsUser = ptr.To[int64](65532)
	user := func(id int64) *corev1.PodSecurityContext { return &corev1.PodSecurityContext{RunAsUser: &id} }
	podLevel := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}}
	for name, tc := range map[string]struct {
		isGang     bool
		spec, want corev1.PodSpec
		// wantErr is the expected error; empty means none. After an error, the pod must be unchanged.
		wantErr string
	}{
		"the helper has no resources in a pod without resources, which stays BestEffort": {
			spec: corev1.PodSpec{Containers: main},
			want: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(nil)}},
		},
		"the helper requests nothing in a pod with only GPUs, which stays BestEffort": {
			spec: pod(resources("cpu=0", "nvidia.com/gpu=1")),
			want: pod(resources("cpu=0", "nvidia.com/gpu=1"), resources("cpu=0", "")),
		},
		"the helper has the requests and limits of the main container": {
			spec: pod(resources("cpu=200m memory=1Gi", "cpu=400m memory=2Gi")),
			want: pod(resources("cpu=200m memory=1Gi", "cpu=400m memory=2Gi"),
				resources("cpu=200m memory=1Gi", "cpu=400m memory=2Gi")),
		},
		"the helper has no devices and no huge pages of the main container": {
			spec: pod(resources("", "cpu=500m ephemeral-storage=1Gi hugepages-2Mi=4Mi nvidia.com/gpu=1")),
			want: pod(resources("", "cpu=500m ephemeral-storage=1Gi hugepages-2Mi=4Mi nvidia.com/gpu=1"),
				resources("", "cpu=500m ephemeral-storage=1Gi")),
		},
		"the helper is not pinned to CPUs if the main container is": {
			spec: pod(resources("cpu=8 memory=1Gi", "cpu=8 memory=1Gi")),
			want: pod(resources("cpu=8 memory=1Gi", "cpu=8 memory=1Gi"),
				resources("cpu=7999m memory=1Gi", "cpu=7999m memory=1Gi")),
		},
		"the helper is not pinned to CPUs if the main container has only limits": {
			spec: pod(resources("", "cpu=2 memory=1Gi")),
			want: pod(resources("", "cpu=2 memory=1Gi"), resources("", "cpu=1999m memory=1Gi")),
		},
		"a main container that is not pinned to its CPUs shares them with the helper": {
			spec: pod(resources("cpu=4", "cpu=8")),
			want: pod(resources("cpu=4", "cpu=8"), resources("cpu=4", "cpu=8")),
		},
		"one CPU can be the minimum of a namespace": {
			spec: pod(resources("cpu=1", "cpu=1")),
			want: pod(resources("cpu=1", "cpu=1"), resources("cpu=1", "cpu=1")),
		},
		"the helper has the requests of the main container in a gang": {
			isGang: true,
			spec:   pod(resources("cpu=4", "")),
			want:   pod(resources("cpu=4", ""), resources("cpu=4", "")),
		},
		"the helper runs as the user of the pod": {
			spec: corev1.PodSpec{Containers: main, SecurityContext: user(1000)},
			want: corev1.PodSpec{
				Containers: main, SecurityContext: user(1000), InitContainers: []corev1.Container{helper(nil)},
			},
		},
		"the helper runs as the user of its image if the user of the pod is root": {
			spec: corev1.PodSpec{Containers: main, SecurityContext: user(0)},
			want: corev1.PodSpec{Containers: main, SecurityContext: user(0), InitContainers: []corev1.Container{asRoot}},
		},
		"the helper has small requests in a pod of a gang without requests": {
			isGang: true,
			spec:   corev1.PodSpec{Containers: main},
			want:   corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(small)}},
		},
		"the helper is the first init container": {
			spec: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
			want: corev1.PodSpec{Containers: main, InitContainers: []corev1.Container{helper(nil), {Name: "a"}, {Name: "b"}}},
		},
		"the helper has no resources in a pod of a gang with pod-level resources": {
			isGang: true,
			spec:   corev1.PodSpec{Containers: main, Resources: podLevel},
			want: corev1.PodSpec{
				Containers: main, Resources: podLevel, InitContainers: []corev1.Container{helper(nil)},
			},
		},
		"the helper has small requests in a pod of a gang with empty pod-level resources": {
			isGang: true,
			spec:   corev1.PodSpec{Containers: main, Resources: &corev1.ResourceRequirements{}},
			want: corev1.PodSpec{
				Containers: main, Resources: &corev1.ResourceRequirements{}, InitContainers: []corev1.Container{helper(small)},
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
			peers := Peers{Image: "controller:test", IsGang: tc.isGang, HelperResources: small}
			err := peers.addHelper(worker, &tc.spec, tc.spec.Containers[0], "help", []string{"help", "me"},
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

func TestAddInstallerAndAddWait(t *testing.T) {
	t.Parallel()
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	shared := corev1.VolumeMount{Name: "shared", MountPath: "/shared"}
	// c returns the parts of an init container that differ between the cases.
	c := func(name, args string, mounts ...corev1.VolumeMount) corev1.Container {
		return corev1.Container{
			Name: name, Image: "controller:test", Args: strings.Fields(args), VolumeMounts: mounts,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}},
		}
	}
	limited := func(c corev1.Container) corev1.Container {
		c.Resources = corev1.ResourceRequirements{Requests: small, Limits: small}
		return c
	}
	installs := c("install", "wait-dns --install=/shared", shared)
	waits := c("wait-for-peers", "wait-dns --timeout 10m0s a.ns b.ns")
	both := c("wait-for-peers", "wait-dns --install=/shared --timeout 10m0s a.ns b.ns", shared)
	own := corev1.Container{Name: "fetch", Image: "fetch", Args: []string{"wait-dns", "--install=/shared"}}
	alsoOwn := corev1.Container{Name: "await", Image: "controller:test", Args: []string{"wait-dns", "database"}}
	sidecar := corev1.Container{Name: "sidecar", Image: "controller:test", Args: []string{"receive-progress"}}
	for name, tc := range map[string]struct {
		isGang bool
		inits  []corev1.Container
		// before are init containers that are added before the others between the installer and the wait.
		before   []corev1.Container
		installs bool
		hosts    []string
		want     []corev1.Container
		wantErr  string
	}{
		"a pod that only needs a program installs it": {
			installs: true, inits: []corev1.Container{own}, want: []corev1.Container{installs, own},
		},
		"a pod that only has peers waits for them": {
			hosts: []string{"a.ns", "b.ns"}, inits: []corev1.Container{own}, want: []corev1.Container{waits, own},
		},
		"one container installs and waits": {
			installs: true, hosts: []string{"a.ns", "b.ns"},
			inits: []corev1.Container{own}, want: []corev1.Container{both, own},
		},
		"the container that installs and waits comes before a sidecar": {
			installs: true, hosts: []string{"a.ns", "b.ns"}, before: []corev1.Container{sidecar},
			inits: []corev1.Container{own}, want: []corev1.Container{both, sidecar, own},
		},
		"a container of the template that waits is kept": {
			hosts: []string{"a.ns", "b.ns"}, inits: []corev1.Container{alsoOwn}, want: []corev1.Container{waits, alsoOwn},
		},
		"the container that installs and waits has small requests in a pod of a gang without requests": {
			isGang: true, installs: true, hosts: []string{"a.ns", "b.ns"}, want: []corev1.Container{limited(both)},
		},
		"a container with the name of the installer is an error, even if no installer remains": {
			installs: true, hosts: []string{"a.ns"}, inits: []corev1.Container{{Name: "install"}},
			wantErr: `the template of type "worker" has a container named "install", which is reserved`,
		},
		"a container with the name of the container that waits is an error": {
			installs: true, hosts: []string{"a.ns"}, inits: []corev1.Container{{Name: "wait-for-peers"}},
			wantErr: `the template of type "worker" has a container named "wait-for-peers", which is reserved`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peers := Peers{Image: "controller:test", IsGang: tc.isGang, HelperResources: small}
			worker, main := Member{Role: Role{Type: "worker"}}, corev1.Container{Name: "main"}
			spec := corev1.PodSpec{InitContainers: tc.inits, Containers: []corev1.Container{main}}
			var err error
			if tc.installs {
				err = peers.AddInstaller(worker, &spec, main, "install", shared)
			}
			spec.InitContainers = slices.Concat(tc.before, spec.InitContainers)
			if err == nil && len(tc.hosts) > 0 {
				err = peers.AddWait(worker, &spec, main, tc.hosts)
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, got); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
			for i := range spec.InitContainers {
				spec.InitContainers[i].SecurityContext = nil // the same for each helper
			}
			if diff := cmp.Diff(tc.want, spec.InitContainers, cmpopts.EquateEmpty()); tc.wantErr == "" && diff != "" {
				t.Errorf("unexpected init containers (-want +got):\n%s", diff)
			}
		})
	}
}

// addHelper must not write into the array of the init containers, because copies of a template share this array.
func TestAddHelperDoesNotChangeASharedArray(t *testing.T) {
	t.Parallel()
	shared := append(make([]corev1.Container, 0, 4), corev1.Container{Name: "a"})
	spec := corev1.PodSpec{InitContainers: shared}
	if err := (Peers{}).addHelper(Member{}, &spec, corev1.Container{}, "help", nil); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if shared[0].Name != "a" {
		t.Errorf("the first init container of the shared array is %q, want %q", shared[0].Name, "a")
	}
}

func TestReserveSidecar(t *testing.T) {
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
	sidecar := func(requests corev1.ResourceList) corev1.Container {
		return corev1.Container{
			Name: "t9k-sidecar", Image: "t9k-sidecar", Resources: corev1.ResourceRequirements{Requests: requests},
			RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		}
	}
	both := list(corev1.ResourceCPU, corev1.ResourceMemory)
	fetch := corev1.Container{Name: "fetch"}
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want []corev1.Container
	}{
		"a template without resources gets no placeholder": {spec: corev1.PodSpec{Containers: requesting(nil)}},
		"a template with pod-level resources gets no placeholder": {
			spec: corev1.PodSpec{
				Containers: requesting(both), Resources: &corev1.ResourceRequirements{Requests: both},
			},
		},
		"a template with requests gets a placeholder that restarts like the sidecar": {
			spec: corev1.PodSpec{Containers: requesting(both), InitContainers: []corev1.Container{fetch}},
			want: []corev1.Container{sidecar(both), fetch},
		},
		"the placeholder requests only resources that the template requests": {
			spec: corev1.PodSpec{Containers: requesting(list(corev1.ResourceMemory))},
			want: []corev1.Container{sidecar(list(corev1.ResourceMemory))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.spec.DeepCopy()
			ReserveSidecar(got, both)
			if diff := cmp.Diff(tc.want, got.InitContainers); diff != "" {
				t.Errorf("unexpected init containers (-want +got):\n%s", diff)
			}
		})
	}
}

// Pods must not share the maps of their resources. When the client decodes the API server's response to a creation,
// it changes the maps of the created pod. At the same time, the controller builds other pods.
func TestHelpersShareNoResources(t *testing.T) {
	t.Parallel()
	peers := Peers{IsGang: true, HelperResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	for range 2 {
		spec := corev1.PodSpec{Containers: []corev1.Container{{}}}
		if err := peers.addHelper(Member{}, &spec, spec.Containers[0], "help", nil); err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		helper := spec.InitContainers[0].Resources
		if diff := cmp.Diff(corev1.ResourceRequirements{
			Requests: peers.HelperResources, Limits: peers.HelperResources,
		}, helper); diff != "" {
			t.Errorf("unexpected resources (-want +got):\n%s", diff)
		}
		helper.Requests["memory"] = resource.MustParse("1Gi")
	}
}
