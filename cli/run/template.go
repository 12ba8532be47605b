package run

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/framework"
)

// volume is the volume of the code. subPath is the path of the code in the volume.
type volume struct {
	corev1.VolumeSource

	subPath string
}

// template returns the template of the pods.
func (o *Options) template(source volume) corev1.PodTemplateSpec {
	main := corev1.Container{
		Name:            o.Kind.MainContainers[0],
		Image:           o.Image,
		WorkingDir:      CodePath,
		Env:             o.env(),
		Resources:       o.resources(o.GPUs),
		SecurityContext: restrictedContainer(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: copyVolume, MountPath: CodePath},
			{Name: "shm", MountPath: "/dev/shm"},
		},
	}
	for _, name := range o.EnvFrom {
		main.EnvFrom = append(main.EnvFrom, corev1.EnvFromSource{
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	pod := corev1.PodSpec{
		SecurityContext: o.restrictedPod(len(o.Claims) > 0),
		Volumes: []corev1.Volume{
			{Name: codeVolume, VolumeSource: source.VolumeSource},
			{Name: copyVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			// By default, container runtimes limit /dev/shm to 64 MiB, which is too little for data loaders and for NCCL.
			{Name: "shm", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			}},
		},
	}
	o.place(&pod)
	names := map[string]string{}
	for _, claim := range o.Claims {
		name, ok := names[claim.Claim]
		if !ok {
			name = fmt.Sprintf("claim-%d", len(names)+1)
			names[claim.Claim] = name
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: claimVolume(claim.Claim)})
		}
		main.VolumeMounts = append(main.VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: claim.Path, ReadOnly: claim.ReadOnly})
	}
	pod.Containers = []corev1.Container{main}
	pod.InitContainers = []corev1.Container{{
		Name:            "copy-code",
		Image:           o.Image,
		Command:         []string{framework.Python, "-c", copyProgram},
		Resources:       o.resources(0),
		SecurityContext: restrictedContainer(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: codeVolume, MountPath: sourcePath, SubPath: source.subPath, ReadOnly: true},
			{Name: copyVolume, MountPath: CodePath},
		},
	}}
	return corev1.PodTemplateSpec{Spec: pod}
}

// copyVolume is the volume in which each pod has its own copy of the code. The copy is writable, since many programs
// write into their working directory or into the folder of their own files.
const copyVolume = "copy"

// sourcePath is the mount path of the code that copyProgram copies.
const sourcePath = "/source"

// copyProgram copies the code. It leaves out the files that the kubelet adds to the volume of a ConfigMap. Their
// names begin with two dots.
const copyProgram = `import os, shutil
for e in os.scandir("` + sourcePath + `"):
    if not e.name.startswith(".."):
        copy = "` + CodePath + `/" + e.name
        shutil.copytree(e.path, copy, dirs_exist_ok=True) if e.is_dir() else shutil.copy(e.path, copy)
`

func claimVolume(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// env returns the variables of the main container.
func (o *Options) env() []corev1.EnvVar {
	env := slices.Clone(o.Env)
	if o.User == nil {
		return env
	}
	// The image probably does not have this user, so the user has no home directory and no name. Libraries write caches
	// into the home directory, and torch.compile needs the name for its cache.
	for _, variable := range []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}, {Name: "USER", Value: "user"}} {
		if !slices.ContainsFunc(o.Env, func(v corev1.EnvVar) bool { return v.Name == variable.Name }) {
			env = append(env, variable)
		}
	}
	return env
}

// place sets the nodes on which a pod can run, and the credentials of its image. Nodes with GPUs often have a taint
// whose key is the name of the resource, which keeps other pods away.
func (o *Options) place(pod *corev1.PodSpec) {
	pod.NodeSelector = o.NodeSelector
	pod.Tolerations = slices.Clone(o.Tolerations)
	if o.GPUs > 0 {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{
			Key: o.GPUResource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	for _, name := range o.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
}

// resources returns the resources of each replica, with the given number of GPUs. CPU has no limit, since a limit can
// slow a training down even if the node has idle CPUs.
func (o *Options) resources(gpus int64) corev1.ResourceRequirements {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	if o.CPUs != nil {
		requests[corev1.ResourceCPU] = *o.CPUs
	}
	if o.Memory != nil {
		requests[corev1.ResourceMemory], limits[corev1.ResourceMemory] = *o.Memory, *o.Memory
	}
	if gpus > 0 {
		limits[corev1.ResourceName(o.GPUResource)] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// restrictedPod returns the settings of pods that the Pod Security Standard "restricted" requires.
func (o *Options) restrictedPod(withClaims bool) *corev1.PodSecurityContext {
	settings := &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		RunAsUser:      o.User,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if withClaims {
		settings.FSGroup = o.VolumeGroup
	}
	if settings.FSGroup != nil {
		// Without this policy, the kubelet would change the group of all files at each start, which takes long in a volume
		// with many files.
		settings.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	}
	return settings
}

// restrictedContainer returns the settings of containers that the Pod Security Standard "restricted" requires.
func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// objectMeta returns the metadata of an object that belongs to the job.
func (o *Options) objectMeta(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name + suffix, Namespace: o.Namespace}
}
