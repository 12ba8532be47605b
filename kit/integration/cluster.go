// Package integration is what the integration tests of every kind of job share: a controller that runs against a real
// API server, what tests do with its jobs and their pods, and the input that every kind refuses or takes. It is made
// for Ginkgo.
//
// The suite of a kind is a package test in its module, which says what its controller and its plainest job are:
//
//	var cluster = &integration.Cluster[*v1beta1.MyJob]{Controller: my.Controller(), Namespace: "t9k-my", Valid: valid}
//
//	func TestIntegration(t *testing.T) { cluster.RunSpecs(t) }
package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/kubelet"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/common/network"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/suite"
)

// StatusInterval is that of the controller: shorter than its default, since specs wait for what it writes.
const StatusInterval = 500 * time.Millisecond

// config is where the CRD and the RBAC of the controller are, seen from its tests.
const config = "../config"

// Cluster is an API server on which the controller of a kind of job runs, with the CRD and the rights that it is
// shipped with. There is no kubelet: pods run and end when a test says so.
type Cluster[J framework.Job] struct {
	// Controller of the jobs.
	Controller manager.Controller[J]
	// Namespace that the controller is installed in.
	Namespace string
	// Valid is the manifest of a job that the API server takes. It is named job, and has at most ten replicas, of type
	// worker. Tests make other jobs of it by merge patches, as users would write them.
	Valid string
	// ConfigFolder has the CRD and the RBAC of the controller; empty is ../config.
	ConfigFolder string
	// NetworkPolicies are the settings of the controller. If they are enabled, it has the rights of its component
	// networkpolicies, too.
	NetworkPolicies network.Policies
	// HoldLeaders reports whether the controller holds the pods of leaders.
	HoldLeaders bool
	// Wrap is put around what the controller asks of the API server; nil for nothing.
	Wrap func(http.RoundTripper) http.RoundTripper

	// ControlPlane is there while specs run. Its Client may do everything.
	*controlplane.ControlPlane
}

// RunSpecs runs all specs of the package, with the controller beside them. They take long: a short run skips them.
func (c *Cluster[J]) RunSpecs(t *testing.T) {
	t.Helper()
	BeforeSuite(c.start)
	suite.Run(t, c.Controller.Name)
}

func (c *Cluster[J]) start() {
	options := controller.DefaultOptions()
	options.StatusInterval = StatusInterval
	options.PeerGrace = time.Second
	options.FailureWindow = 0 // these pods report when the test says so
	options.DependentRetry = time.Second
	options.NetworkPolicies = c.NetworkPolicies
	options.HoldLeaders = c.HoldLeaders
	shipped := suite.Controller{
		Program: c.Controller.Program(options), Namespace: c.Namespace, ConfigFolder: cmp.Or(c.ConfigFolder, config),
		Wrap: c.Wrap,
	}
	if c.NetworkPolicies.Enabled {
		shipped.Components = []string{"networkpolicies"}
	}
	c.ControlPlane = shipped.Start()
}

// NewNamespace returns the name of a fresh namespace.
func (c *Cluster[J]) NewNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(c.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// Manifest returns the valid job with merge patches applied, one after the other.
func (c *Cluster[J]) Manifest(namespace string, patches ...string) *unstructured.Unstructured {
	GinkgoHelper()
	document := asJSON(c.Valid)
	for _, patch := range patches {
		var err error
		document, err = jsonpatch.MergePatch(document, asJSON(patch))
		Expect(err).NotTo(HaveOccurred())
	}
	job := &unstructured.Unstructured{}
	Expect(json.Unmarshal(document, job)).To(Succeed())
	job.SetNamespace(namespace)
	return job
}

func asJSON(document string) []byte {
	GinkgoHelper()
	content, err := yaml.YAMLToJSON([]byte(document))
	Expect(err).NotTo(HaveOccurred())
	return content
}

// Create creates the valid job with merge patches applied.
func (c *Cluster[J]) Create(ctx context.Context, namespace string, patches ...string) J {
	GinkgoHelper()
	manifest := c.Manifest(namespace, patches...)
	Expect(c.Client.Create(ctx, manifest)).To(Succeed())
	job := c.Controller.Framework.NewJob()
	job.SetNamespace(namespace)
	job.SetName(manifest.GetName())
	return c.Get(ctx, job)
}

// Start creates a job in a namespace of its own, and returns it once it has so many pods.
func (c *Cluster[J]) Start(ctx context.Context, pods int, patches ...string) J {
	GinkgoHelper()
	job := c.Create(ctx, c.NewNamespace(ctx), patches...)
	Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(pods))
	return job
}

// Get reads a job anew, in place.
func (c *Cluster[J]) Get(ctx context.Context, job J) J {
	GinkgoHelper()
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
	return job
}

// Edit applies a merge patch to a job, as kubectl patch does.
func (c *Cluster[J]) Edit(ctx context.Context, job J, patch string) {
	GinkgoHelper()
	Expect(c.patch(ctx, job, patch)).To(Succeed())
}

func (c *Cluster[J]) patch(ctx context.Context, job J, patch string, options ...client.PatchOption) error {
	GinkgoHelper()
	edited := job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is one
	return c.Client.Patch(ctx, edited, client.RawPatch(types.MergePatchType, asJSON(patch)), options...)
}

