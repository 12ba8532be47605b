package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/preview"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/controller"
)

// ownedKinds are the kinds of the objects that a job controller creates.
var ownedKinds = []schema.GroupVersionKind{
	schedulerv1beta1.GroupVersion.WithKind("PodGroup"),
	kueuev1beta2.GroupVersion.WithKind("Workload"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("Pod"),
	tensorboardv1beta1.GroupVersion.WithKind("TensorBoard"),
}

// workloadCRD is a CustomResourceDefinition for Kueue's Workloads. It accepts all fields.
func workloadCRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "workloads." + kueuev1beta2.GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kueuev1beta2.GroupVersion.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: "Workload", ListKind: "WorkloadList", Plural: "workloads", Singular: "workload",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kueuev1beta2.GroupVersion.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
}

// examplesOfJobs returns the manifests of the examples that have a job. The keys are the names of the examples.
func examplesOfJobs() map[string]string {
	manifests := map[string]string{}
	for _, framework := range []string{"pytorch", "tensorflow", "deepspeed"} {
		files, err := filepath.Glob(filepath.Join("../../examples", framework, "*.yaml"))
		if err != nil || len(files) == 0 {
			panic(fmt.Sprintf("there are no examples of %s: %v", framework, err))
		}
		for _, file := range files {
			name := filepath.Join(framework, filepath.Base(file))
			if content := changed(name); strings.Contains(content, "\napiVersion: batch.tensorstack.dev/") {
				manifests[name] = content
			}
		}
	}
	return manifests
}

// changed returns an example with changes. The parameter texts has pairs: a text of the example and its replacement.
// Only the first occurrence of a text is replaced.
func changed(example string, texts ...string) string {
	content, err := os.ReadFile(filepath.Join("../../examples", example))
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(texts); i += 2 {
		if !bytes.Contains(content, []byte(texts[i])) {
			panic(fmt.Sprintf("%s does not contain %q", example, texts[i]))
		}
		content = bytes.Replace(content, []byte(texts[i]), []byte(texts[i+1]), 1)
	}
	return string(content)
}

