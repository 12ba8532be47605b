package tensorboard

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/common/report"
)

// If a new version of the controller computed another hash for the same spec, an upgrade would replace every pod.
func TestThePodOfAnEarlierVersionIsNotReplaced(t *testing.T) {
	t.Parallel()
	tb := &v1beta1.TensorBoard{Spec: v1beta1.TensorBoardSpec{
		Image: "example/tensorboard:1", TrainingLogFilesets: []v1beta1.FilesetURI{"t9k://pvc/data/logs?a=1&b=<2>"},
	}}
	options := DefaultOptions()
	options.URLTemplate = "https://example.org/boards/board/"
	wanted, err := newServer(tb, &options)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := buildPod(tb, wanted, "", options)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pod.Annotations[annotationSpecHash], "1k90g8exwnim0"; got != want {
		t.Errorf("the hash of the spec is %s, but earlier versions of the controller computed %s", got, want)
	}
}

// If a ResourceQuota counts a request or limit of CPU or memory, the API server rejects pods with a container that
// does not set this value.
func TestTheContainersOfATensorBoardHaveAllValuesThatAQuotaCanRequire(t *testing.T) {
	t.Parallel()
	pod, err := buildPod(&v1beta1.TensorBoard{}, server{}, "", DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for list, values := range map[string]corev1.ResourceList{
			"requests": c.Resources.Requests, "limits": c.Resources.Limits,
		} {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if values.Name(name, "").IsZero() {
					t.Errorf("the container %s has no %s.%s", c.Name, list, name)
				}
			}
		}
	}
}

// Without --reload_multifile, TensorBoard reads only the newest event file of each folder. Replicas, and a job that
// restarts, write several files to a folder.
func TestTensorBoardReadsAllEventFilesOfAFolder(t *testing.T) {
	t.Parallel()
	pod, err := buildPod(&v1beta1.TensorBoard{}, server{}, "", DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if args := pod.Spec.Containers[0].Args; !slices.Contains(args, "--reload_multifile=true") {
		t.Errorf("got arguments %q, want --reload_multifile=true", args)
	}
}

func TestThePodIsNotBuiltIfTheSourcesAreTooLarge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size int
		want string
	}{
		"a configuration of the maximum size is accepted": {size: maxConfig},
		"a configuration that is one byte larger is refused": {
			size: maxConfig + 1,
			want: "the sources in spec.trainingLogFilesets and spec.logDir, with the names of their runs, take 245761 bytes " +
				"as JSON, but the limit is 245760: use fewer sources or shorter paths",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := buildPod(&v1beta1.TensorBoard{}, server{Config: strings.Repeat("x", tc.size)}, "", DefaultOptions())
			var refused *report.RefusedError
			switch isRefused := errors.As(err, &refused); {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (!isRefused || refused.Reason != batchv1beta1.ReasonCreateFailed || err.Error() != tc.want):
				t.Errorf("got error %v, want the error %q with the reason CreateFailed", err, tc.want)
			}
		})
	}
}

func TestTheNetworkPolicyOfATensorBoardAllows(t *testing.T) {
	t.Parallel()
	const controllerRule = `
  - from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: t9k-tensorboard}}}]
    ports: [{protocol: TCP, port: 8080}]
`
	for name, tc := range map[string]struct {
		allowed *metav1.LabelSelector
		want    string
	}{
		"access from its namespace, and from the controller to the health port": {want: `
podSelector: {matchLabels: {tensorstack.dev/tensorboard: board}}
policyTypes: [Ingress]
ingress:
  - from: [{podSelector: {}}]
    ports: [{protocol: TCP, port: 6006}]` + controllerRule},
		"access from the namespaces that the flag selects": {
			allowed: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "gateway"}}, want: `
podSelector: {matchLabels: {tensorstack.dev/tensorboard: board}}
policyTypes: [Ingress]
ingress:
  - from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {role: gateway}}}]
    ports: [{protocol: TCP, port: 6006}]` + controllerRule,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := &v1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "board", UID: "board-uid"}}
			want := &networkingv1.NetworkPolicy{ObjectMeta: objectMeta(tb)}
			if err := yaml.UnmarshalStrict([]byte(tc.want), &want.Spec); err != nil {
				t.Fatal(err)
			}
			options := &Options{
				NetworkPolicies: network.Policies{Enabled: true, AllowedNamespaces: tc.allowed}, Namespace: "t9k-tensorboard",
			}
			got := buildNetworkPolicy(tb, options)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected NetworkPolicy (-want +got):\n%s", diff)
			}
			options.strip(got)
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("the cache does not keep the expected spec (-want +got):\n%s", diff)
			}
		})
	}
}