// Scale scales a job, as kubectl scale does: without a resourceVersion, since the controller may write to the job at
// the same time.
func (c *Cluster[J]) Scale(ctx context.Context, job J, replicas int) error {
	scaled := job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is one
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	return c.Client.SubResource("scale").Patch(ctx, scaled, client.RawPatch(types.MergePatchType, patch))
}

// Phase returns a function that reads a job anew and returns its phase, for Eventually.
func (c *Cluster[J]) Phase(ctx context.Context, job J) func() batchv1beta1.JobPhase {
	return func() batchv1beta1.JobPhase { return c.Get(ctx, job).JobStatus().Phase }
}

// Aggregate returns a function that reads a job anew and returns how many replicas are in which phase, for Eventually.
func (c *Cluster[J]) Aggregate(ctx context.Context, job J) func() *batchv1beta1.Aggregate {
	return func() *batchv1beta1.Aggregate { return c.Get(ctx, job).JobStatus().Aggregate }
}

// Condition returns a condition of the job as it was read last, or an empty one.
func Condition(job framework.Job, conditionType string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(job.JobStatus().Conditions, conditionType), metav1.Condition{})
}

// PodNames returns the names of the job's pods.
func (c *Cluster[J]) PodNames(ctx context.Context, job J) []string {
	GinkgoHelper()
	kind, err := c.Client.GroupVersionKindFor(job)
	Expect(err).NotTo(HaveOccurred())
	var pods corev1.PodList
	Expect(c.Client.List(ctx, &pods, client.InNamespace(job.GetNamespace()),
		client.MatchingLabels{batchv1beta1.LabelJobName: job.GetName(), batchv1beta1.LabelJobKind: kind.Kind})).To(Succeed())
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	return names
}

// Pods returns a function that returns the names of the job's pods, for Eventually.
func (c *Cluster[J]) Pods(ctx context.Context, job J) func() []string {
	return func() []string { return c.PodNames(ctx, job) }
}

// Pod returns a pod in the job's namespace.
func (c *Cluster[J]) Pod(ctx context.Context, job J, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(c.Client.Get(ctx, client.ObjectKey{Namespace: job.GetNamespace(), Name: name}, pod)).To(Succeed())
	return pod
}

// Replacement waits for a pod of the name that is not the given one, and returns it.
func (c *Cluster[J]) Replacement(ctx context.Context, old *corev1.Pod) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Eventually(ctx, func() bool {
		return c.Client.Get(ctx, client.ObjectKeyFromObject(old), pod) == nil && pod.UID != old.UID
	}).Should(BeTrue(), "a new pod %s", old.Name)
	return pod
}

// Run lets pods run, as a kubelet would.
func (c *Cluster[J]) Run(ctx context.Context, job J, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(c.ChangePod(ctx, c.Pod(ctx, job, name), func(p *corev1.Pod) { kubelet.Run(p, "", time.Now()) })).To(Succeed())
	}
}

// Exit ends the first container of a pod, which it returns as it was.
func (c *Cluster[J]) Exit(ctx context.Context, job J, name string, code int32, output string) *corev1.Pod {
	GinkgoHelper()
	pod := c.Pod(ctx, job, name)
	Expect(c.ChangePod(ctx, pod, func(p *corev1.Pod) { kubelet.Exit(p, code, output, time.Now()) })).To(Succeed())
	return pod
}

// EventReasons returns the reasons of the events of a job.
func (c *Cluster[J]) EventReasons(ctx context.Context, job J) []string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(c.Client.List(ctx, &list, client.InNamespace(job.GetNamespace()))).To(Succeed())
	var reasons []string
	for _, e := range list.Items {
		if e.Regarding.Name == job.GetName() && strings.HasPrefix(e.ReportingController, "tensorstack") {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// ExpectWriteBudget waits for the last event of a job that succeeded without a failure, and checks what it has cost the
// API server: one write a pod, one Service, two of the Secret if its kind has one, four of its status and four events
// at most, and nothing else.
func (c *Cluster[J]) ExpectWriteBudget(ctx context.Context, job J, pods int) {
	GinkgoHelper()
	// Events are written asynchronously; the last one is the job's end.
	Eventually(ctx, func() []string { return c.EventReasons(ctx, job) }).Should(ContainElement("Completed"))
	Expect(c.EventReasons(ctx, job)).To(ConsistOf("Created", "Running", "Completed"))

	writes := func(path string) int { return len(c.Writes.In(job.GetNamespace(), path)) }
	Expect(writes("/pods")).To(Equal(pods), "one write a pod")
	Expect(writes("/services")).To(Equal(1))
	secrets := 0
	if _, hasSecret := c.Controller.Framework.(framework.SecretFramework[J]); hasSecret {
		secrets = 2
	}
	Expect(writes("/secrets")).To(Equal(secrets), "it is created, and deleted when the run is over")
	Expect(writes("/status")).To(BeNumerically("<=", 4))
	Expect(writes("/events")).To(BeNumerically("<=", 4))
	other := writes(
		"/",
	) - writes(
		"/pods",
	) - writes(
		"/services",
	) - writes(
		"/secrets",
	) - writes(
		"/status",
	) - writes(
		"/events",
	)
	Expect(other).To(BeZero(), "nothing else is written: %v", c.Writes.In(job.GetNamespace(), "/"))
}