var _ = Describe("kubectl train plan", func() {
	// The controllers delay the first status of a job. All jobs are created before the objects of the first job are
	// compared, so that the specs wait only once for the delay.
	Context("for the objects that the controllers create", Ordered, ContinueOnFailure, func() {
		manifests := examplesOfJobs()
		maps.Copy(manifests, map[string]string{
			"a job for Kueue": changed("pytorch/torchrun.yaml",
				"name: digits-torchrun", "name: digits-torchrun\n  labels: {kueue.x-k8s.io/queue-name: lab}"),
			"a job for Kueue with a maximum time and progress": changed("deepspeed/progress.yaml",
				"kind: DeepSpeedJob\nmetadata:", "kind: DeepSpeedJob\nmetadata:\n  labels: {kueue.x-k8s.io/queue-name: lab, "+
					"kueue.x-k8s.io/max-exec-time-seconds: \"600\"}"),
			"an elastic gang": changed("pytorch/elastic.yaml", "spec:", "spec:\n  scheduler: {t9kScheduler: {queue: lab}}"),
			"a gang with a Secret": changed("deepspeed/zero.yaml",
				"spec:", "spec:\n  scheduler: {t9kScheduler: {queue: lab, priority: 3}}"),
			"a gang with a TensorBoard": changed("pytorch/tensorboard.yaml",
				"\nspec:\n  tensorboard", "\nspec:\n  scheduler: {t9kScheduler: {queue: lab}}\n  tensorboard"),
			"a paused job": changed("pytorch/torchrun.yaml", "spec:", "spec:\n  runMode: {pause: {enabled: true}}"),
			"a paused job for a queue": changed("pytorch/torchrun.yaml", "spec:",
				"spec:\n  runMode: {pause: {enabled: true}}\n  scheduler: {t9kScheduler: {queue: lab}}"),
			"a job in debug mode": changed("tensorflow/multi-worker.yaml",
				"spec:", "spec:\n  runMode: {debug: {enabled: true}}"),
			"a job without replicas":      changed("pytorch/torchrun.yaml", "replicas: 2", "replicas: 0"),
			"a job of another controller": changed("pytorch/torchrun.yaml", "spec:", "spec:\n  managedBy: example.com/other"),
		})
		onNodes := map[string]string{
			"a job on the network of nodes": changed("pytorch/torchrun.yaml",
				"        spec:\n", "        spec:\n          hostNetwork: true\n"),
			"a job with a Secret on the network of nodes": changed("deepspeed/zero.yaml",
				"      spec:\n", "      spec:\n        hostNetwork: true\n"),
			"a job with progress on the network of nodes": changed("tensorflow/multi-worker.yaml",
				"spec:", "spec:\n  progress: {enabled: true}", "        spec:\n", "        spec:\n          hostNetwork: true\n"),
		}
		namespaces, created := map[string]namespace{}, map[string]jobs.Job{}
		BeforeAll(func(ctx context.Context) {
			for _, all := range []map[string]string{manifests, onNodes} {
				for name, manifest := range all {
					namespaces[name] = newNamespace(ctx)
					created[name] = namespaces[name].createJob(ctx, manifest)
				}
			}
		})
		for _, name := range slices.Sorted(maps.Keys(manifests)) {
			It("shows those of "+name, func(ctx context.Context) {
				n := namespaces[name]
				n.expectPlanned(ctx, created[name], n.plan(ctx, manifests[name]))
			})
		}
		for _, name := range slices.Sorted(maps.Keys(onNodes)) {
			It("shows those of an existing job with its UID: "+name, func(ctx context.Context) {
				n, job := namespaces[name], created[name]
				job.GetObjectKind().SetGroupVersionKind(job.Kind.GroupVersionKind)
				existing, err := yaml.Marshal(job.Job)
				Expect(err).NotTo(HaveOccurred())
				n.expectPlanned(ctx, job, n.plan(ctx, string(existing)))
			})
		}
	})

	DescribeTable("gives the error of the API server for", func(ctx context.Context, manifest string) {
		n := newNamespace(ctx)
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		requests, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		rejected := requests.RESTClient().Post().
			AbsPath("/apis/batch.tensorstack.dev/v1beta1/namespaces", string(n), "pytorchtrainingjobs").
			Param("fieldValidation", metav1.FieldValidationStrict).SetHeader("Content-Type", "application/yaml").
			Body([]byte(manifest)).Do(ctx).Error()
		Expect(rejected).To(HaveOccurred())
		_, _, err = n.planOffline(ctx, manifest)
		// If a job is invalid, the API server adds a message about rules that it did not check. The message belongs to no
		// field, so it begins with "<nil>: Invalid value: null: ". kubectl train plan leaves out this prefix.
		unchecked := strings.ReplaceAll(rejected.Error(), "<nil>: Invalid value: null: ", "")
		Expect(err).To(MatchError("standard input: " + unchecked))
	},
		Entry("an unknown field", changed("pytorch/torchrun.yaml", "restartPolicy", "restart")),
		Entry("unknown fields of the metadata and of a template", changed("pytorch/torchrun.yaml",
			"metadata:", "metadata:\n  label: {}", "image:", "imgae:")),
		Entry("a field that appears twice", changed("pytorch/torchrun.yaml",
			"replicas: 2", "replicas: 2\n      replicas: 3")),
		Entry("a wrong type", changed("pytorch/torchrun.yaml", "replicas: 2", "replicas: two")),
		Entry("a wrong type of the metadata", changed("pytorch/torchrun.yaml", "metadata:", "metadata:\n  labels: [a]")),
		Entry("a number out of range", changed("pytorch/torchrun.yaml", "replicas: 2", "replicas: -1")),
		Entry("a value that is not in the list", changed("pytorch/torchrun.yaml", "OnFailure", "Sometimes")),
		Entry("a missing field", changed("pytorch/torchrun.yaml", "type: worker", "replicas: 2", "      replicas: 2\n", "")),
		Entry("a missing spec",
			"apiVersion: batch.tensorstack.dev/v1beta1\nkind: PyTorchTrainingJob\nmetadata: {name: digits}\n"),
		Entry("a missing name", changed("pytorch/torchrun.yaml", "name: digits-torchrun", "labels: {a: b}")),
		Entry("a name that is no DNS name", changed("pytorch/torchrun.yaml", "digits-torchrun", "Digits")),
		Entry("a name that a Service cannot have", changed("pytorch/torchrun.yaml", "digits-torchrun", "digits.torchrun")),
		Entry("a name that is too long for the pods", changed("pytorch/torchrun.yaml",
			"digits-torchrun", strings.Repeat("a", 60))),
		Entry("an invalid label", changed("pytorch/torchrun.yaml", "metadata:", "metadata:\n  labels: {a: \"b c\"}")),
		Entry("a rule between fields", changed("pytorch/torchrun.yaml",
			"spec:", "spec:\n  runPolicy: {progressDeadlineSeconds: 60}")),
		Entry("two problems", changed("pytorch/torchrun.yaml",
			"spec:", "spec:\n  runPolicy: {progressDeadlineSeconds: 60}", "name: digits-torchrun", "name: digits.torchrun")),
		Entry("too many items", changed("pytorch/torchrun.yaml", "  replicaSpecs:\n", "  replicaSpecs:\n"+
			strings.Repeat("    - {type: ps, template: {spec: {containers: [{name: a, image: b}]}}}\n", 100))),
		Entry("two items with the same key", changed("pytorch/torchrun.yaml", "  replicaSpecs:\n",
			"  replicaSpecs:\n    - {type: worker, template: {spec: {containers: [{name: a, image: b}]}}}\n")),
		Entry("a text that is too long", changed("pytorch/torchrun.yaml", "type: worker", "type: "+strings.Repeat("a", 300))),
		Entry("too many replicas", changed("pytorch/torchrun.yaml", "replicas: 2", "replicas: 1000000")),
	)
})

