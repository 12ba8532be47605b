package tensorboard

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/report"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

const (
	// sidecarContainer runs the proxy between TensorBoard and its users.
	sidecarContainer = "sidecar"
	// mainContainer runs TensorBoard.
	mainContainer = "tensorboard"
	// servicePort is the port of the Service.
	servicePort = 80
)

// logsLimit is the size limit of the volume for logs. It is the maximum size of fetched logs (--fetch-limit of the
// sidecar), plus space for replacing a file.
var logsLimit = resource.MustParse("11Gi")

// annotationSpecHash is the annotation of a pod with the hash of its inputs, see specHash. A new version of the
// controller that computes the same hash does not replace the pod.
const annotationSpecHash = "tensorstack.dev/spec-hash"

// annotationConfig is the annotation of a pod with the configuration of its sidecar. The sidecar reads the annotation
// as a file. The configuration contains no credentials. The sidecar reads them from Secrets.
const annotationConfig = "tensorstack.dev/sidecar-config"

// maxConfig is the maximum size, in bytes, of the configuration of a sidecar. The API server allows 256 KiB of
// annotations, and other programs can add annotations.
const maxConfig = 240 << 10

// objectName returns the name of the objects of a TensorBoard. A TensorBoard of a job has the name of the job. The
// suffix prevents a conflict with the Service of the job.
func objectName(name string) string { return name + "-tb" }

func objectMeta(tb *v1beta1.TensorBoard) metav1.ObjectMeta {
	labels := selector(tb)
	labels["app.kubernetes.io/name"] = "tensorboard"
	labels["app.kubernetes.io/instance"] = tb.Name
	labels["app.kubernetes.io/managed-by"] = "tensorstack-jobs"
	return metav1.ObjectMeta{
		Name:            objectName(tb.Name),
		Namespace:       tb.Namespace,
		Labels:          labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(tb, v1beta1.GroupVersion.WithKind("TensorBoard"))},
	}
}

// selector returns the labels that select the pod of a TensorBoard.
func selector(tb *v1beta1.TensorBoard) map[string]string {
	return map[string]string{v1beta1.LabelName: tb.Name}
}

func buildService(tb *v1beta1.TensorBoard) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: objectMeta(tb),
		Spec: corev1.ServiceSpec{
			Selector: selector(tb),
			Ports: []corev1.ServicePort{
				{Name: "http", Port: servicePort, TargetPort: intstr.FromString("http"), AppProtocol: new("http")},
			},
		},
	}
}

// buildNetworkPolicy returns the NetworkPolicy of a TensorBoard.
func buildNetworkPolicy(tb *v1beta1.TensorBoard, options *Options) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(tb), Spec: networkPolicySpec(tb.Name, options)}
}

// networkPolicySpec returns the spec of the NetworkPolicy of the TensorBoard with the given name. TensorBoard has no
// login, so only the allowed peers can connect to the port for users. This controller connects to another port of the
// sidecar, to probe it.
func networkPolicySpec(name string, options *Options) networkingv1.NetworkPolicySpec {
	at := func(port int32) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: new(intstr.FromInt32(port))}}
	}
	controller := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: options.Namespace}}
	return network.Ingress(map[string]string{v1beta1.LabelName: name},
		networkingv1.NetworkPolicyIngressRule{
			From: options.NetworkPolicies.Peers(metav1.LabelSelector{}), Ports: at(sidecar.Port),
		},
		networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &controller}}, Ports: at(sidecar.HealthPort),
		},
	)
}

// server describes the web server that the spec of a TensorBoard requires.
type server struct {
	// URL is the address for users, and Prefix is its path without the slash at the end.
	URL, Prefix string
	// Config is the configuration of the sidecar, as JSON.
	Config string
	// Hash is the hash of the inputs of a pod. A pod with another hash is replaced.
	Hash string
}

// newServer returns the server of a TensorBoard.
func newServer(tb *v1beta1.TensorBoard, options *Options) (server, error) {
	address, err := options.url(tb.Namespace, tb.Name)
	if err != nil {
		return server{}, err
	}
	prefix := strings.TrimSuffix(address.Path, "/")
	config, err := json.Marshal(sidecar.Config{PathPrefix: prefix, Sources: sourcesOf(&tb.Spec).All})
	return server{
		URL: address.String(), Prefix: prefix, Config: string(config), Hash: specHash(tb.Spec, string(config)),
	}, err
}

// specHash returns the hash of the inputs of a pod: the configuration of the sidecar, and the spec without the field
// suspend.
func specHash(spec v1beta1.TensorBoardSpec, config string) string {
	spec.Suspend = false
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode(spec) // cannot fail: a hash accepts all writes, and the spec was decoded from JSON
	_, _ = h.Write([]byte(config))
	return strconv.FormatUint(h.Sum64(), 36)
}

