// Package integration contains the shared parts of the integration tests of all job kinds. It runs a controller
// against a real API server, provides helpers for jobs and their pods, and defines tables of valid and invalid input
// for every kind. The tests use Ginkgo.
//
// The integration tests of a kind are in the package test of its module. That package defines the controller and a
// valid job:
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

// StatusInterval is how long the controller batches status changes before a write. It is shorter than the default,
// because the specs wait for status writes.
const StatusInterval = 500 * time.Millisecond

// config is the folder with the CRD and the RBAC of the controller, relative to its tests.
const config = "../config"

// Cluster is an API server on which the controller of a job kind runs with its shipped CRD and permissions. There is no
// kubelet. Tests start and end pods.
type Cluster[J framework.Job] struct {
	// Controller of the jobs.
	Controller framework.Controller[J]
	// Namespace in which the controller is installed.
	Namespace string
	// Valid is the manifest of a valid job. Its name is job, and it has at most ten replicas of type worker. Tests create
	// other jobs from it by merge patches.
	Valid string
	// ConfigFolder contains the CRD and the RBAC of the controller. Empty means ../config.
	ConfigFolder string
	// NetworkPolicies are the settings of the controller for NetworkPolicies. If they are enabled, the controller also
	// gets the permissions of its kustomize component networkpolicies.
	NetworkPolicies network.Policies
	// HoldLeaders reports whether the controller holds the pods of leaders.
	HoldLeaders bool
	// Wrap wraps the transport of the controller's requests to the API server. Nil means no wrapper.
	Wrap func(http.RoundTripper) http.RoundTripper

	// ControlPlane is set while the specs run. Its Client has all permissions.
	*controlplane.ControlPlane
}

// RunSpecs runs all specs of the package with the controller. With -short, it skips them, because they take long.
func (c *Cluster[J]) RunSpecs(t *testing.T) {
	t.Helper()
	BeforeSuite(c.start)
	suite.Run(t, c.Controller.Name)
}

func (c *Cluster[J]) start() {
	options := controller.DefaultOptions()
	options.StatusInterval = StatusInterval
	options.PeerGrace = time.Second
	options.FailureWindow = 0 // no need to wait for further failures: the tests report all of them
	options.DependentRetry = time.Second
	options.NetworkPolicies = c.NetworkPolicies
	options.HoldLeaders = c.HoldLeaders
	shipped := suite.Controller{
		Program:   manager.JobProgram(c.Controller, options),
		Namespace: c.Namespace, ConfigFolder: cmp.Or(c.ConfigFolder, config),
		Wrap: c.Wrap,
	}
	if c.NetworkPolicies.Enabled {
		shipped.Components = []string{"networkpolicies"}
	}
	c.ControlPlane = shipped.Start()
}

// NewNamespace creates a namespace and returns its name.
func (c *Cluster[J]) NewNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(c.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// Manifest applies merge patches to the valid job, one after the other, and returns the result.
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

// Create applies merge patches to the valid job, creates the result, and returns it.
func (c *Cluster[J]) Create(ctx context.Context, namespace string, patches ...string) J {
	GinkgoHelper()
	manifest := c.Manifest(namespace, patches...)
	Expect(c.Client.Create(ctx, manifest)).To(Succeed())
	job := c.Controller.Framework.NewJob()
	job.SetNamespace(namespace)
	job.SetName(manifest.GetName())
	return c.Get(ctx, job)
}

// Start creates a job in a new namespace, and returns it once it has the given number of pods.
func (c *Cluster[J]) Start(ctx context.Context, pods int, patches ...string) J {
	GinkgoHelper()
	job := c.Create(ctx, c.NewNamespace(ctx), patches...)
	Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(pods))
	return job
}

// Get reads the current state of a job into the object, and returns the object.
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

// Scale scales a job as kubectl scale does. It sends no resourceVersion, because the controller can write to the job at
// the same time.
func (c *Cluster[J]) Scale(ctx context.Context, job J, replicas int) error {
	scaled := job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is one
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	return c.Client.SubResource("scale").Patch(ctx, scaled, client.RawPatch(types.MergePatchType, patch))
}

// Phase returns a function for Eventually that reads a job and returns its phase.
func (c *Cluster[J]) Phase(ctx context.Context, job J) func() batchv1beta1.JobPhase {
	return func() batchv1beta1.JobPhase { return c.Get(ctx, job).JobStatus().Phase }
}

// Aggregate returns a function for Eventually that reads a job and returns the number of replicas in each phase.
func (c *Cluster[J]) Aggregate(ctx context.Context, job J) func() *batchv1beta1.Aggregate {
	return func() *batchv1beta1.Aggregate { return c.Get(ctx, job).JobStatus().Aggregate }
}

// Condition returns a condition from the status of the job object, or an empty condition if there is none.
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

// Pods returns a function for Eventually that returns the names of the job's pods.
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

// Replacement waits for a new pod with the name of the old one, and returns it.
func (c *Cluster[J]) Replacement(ctx context.Context, old *corev1.Pod) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Eventually(ctx, func() bool {
		return c.Client.Get(ctx, client.ObjectKeyFromObject(old), pod) == nil && pod.UID != old.UID
	}).Should(BeTrue(), "pod %s is replaced", old.Name)
	return pod
}

// Run starts pods, as a kubelet does.
func (c *Cluster[J]) Run(ctx context.Context, job J, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(c.ChangePod(ctx, c.Pod(ctx, job, name), func(p *corev1.Pod) { kubelet.Run(p, "", time.Now()) })).To(Succeed())
	}
}

// Exit ends the main container of a pod. It returns the pod as it was before.
func (c *Cluster[J]) Exit(ctx context.Context, job J, name string, code int32, output string) *corev1.Pod {
	GinkgoHelper()
	pod := c.Pod(ctx, job, name)
	Expect(c.ChangePod(ctx, pod, func(p *corev1.Pod) { kubelet.Exit(p, code, output, time.Now()) })).To(Succeed())
	return pod
}

// EventReasons returns the reasons of the events that the controllers of this project report for a job.
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

// ExpectWriteBudget waits for the last event of a job that succeeded without a failure, and checks the number of
// writes to the API server. It expects one write for each pod, one for the Service, two for the Secret if the kind
// has one, at most four for the status, and at most four for events.
func (c *Cluster[J]) ExpectWriteBudget(ctx context.Context, job J, pods int) {
	GinkgoHelper()
	// Events are written asynchronously. The last event reports the end of the job.
	Eventually(ctx, func() []string { return c.EventReasons(ctx, job) }).Should(ContainElement("Completed"))
	Expect(c.EventReasons(ctx, job)).To(ConsistOf("Created", "Running", "Completed"))

	writes := func(path string) int { return len(c.Writes.In(job.GetNamespace(), path)) }
	Expect(writes("/pods")).To(Equal(pods), "one write for each pod")
	Expect(writes("/services")).To(Equal(1))
	secrets := 0
	if _, hasSecret := c.Controller.Framework.(framework.SecretFramework[J]); hasSecret {
		secrets = 2
	}
	Expect(writes("/secrets")).To(Equal(secrets), "the Secret is created once and deleted when the job ends")
	Expect(writes("/status")).To(BeNumerically("<=", 4))
	Expect(writes("/events")).To(BeNumerically("<=", 4))
	other := writes("/") - writes("/pods") - writes("/services") - writes("/secrets") - writes("/status") -
		writes("/events")
	Expect(other).To(BeZero(), "the number of writes to other objects, among %v", c.Writes.In(job.GetNamespace(), "/"))
}