// createJob creates the job of a manifest, and returns it as the API server has stored it. createJob skips other
// objects of the manifest.
func (n namespace) createJob(ctx context.Context, manifest string) jobs.Job {
	GinkgoHelper()
	documents, err := preview.Read([]string{"-"}, false, strings.NewReader(manifest))
	Expect(err).NotTo(HaveOccurred())
	for _, d := range documents {
		kind, err := preview.KindOf(d)
		Expect(err).NotTo(HaveOccurred())
		if kind == nil {
			continue
		}
		job := n.object(string(d.Content))
		Expect(api.Create(ctx, job)).To(Succeed())
		created := kind.New()
		Expect(api.Get(ctx, client.ObjectKeyFromObject(job), created)).To(Succeed())
		return jobs.Job{Job: created, Kind: kind}
	}
	Fail("the manifest has no job")
	return jobs.Job{}
}

// planOffline runs kubectl train plan -o yaml without a cluster. The manifest is the standard input. The flags name
// the controller image of this suite.
func (n namespace) planOffline(ctx context.Context, manifest string) (out, errOut string, err error) {
	GinkgoHelper()
	GinkgoT().Setenv("KUBECONFIG", filepath.Join(GinkgoT().TempDir(), "nowhere"))
	var stdout, stderr bytes.Buffer
	cmd := command.New(genericiooptions.IOStreams{In: strings.NewReader(manifest), Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs([]string{
		"plan", "-f", "-", "-o", "yaml", "--namespace", string(n), "--controller-image", "controller:test",
	})
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// plan returns the objects that kubectl train plan prints.
func (n namespace) plan(ctx context.Context, manifest string) []*unstructured.Unstructured {
	GinkgoHelper()
	out, _, err := n.planOffline(ctx, manifest)
	Expect(err).NotTo(HaveOccurred())
	if out == "" {
		return nil
	}
	documents, err := preview.Read([]string{"-"}, false, strings.NewReader(out))
	Expect(err).NotTo(HaveOccurred())
	var planned []*unstructured.Unstructured
	for _, d := range documents {
		object := &unstructured.Unstructured{}
		Expect(yaml.UnmarshalStrict(d.Content, &object.Object)).To(Succeed())
		planned = append(planned, object)
	}
	return planned
}

// expectPlanned expects that the controller creates the planned objects and no others, in the planned order.
func (n namespace) expectPlanned(ctx context.Context, job jobs.Job, planned []*unstructured.Unstructured) {
	GinkgoHelper()
	if job.Spec().RunsHere() {
		Eventually(ctx, func() (int64, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(job.Job), job.Job)
			return job.JobStatus().ObservedGeneration, err
		}).Should(BeNumerically(">", 0))
	}
	uids := []string{string(job.GetUID()), string(controller.UnknownUID)}
	for _, object := range planned {
		switch object.GetKind() {
		case "PodGroup":
			n.admitPodGroup(ctx, object.GetName())
		case "Workload":
			uids = append(uids, string(n.admitWorkload(ctx, object.GetName())), string(controller.UnknownUID))
		}
	}
	unknown := strings.NewReplacer(uids...)
	names := func(objects []*unstructured.Unstructured) []string {
		names := []string{}
		for _, object := range objects {
			names = append(names, object.GetKind()+" "+unknown.Replace(object.GetName()))
		}
		slices.Sort(names)
		return names
	}
	var actual []*unstructured.Unstructured
	Eventually(ctx, func() []string {
		actual = n.owned(ctx, job.GetUID())
		return names(actual)
	}).Should(Equal(names(planned)))
	elsewhere := newNamespace(ctx) // in the namespace of the job, the objects exist already
	var before *unstructured.Unstructured
	for _, want := range planned {
		i := slices.IndexFunc(actual, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == want.GetKind() && unknown.Replace(o.GetName()) == unknown.Replace(want.GetName())
		})
		got := actual[i]
		defaulted := want.DeepCopy()
		defaulted.SetNamespace(string(elsewhere))
		if want.GetKind() == "Secret" { // the planned Secret has no key, but the API server requires one
			Expect(unstructured.SetNestedField(defaulted.Object, "eA==", "data", corev1.SSHAuthPrivateKey)).To(Succeed())
		}
		Expect(api.Create(ctx, defaulted, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))).
			To(Succeed(), "%s %s", want.GetKind(), want.GetName())
		Expect(cmp.Diff(withoutServer(got, unknown), withoutServer(defaulted, unknown))).To(BeEmpty(),
			"%s %s (-created +planned)", want.GetKind(), want.GetName())
		// Resource versions show the order of creation, except of pods, which the controller creates in parallel, and of a
		// PodGroup or Workload, whose later status write has raised the version.
		if before != nil && before.GetKind() != got.GetKind() && before.GetKind() != "PodGroup" &&
			before.GetKind() != "Workload" {
			order, err := resourceversion.CompareResourceVersion(before.GetResourceVersion(), got.GetResourceVersion())
			Expect(err).NotTo(HaveOccurred())
			Expect(order).To(BeNumerically("<", 0), "%s %s is created too early", got.GetKind(), got.GetName())
		}
		before = got
	}
}

