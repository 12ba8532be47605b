package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

const (
	// waitContainer is the init container that waits until the host names of peers resolve.
	waitContainer = "wait-for-peers"
	// waitTimeout is how long the init container waits. Then the replica starts anyway.
	waitTimeout = 10 * time.Minute
	// waitCommand is the subcommand of a job controller that installs a program and waits for host names.
	waitCommand = "wait-dns"
	// installFlag is the flag of waitCommand with the folder of the program. The flag only exists if the controller has
	// a program to install: see Controller.Install.
	installFlag = "--install="
)

// imageUser is the ID of the user that the controllers' images run as.
const imageUser = 65532

// AddInstaller adds a helper to the template of a member. The helper installs the program of Controller.Install into
// the mount, which must be of a volume that the helper can write to.
func (p Peers) AddInstaller(
	member Member, spec *corev1.PodSpec, main corev1.Container, name string, mount corev1.VolumeMount,
) error {
	return p.addHelper(member, spec, main, name, []string{waitCommand, installFlag + mount.MountPath}, mount)
}

// AddWait adds a helper to the template of a member. The helper waits until the hosts resolve. If the template has an
// installer, the helper replaces it: the helper first installs the program, and then waits. With two containers, the
// main container would start later.
func (p Peers) AddWait(member Member, spec *corev1.PodSpec, main corev1.Container, hosts []string) error {
	installer := corev1.Container{Args: []string{waitCommand}} // without a program to install
	if i := slices.IndexFunc(spec.InitContainers, p.isInstaller); i >= 0 {
		installer = spec.InitContainers[i]
		spec.InitContainers = slices.Delete(slices.Clone(spec.InitContainers), i, i+1)
	}
	args := slices.Concat(installer.Args, []string{"--timeout", waitTimeout.String()}, hosts)
	if err := p.addHelper(member, spec, main, waitContainer, args, installer.VolumeMounts...); err != nil {
		return err
	}
	spec.InitContainers[0].TerminationMessagePolicy = installer.TerminationMessagePolicy
	return nil
}

// isInstaller reports whether AddInstaller has added the container.
func (p Peers) isInstaller(c corev1.Container) bool {
	return c.Image == p.Image && len(c.Args) == 2 && c.Args[0] == waitCommand && strings.HasPrefix(c.Args[1], installFlag)
}

// addHelper adds a helper to the template of a member: an init container that runs the controller's image. The helper
// is the first init container, and must end before the other containers of the pod start. If a namespace accepts the
// main container, it accepts the helper:
//
//   - The helper meets the restricted Pod Security Standard. It runs as the user of the pod. If the pod sets no user,
//     the helper sets none, so that OpenShift, for example, can choose the user. If the user of the pod is root, the
//     helper runs as the user of the image, which is not root.
//   - The helper has the CPU, memory and ephemeral storage of the main container. So a LimitRange accepts the helper
//     if it accepts the main container. The pod requests no more than without the helper, because init containers end
//     first.
//
// The helper does not change the QoS class of the pod, with one exception. In a BestEffort pod of a gang, the helper
// has HelperResources, so that the pod is no longer BestEffort. Otherwise, Volcano would count the pod as placed
// while it is still pending (JobInfo.IsReady).
//
// addHelper returns an error if the template is for Windows or has a container with the name of the helper.
func (p Peers) addHelper(
	member Member, spec *corev1.PodSpec, main corev1.Container, name string, args []string, mounts ...corev1.VolumeMount,
) error {
	roleType := member.Role.Type
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Name == name {
			return fmt.Errorf("the template of type %q has a container named %q, which is reserved", roleType, name)
		}
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return fmt.Errorf("the template of type %q is for Windows, but the container %q of its pods is for Linux", roleType,
			name)
	}
	helper := corev1.Container{
		Name:         name,
		Image:        p.Image,
		Args:         args,
		Resources:    resourcesLike(main.Resources),
		VolumeMounts: mounts,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot:             new(true),
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if s := spec.SecurityContext; s != nil && s.RunAsUser != nil && *s.RunAsUser == 0 {
		helper.SecurityContext.RunAsUser = ptr.To[int64](imageUser)
	}
	if p.IsGang && isBestEffort(spec) {
		helper.Resources = equally(p.HelperResources)
	}
	spec.InitContainers = slices.Insert(slices.Clone(spec.InitContainers), 0, helper)
	return nil
}

