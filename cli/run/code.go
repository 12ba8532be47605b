package run

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/common/framework"
)

const codeVolume = "code"

// Limits of the code in a ConfigMap. The API server accepts 1 MiB of data in a ConfigMap. The number of files is
// limited because the volume in the template of the job lists them. The volume needs no list if all files are at the
// top of the folder and not executable. A list with more than maxItems files is split into several lists.
const (
	maxConfigMap      = 900 << 10
	maxConfigMapFiles = 1000
	maxItems          = 256
)

// isSmall reports whether the code fits into a ConfigMap.
func isSmall(f *code.Folder) bool {
	return f.Size() <= maxConfigMap && len(f.Files) <= maxConfigMapFiles
}

// configMap returns a ConfigMap with one key for each file, and the volume that mounts the files at their paths.
func (o *Options) configMap(folder *code.Folder) (*corev1.ConfigMap, volume, error) {
	object := &corev1.ConfigMap{
		ObjectMeta: o.objectMeta("-code"), Immutable: new(true),
		Data: map[string]string{}, BinaryData: map[string][]byte{},
	}
	keys := map[string]bool{}
	items := make([]corev1.KeyToPath, 0, len(folder.Files))
	isFlat := true
	for _, file := range folder.Files {
		content, err := folder.Content(file.Path)
		if err != nil {
			return nil, volume{}, err
		}
		key := keyFor(file.Path, keys)
		keys[key] = true
		if utf8.Valid(content) {
			object.Data[key] = string(content)
		} else {
			object.BinaryData[key] = content
		}
		item := corev1.KeyToPath{Key: key, Path: file.Path}
		if file.Executable {
			item.Mode = new(int32(0o755))
		}
		isFlat = isFlat && key == file.Path && !file.Executable
		items = append(items, item)
	}
	name := corev1.LocalObjectReference{Name: object.Name}
	if isFlat {
		items = nil
	}
	if len(items) <= maxItems {
		return object, volume{VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name, Items: items},
		}}, nil
	}
	projected := &corev1.ProjectedVolumeSource{}
	for part := range slices.Chunk(items, maxItems) {
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{
			ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name, Items: part},
		})
	}
	return object, volume{VolumeSource: corev1.VolumeSource{Projected: projected}}, nil
}

// maxKey is the maximum length of a key before keyFor appends a number of up to 5 characters to make it unique. A
// ConfigMap accepts keys of up to 253 characters.
const maxKey = 253 - 5

// keyFor returns the key of a file in a ConfigMap. The key of a file at the top of the folder is usually the name of
// the file.
func keyFor(name string, taken map[string]bool) string {
	key := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, strings.ReplaceAll(name, "/", "__"))
	key = key[max(0, len(key)-maxKey):]
	if strings.HasPrefix(key, "..") {
		key = "__" + key[2:]
	}
	unique := key
	for n := 2; taken[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", key, n)
	}
	return unique
}

// claim returns a new claim for code with the given size, and the volume with the code. The new claim is nil if the
// options name an existing claim.
func (o *Options) claim(size int64) (*corev1.PersistentVolumeClaim, volume) {
	if o.CodeClaim != "" {
		return nil, volume{VolumeSource: claimVolume(o.CodeClaim), subPath: path.Join("kubectl-train", o.Name)}
	}
	object := &corev1.PersistentVolumeClaim{
		ObjectMeta: o.objectMeta("-code"),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				// File systems need some space for themselves.
				corev1.ResourceStorage: *resource.NewQuantity(roundUp(size*5/4, 64<<20), resource.BinarySI),
			}},
		},
	}
	if max(o.Nodes, o.Elastic.Max) > 1 {
		object.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	if o.StorageClass != "" {
		object.Spec.StorageClassName = new(o.StorageClass)
	}
	return object, volume{VolumeSource: claimVolume(object.Name), subPath: codeVolume}
}

// roundUp returns the smallest multiple of unit that is at least n.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

const (
	// uploadMount is where the pod of the upload mounts the claim.
	uploadMount = "/claim"
	// uploadSeconds limits the lifetime of the pod of the upload. If kubectl train run is killed, it does not delete
	// that pod.
	uploadSeconds = 3600
)

// uploadPod returns the pod that receives the code. It runs the image of the training, because this image has Python
// and must be pulled for the training anyway.
func (o *Options) uploadPod(source volume) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: o.objectMeta("-upload"),
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(uploadSeconds)),
			TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken:  new(false),
			SecurityContext:               o.restrictedPod(true),
			Containers: []corev1.Container{{
				Name:    UploadContainer,
				Image:   o.Image,
				Command: []string{framework.Python, "-c", fmt.Sprintf("import time; time.sleep(%d)", uploadSeconds)},
				Env: []corev1.EnvVar{
					{Name: "CODE", Value: path.Join(uploadMount, source.subPath)},
				},
				// UploadLikeTraining can replace these resources.
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
					},
					Limits: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi"),
					},
				},
				SecurityContext: restrictedContainer(),
				VolumeMounts:    []corev1.VolumeMount{{Name: codeVolume, MountPath: uploadMount}},
			}},
			Volumes: []corev1.Volume{{Name: codeVolume, VolumeSource: source.VolumeSource}},
		},
	}
	o.place(&pod.Spec) // where the training can run, so that both reach the volume
	return pod
}

// UploadContainer is the name of the container in the pod of the upload.
const UploadContainer = "upload"

//go:embed upload.py
var uploadProgram string

// UploadCommand returns the command that receives the code in the pod of the upload.
func UploadCommand(digest code.Digest) []string {
	return []string{framework.Python, "-W", "ignore", "-c", uploadProgram, digest.SHA256}
}
