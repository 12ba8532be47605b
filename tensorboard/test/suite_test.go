// Package test runs the tensorboard-controller against a real API server, with the CRD and the RBAC that are shipped.
// There is no kubelet. The tests change the status of pods, and run servers in place of the sidecars.
package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/suite"
	"tensorstack.dev/jobs/tensorboard"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

var plane *controlplane.ControlPlane

func TestIntegration(t *testing.T) { suite.Run(t, "tensorboard-controller") }

// options returns the options of the controller. The probe interval is short. The idle times have their default values,
// because the sidecars of the tests can report any idle time.
func options() tensorboard.Options {
	o := tensorboard.DefaultOptions()
	o.ProbeInterval = 50 * time.Millisecond
	return o
}

var _ = BeforeSuite(func() {
	plane = suite.Controller{
		Program: tensorboard.Program(options()), Namespace: "t9k-tensorboard", ConfigFolder: "../config",
	}.Start()
})

// newNamespace creates a namespace that enforces the restricted Pod Security Standard, and returns its name.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "test-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(plane.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// manifest returns a TensorBoard with the name "board" and the given spec.
func manifest(namespace, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "tensorstack.dev/v1beta1", "kind": "TensorBoard"},
	}
	object.SetNamespace(namespace)
	object.SetName("board")
	var content map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed())
	object.Object["spec"] = content
	return object
}

// create creates a TensorBoard with the name "board" and the given spec.
func create(ctx context.Context, namespace, spec string) *v1beta1.TensorBoard {
	GinkgoHelper()
	object := manifest(namespace, spec)
	Expect(plane.Client.Create(ctx, object)).To(Succeed())
	tb := &v1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object.GetName()}}
	return get(ctx, tb)
}

// get reads an object again.
func get[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(plane.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// patch applies a merge patch, as a user would.
func patch(ctx context.Context, object client.Object, content string) {
	GinkgoHelper()
	document, err := yaml.YAMLToJSON([]byte(content))
	Expect(err).NotTo(HaveOccurred())
	Expect(plane.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", document))).To(Succeed())
}

// podOf waits for the pod of a TensorBoard and returns it.
func podOf(ctx context.Context, tb *v1beta1.TensorBoard) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tb.Namespace, Name: tb.Name + "-tb"}}
	Eventually(ctx, func() error { return plane.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod) }).Should(Succeed())
	return pod
}

// board is a server that responds in place of a sidecar.
type board struct {
	status  atomic.Pointer[sidecar.Status]
	address string
}

// boards is the number of boards. Each has a separate loopback address, because all use the same port.
var boards atomic.Int32

// newBoard starts a board.
func newBoard(ctx context.Context) *board {
	GinkgoHelper()
	b := &board{address: fmt.Sprintf("127.1.%d.%d", GinkgoParallelProcess(), boards.Add(1))}
	b.status.Store(&sidecar.Status{})
	mux := http.NewServeMux()
	mux.HandleFunc(sidecar.StatusPath, func(w http.ResponseWriter, _ *http.Request) {
		defer GinkgoRecover()
		Expect(json.NewEncoder(w).Encode(b.status.Load())).To(Succeed())
	})
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("%s:%d", b.address, sidecar.HealthPort))
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return b
}

// idleFor sets the idle time that the sidecar reports.
func (b *board) idleFor(d time.Duration) {
	b.status.Store(&sidecar.Status{IdleSeconds: int64(d / time.Second)})
}

// run makes a pod run on a node and become ready, like the kubelet. The board responds at the address of the pod.
func (b *board) run(ctx context.Context, pod *corev1.Pod, node string) {
	GinkgoHelper()
	Expect(plane.ChangePod(ctx, pod, func(pod *corev1.Pod) {
		pod.Spec.NodeName = node
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = b.address
		pod.Status.PodIPs = []corev1.PodIP{{IP: b.address}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})).To(Succeed())
}

// end waits until a pod is being deleted. Then it removes the pod, as a kubelet does.
func end(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func() bool { return get(ctx, pod).DeletionTimestamp.IsZero() }).Should(BeFalse())
	Expect(plane.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})).To(Succeed())
}

// condition returns the status and the reason of a condition, or "none" if there is no such condition.
func condition(tb *v1beta1.TensorBoard, name string) string {
	for _, c := range tb.Status.Conditions {
		if c.Type == name {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

// state returns a function that reads the phase of a TensorBoard and its conditions Ready and Idle, for Eventually.
func state(ctx context.Context, tb *v1beta1.TensorBoard) func() []string {
	return func() []string {
		get(ctx, tb)
		return []string{string(tb.Status.Phase), condition(tb, v1beta1.ConditionReady), condition(tb, v1beta1.ConditionIdle)}
	}
}

// eventReasons returns a function that lists the reasons of the events of a TensorBoard, for Eventually.
func eventReasons(ctx context.Context, tb *v1beta1.TensorBoard) func() []string {
	return func() []string {
		var events eventsv1.EventList
		Expect(plane.Client.List(ctx, &events, client.InNamespace(tb.Namespace))).To(Succeed())
		var reasons []string
		for i := range events.Items {
			if events.Items[i].Regarding.UID == tb.UID {
				reasons = append(reasons, events.Items[i].Reason)
			}
		}
		return reasons
	}
}