// addSidecar adds a helper that runs as long as the main container. Its requests and limits are HelperResources, so
// that a Guaranteed pod stays Guaranteed. In a BestEffort pod that is not in a gang, the helper has no resources, so
// that the pod stays BestEffort (see addHelper). In a pod with pod-level resources, the helper has no resources
// either, because the pod-level resources might be smaller than HelperResources.
func (p Peers) addSidecar(
	member Member, spec *corev1.PodSpec, main corev1.Container, name string, args []string, mounts ...corev1.VolumeMount,
) error {
	resources := corev1.ResourceRequirements{}
	if !hasPodLevelResources(spec) && (p.IsGang || !isBestEffort(spec)) {
		resources = equally(p.HelperResources)
	}
	if err := p.addHelper(member, spec, main, name, args, mounts...); err != nil {
		return err
	}
	sidecar := &spec.InitContainers[0]
	sidecar.RestartPolicy, sidecar.Resources = new(corev1.ContainerRestartPolicyAlways), resources
	return nil
}

// ReserveSidecar adds a placeholder to a template. With the placeholder, the template requests the same resources as
// a pod with the sidecar that receives reports of progress. The parameter sidecar has the resources of that sidecar.
// The placeholder requests only those resources that another container of the template requests or limits, because a
// quota might not cover the others. A template with pod-level resources gets no placeholder, because its sidecar has
// no resources.
func ReserveSidecar(spec *corev1.PodSpec, sidecar corev1.ResourceList) {
	if hasPodLevelResources(spec) {
		return
	}
	requests := corev1.ResourceList{}
	for name, quantity := range sidecar {
		if slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
			_, isRequested := c.Resources.Requests[name]
			_, isLimited := c.Resources.Limits[name]
			return isRequested || isLimited
		}) {
			requests[name] = quantity
		}
	}
	if len(requests) == 0 {
		return
	}
	spec.InitContainers = slices.Insert(slices.Clone(spec.InitContainers), 0, corev1.Container{
		Name: "t9k-sidecar", Image: "t9k-sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Resources: corev1.ResourceRequirements{Requests: requests},
	})
}

// resourcesLike returns the resources of an init container that gets the same CPU, memory and ephemeral storage as
// the main container, but no devices. If the static policy of the kubelet's CPU manager pins the main container to
// more than one CPU, the init container gets a thousandth of a CPU less, so that the kubelet does not pin the init
// container. Otherwise, the main container would have to use the CPUs of the init container, which can be far from
// the GPUs of the main container.
func resourcesLike(main corev1.ResourceRequirements) corev1.ResourceRequirements {
	like := *main.DeepCopy()
	like.Claims = nil
	for _, list := range []corev1.ResourceList{like.Requests, like.Limits} {
		maps.DeleteFunc(list, func(name corev1.ResourceName, _ resource.Quantity) bool {
			return name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage
		})
	}
	request, isRequested := like.Requests[corev1.ResourceCPU]
	limit, isLimited := like.Limits[corev1.ResourceCPU]
	if isLimited && limit.Value() > 1 && limit.MilliValue()%1000 == 0 && (!isRequested || request.Equal(limit)) {
		limit.Sub(resource.MustParse("1m"))
		like.Limits[corev1.ResourceCPU] = limit
		if isRequested {
			like.Requests[corev1.ResourceCPU] = limit
		}
	}
	return like
}

// equally returns resources with the list as requests and as limits. Both are copies, because the client changes the
// maps of a created pod: it decodes the response of the API server into them.
func equally(list corev1.ResourceList) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list.DeepCopy(), Limits: list.DeepCopy()}
}

// hasPodLevelResources reports whether a pod has CPU or memory of its own, which its containers share.
func hasPodLevelResources(spec *corev1.PodSpec) bool {
	return spec.Resources != nil && affectsQoS(*spec.Resources)
}

// isBestEffort reports whether the QoS class of a pod is BestEffort.
func isBestEffort(spec *corev1.PodSpec) bool {
	return !hasPodLevelResources(spec) &&
		!slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
			return affectsQoS(c.Resources)
		})
}

// affectsQoS reports whether the resources determine the QoS class of a pod. Only CPU and memory do: a pod with only
// other resources, such as GPUs, is BestEffort.
func affectsQoS(resources corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if !list.Cpu().IsZero() || !list.Memory().IsZero() {
			return true
		}
	}
	return false
}