// withoutServer returns the content of an object without the fields that the API server sets, and with fixed texts in
// place of random values.
func withoutServer(object *unstructured.Unstructured, unknown *strings.Replacer) map[string]any {
	GinkgoHelper()
	object = object.DeepCopy()
	delete(object.Object, "status")
	for _, field := range []string{
		"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace",
	} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if annotations := object.GetAnnotations(); annotations[batchv1beta1.AnnotationProgressToken] != "" {
		annotations[batchv1beta1.AnnotationProgressToken] = "(random)"
		object.SetAnnotations(annotations)
	}
	if data, ok := object.Object["data"].(map[string]any); ok && object.GetKind() == "Secret" {
		for key := range data {
			data[key] = ""
		}
	}
	text, err := json.Marshal(object.Object)
	Expect(err).NotTo(HaveOccurred())
	content := map[string]any{}
	Expect(json.Unmarshal([]byte(unknown.Replace(string(text))), &content)).To(Succeed())
	return content
}

// owned returns the objects that a job controls.
func (n namespace) owned(ctx context.Context, job types.UID) []*unstructured.Unstructured {
	GinkgoHelper()
	var owned []*unstructured.Unstructured
	for _, kind := range ownedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(api.List(ctx, list, client.InNamespace(n))).To(Succeed())
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == job {
				owned = append(owned, &list.Items[i])
			}
		}
	}
	return owned
}

// admitPodGroup admits a PodGroup as the scheduler-controller does for a queue without a quota.
func (n namespace) admitPodGroup(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		var group schedulerv1beta1.PodGroup
		if err := api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: name}, &group); err != nil {
			return err
		}
		group.Status.ObservedGeneration = group.Generation
		group.Status.Conditions = []metav1.Condition{{
			Type: schedulerv1beta1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: schedulerv1beta1.ReasonAdmitted,
			LastTransitionTime: metav1.Now(),
		}}
		return api.Status().Update(ctx, &group)
	}).Should(Succeed())
}

// admitWorkload admits a Workload as Kueue does for flavors without node labels, and returns its UID.
func (n namespace) admitWorkload(ctx context.Context, name string) types.UID {
	GinkgoHelper()
	workload := &unstructured.Unstructured{}
	workload.SetGroupVersionKind(kueuev1beta2.GroupVersion.WithKind("Workload"))
	Eventually(ctx, func() error {
		if err := api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: name}, workload); err != nil {
			return err
		}
		workload.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": kueuev1beta2.ConditionAdmitted, "status": "True", "reason": "Admitted", "message": "",
			"lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z"),
		}}}
		return api.Status().Update(ctx, workload)
	}).Should(Succeed())
	return workload.GetUID()
}