// buildPod returns the pod of a TensorBoard. If node is not empty, the pod can run only on that node.
func buildPod(tb *v1beta1.TensorBoard, wanted server, node string, options Options) (*corev1.Pod, error) {
	if len(wanted.Config) > maxConfig {
		return nil, &report.RefusedError{Reason: batchv1beta1.ReasonCreateFailed, Err: fmt.Errorf(
			"the sources in spec.trainingLogFilesets and spec.logDir, with the names of their runs, take %d bytes as JSON, "+
				"but the limit is %d: use fewer sources or shorter paths", len(wanted.Config), maxConfig)}
	}
	resources := corev1.ResourceRequirements{Requests: options.Requests.DeepCopy(), Limits: options.Limits.DeepCopy()}
	if tb.Spec.Resources != nil {
		resources = *tb.Spec.Resources
	}
	image := options.Image
	if tb.Spec.Image != "" {
		image = tb.Spec.Image
	}
	s := sourcesOf(&tb.Spec)
	pod := &corev1.Pod{
		ObjectMeta: objectMeta(tb),
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: ptr.To[int64](10),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{buildSidecar(&options, s)},
			Containers: []corev1.Container{{
				Name:    mainContainer,
				Image:   image,
				Command: []string{"tensorboard"},
				Args: []string{
					"--logdir=" + sidecar.LogsFolder,
					// Only the sidecar can connect, so that it sees every request.
					"--host=127.0.0.1",
					fmt.Sprintf("--port=%d", sidecar.TensorBoardPort),
					"--path_prefix=" + wanted.Prefix,
					// Replicas and restarted jobs write several event files to the same folder.
					"--reload_multifile=true",
				},
				Env:             []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}},
				Resources:       resources,
				SecurityContext: restricted(),
				// To answer /readyz, the sidecar requests a page that TensorBoard cannot return without its data server. So these
				// probes fail if the data server was killed.
				StartupProbe: &corev1.Probe{
					ProbeHandler: health("/readyz"), PeriodSeconds: 2, TimeoutSeconds: 5, FailureThreshold: 150,
				},
				LivenessProbe:            &corev1.Probe{ProbeHandler: health("/readyz"), TimeoutSeconds: 5, FailureThreshold: 6},
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				VolumeMounts: []corev1.VolumeMount{
					{Name: "logs", MountPath: sidecar.LogsFolder, ReadOnly: true},
					{Name: "tmp", MountPath: "/tmp"},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
					Items: []corev1.DownwardAPIVolumeFile{{
						Path:     path.Base(sidecar.ConfigFile),
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + annotationConfig + "']"},
					}},
				}}},
				{
					Name: "logs", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(logsLimit)}},
				},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	if options.User > 0 { // a user ID that the image does not define is also valid
		pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.RunAsGroup = &options.User, &options.User
	}
	pod.Annotations = map[string]string{annotationSpecHash: wanted.Hash, annotationConfig: wanted.Config}
	main := &pod.Spec.Containers[0]
	for i, claim := range s.Claims {
		name := fmt.Sprintf("claim-%d", i)
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{
			Name: name, MountPath: claimsFolder + claim, ReadOnly: true,
		})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	for i, secret := range s.Secrets {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: secretVolume(i), VolumeSource: corev1.VolumeSource{
			// If the Secret is missing, the sidecar reports the problem in the status. With a required Secret, the pod could
			// not start, and only its events would show the problem.
			Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: new(true)},
		}})
	}
	if node != "" {
		pod.Spec.Affinity = affinityTo(node)
	}
	return pod, nil
}

// affinityTo returns an affinity that allows only one node.
func affinityTo(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}}},
	}}
}

// nodeOf returns the only node on which a pod can run, according to its affinity. It is empty if the affinity names
// no node, or more than one.
func nodeOf(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields { // not matchExpressions, which have the node selector of a queue
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// buildSidecar returns the sidecar. Only the sidecar has access to the credentials. The sidecar has no access to the
// claims.
func buildSidecar(options *Options, s sources) corev1.Container {
	container := corev1.Container{
		Name:          sidecarContainer,
		Image:         options.SidecarImage,
		Args:          []string{"sidecar", "--config", sidecar.ConfigFile},
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: sidecar.Port},
			{Name: "health", ContainerPort: sidecar.HealthPort},
		},
		// TensorBoard starts after the sidecar has created the folder of logs.
		StartupProbe:  &corev1.Probe{ProbeHandler: health("/healthz"), PeriodSeconds: 1, FailureThreshold: 60},
		LivenessProbe: &corev1.Probe{ProbeHandler: health("/healthz"), TimeoutSeconds: 5},
		// This probe shows whether TensorBoard is ready. The kubelet cannot probe TensorBoard itself, because only the
		// sidecar can connect to it.
		ReadinessProbe: &corev1.Probe{ProbeHandler: health("/readyz"), PeriodSeconds: 2, TimeoutSeconds: 5},
		Resources: corev1.ResourceRequirements{
			Requests: options.SidecarRequests.DeepCopy(), Limits: options.SidecarLimits.DeepCopy(),
		},
		SecurityContext:          restricted(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: path.Dir(sidecar.ConfigFile), ReadOnly: true},
			{Name: "logs", MountPath: sidecar.LogsFolder},
		},
	}
	for i, secret := range s.Secrets {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: secretVolume(i), MountPath: secretsFolder + secret, ReadOnly: true,
		})
	}
	return container
}

// health returns a probe that requests a path of the sidecar. TensorBoard is probed in this way too, since only the
// sidecar can connect to TensorBoard.
func health(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(sidecar.HealthPort)}}
}

func secretVolume(i int) string { return fmt.Sprintf("secret-%d", i) }

// restricted returns a security context that meets the restricted Pod Security Standard.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// usesClaim reports whether a pod mounts one of the claims.
func usesClaim(pod *corev1.Pod, claims []string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && slices.Contains(claims, v.PersistentVolumeClaim.ClaimName)
	})
}
