package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"tensorstack.dev/jobs/common/bounded"
)

// podReader reads from the API server. It decodes the pods of a list one at a time, and only the fields that the job
// controller reads. The complete pods of a single job can need more memory than the controller has.
type podReader struct {
	client.Reader

	pods rest.Interface
	// strip strips a pod to the fields that the cache keeps.
	strip func(*corev1.Pod)
}

func newPodReader(mgr ctrl.Manager, strip func(*corev1.Pod)) (podReader, error) {
	const asJSON = true // a list in protobuf cannot be decoded item by item
	pods, err := apiutil.RESTClientForGVK(corev1.SchemeGroupVersion.WithKind("Pod"), asJSON, false,
		mgr.GetConfig(), serializer.NewCodecFactory(mgr.GetScheme()), mgr.GetHTTPClient())
	if err != nil {
		return podReader{}, fmt.Errorf("setting up the client for lists of pods: %w", err)
	}
	return podReader{Reader: mgr.GetAPIReader(), pods: pods, strip: strip}, nil
}

// List implements client.Reader.
func (r podReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return r.Reader.List(ctx, list, options...)
	}
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	body, err := r.pods.Get().Namespace(asked.Namespace).Resource("pods").
		VersionedParams(asked.AsListOptions(), metav1.ParameterCodec).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	pods.Items, err = decodePods(body, r.strip)
	if err != nil {
		return fmt.Errorf("reading a list of pods: %w", err)
	}
	return nil
}

// Output reads at most outputLines lines from the end of a container's output, and at most outputBytes bytes of these
// lines.
const (
	outputLines = 1000
	outputBytes = 256 << 10
)

// Output implements controller.Outputs.
func (r podReader) Output(ctx context.Context, namespace, pod, container string) (string, error) {
	asked := &corev1.PodLogOptions{
		Container: container, TailLines: new(int64(outputLines)), LimitBytes: new(int64(outputBytes)),
	}
	body, err := r.pods.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(asked, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer body.Close()
	output, err := io.ReadAll(io.LimitReader(body, outputBytes))
	return strings.ToValidUTF8(string(output), ""), err
}

// listedPod contains the fields of a pod that the job controller reads. Other fields are not decoded.
type listedPod struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		NodeName        string                     `json:"nodeName"`
		SchedulingGroup *corev1.PodSchedulingGroup `json:"schedulingGroup"`
	} `json:"spec"`
	Status corev1.PodStatus `json:"status"`
}

// pod returns the stripped pod with its scheduling group. Pods in the cache do not have the scheduling group.
func (p listedPod) pod(strip func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: p.Metadata, Status: p.Status}
	pod.Spec.NodeName = p.Spec.NodeName
	strip(&pod)
	pod.Spec.SchedulingGroup = p.Spec.SchedulingGroup
	return pod
}

// decodePods decodes the items of a list in JSON. It skips other fields of the list.
func decodePods(body io.Reader, strip func(*corev1.Pod)) ([]corev1.Pod, error) {
	decoder := json.NewDecoder(body)
	if start, err := decoder.Token(); err != nil {
		return nil, err
	} else if start != json.Delim('{') {
		return nil, fmt.Errorf("got %v, want {", start)
	}
	var pods []corev1.Pod
	for decoder.More() {
		key, err := decoder.Token()
		switch {
		case err != nil:
		case key == "items":
			err = bounded.Items(decoder, "items", func(listed listedPod) error {
				pods = append(pods, listed.pod(strip))
				return nil
			})
		default:
			err = decoder.Decode(new(json.RawMessage))
		}
		if err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token() // the end of the list; an error if the body is truncated
	return pods, err
}
