package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

var _ = Describe("kubectl train run", func() {
	It("starts a job that owns its code", func(ctx context.Context) {
		n := newNamespace(ctx)
		out, errOut, err := n.train(ctx, n.digits("--detach", "-o", "name", "--nodes=2")...)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("configmap/digits-code\npytorchtrainingjob.batch.tensorstack.dev/digits\n"))
		Expect(errOut).To(HavePrefix("ptjob/digits is created with 2 files of /"))

		job := n.job(ctx, "digits")
		Expect(job.Spec().RunMode).To(BeNil(), "the job is not paused anymore")
		Expect(job.GetAnnotations()).To(HaveKeyWithValue("train.tensorstack.dev/code", MatchRegexp("^sha256:[0-9a-f]{64}$")))
		Expect(job.GetAnnotations()).NotTo(HaveKey("train.tensorstack.dev/preparing"))
		var code corev1.ConfigMap
		Expect(api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: "digits-code"}, &code)).To(Succeed())
		Expect(code.Data).To(HaveKeyWithValue("train.py", "print()\n"))
		Expect(code.Data).To(HaveKeyWithValue("models__net.py", "pass\n"))
		Expect(*code.Immutable).To(BeTrue())
		Expect(code.OwnerReferences).To(ConsistOf(HaveField("UID", job.GetUID())))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
	})

	It("prints the state of the job until it has succeeded", func(ctx context.Context) {
		n := newNamespace(ctx)
		following := n.start(ctx, n.digits()...)
		Eventually(following.messages).Should(ContainSubstring("ptjob/digits waits: "))
		n.run(ctx, "digits-worker-0")
		Eventually(following.messages).Should(ContainSubstring("ptjob/digits runs\n"))
		n.exit(ctx, "digits-worker-0", 0, "")
		Eventually(following.ended).Should(Receive(BeNil()))
		Expect(following.messages()).To(MatchRegexp(`ptjob/digits has succeeded after \d+s\n$`))
	})

	It("ends with exit code 2 and the last output if the job fails", func(ctx context.Context) {
		n := newNamespace(ctx)
		following := n.start(ctx, n.digits()...)
		n.run(ctx, "digits-worker-0")
		n.exit(ctx, "digits-worker-0", 1, "ValueError: the data has no \x1b[31mlabels")
		var err error
		Eventually(following.ended).Should(Receive(&err))
		Expect(command.ExitCode(err)).To(Equal(2))
		Expect(err).To(MatchError(MatchRegexp(
			`^ptjob/digits has failed after \d+s: replica digits-worker-0 \(rank 0\) failed with exit code 1`)))
		Expect(err).To(MatchError(HaveSuffix(
			"\nValueError: the data has no labels\nTo see why: kubectl train why " + n.typed("ptjob/digits"))))
	})

	It("detaches when a signal ends it, and names the commands to come back", func(ctx context.Context) {
		n := newNamespace(ctx)
		following := n.start(ctx, n.digits()...)
		n.run(ctx, "digits-worker-0")
		Eventually(following.messages).Should(ContainSubstring("ptjob/digits runs\n"))
		following.interrupt()
		var err error
		Eventually(following.ended).Should(Receive(&err))
		Expect(command.ExitCode(err)).To(Equal(130))
		Expect(following.messages()).To(HaveSuffix("ptjob/digits goes on. To see it again: " +
			"kubectl train watch " + n.typed("ptjob/digits") + ", kubectl train logs -f " + n.typed("ptjob/digits") + "\n"))
		Expect(n.job(ctx, "digits").Spec().RunMode).To(BeNil())
	})

	It("shows a pause and goes on after it", func(ctx context.Context) {
		n := newNamespace(ctx)
		following := n.start(ctx, n.digits()...)
		n.run(ctx, "digits-worker-0")
		Eventually(following.messages).Should(ContainSubstring("ptjob/digits runs\n"))
		n.patch(ctx, "digits", `{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
		Eventually(following.messages).Should(HaveSuffix(
			"To continue it: kubectl train resume " + n.typed("ptjob/digits") + "\n"))
		n.patch(ctx, "digits", `{"spec": {"runMode": {"pause": {"enabled": false}}}}`)
		n.run(ctx, "digits-worker-0")
		n.exit(ctx, "digits-worker-0", 0, "")
		Eventually(following.ended).Should(Receive(BeNil()))
	})

	It("proposes another user if the image runs as root", func(ctx context.Context) {
		n := newNamespace(ctx)
		following := n.start(ctx, n.digits()...)
		n.changePod(ctx, "digits-worker-0", func(status *corev1.PodStatus, _ []corev1.Container) {
			status.ContainerStatuses = []corev1.ContainerStatus{{Name: "pytorch", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{
					Reason: "CreateContainerConfigError", Message: "container has runAsNonRoot and image will run as root",
				},
			}}}
		})
		Eventually(following.messages).Should(ContainSubstring(
			"image will run as root. Start the job again with another user, such as --run-as-user=1000"))
	})

	It("ends when somebody deletes the job", func(ctx context.Context) {
		n := newNamespace(ctx)
		following := n.start(ctx, n.digits()...)
		n.run(ctx, "digits-worker-0")
		Expect(api.Delete(ctx, n.job(ctx, "digits").Job)).To(Succeed())
		Eventually(following.ended).Should(Receive(MatchError("ptjob/digits was deleted")))
	})

	It("lets the API server check the objects, and creates nothing", func(ctx context.Context) {
		n := newNamespace(ctx)
		out, _, err := n.train(ctx, n.digits("--dry-run=server", "-o", "yaml")...)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(ContainSubstring("cleanUpPolicy: Unfinished"), "the API server sets defaults")
		Expect(out).NotTo(MatchRegexp(`uid:|creationTimestamp:`), "kubectl apply cannot change them")
		_, _, err = n.train(ctx, n.digits("--dry-run=server", "--name="+strings.Repeat("x", 60))...)
		Expect(err).To(MatchError(ContainSubstring("metadata.name is too long")))
		Expect(n.objects(ctx)).To(BeEmpty())
	})

	It("prints manifests that the API server accepts", func(ctx context.Context) {
		n := newNamespace(ctx)
		files, err := filepath.Glob("../../cli/command/testdata/run/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			for _, object := range objectsIn(file) {
				object.SetNamespace(string(n))
				strict := client.FieldValidation(metav1.FieldValidationStrict)
				Expect(api.Create(ctx, object, client.DryRunAll, strict)).To(Succeed(), "%s in %s", object.GetKind(), file)
			}
		}
	})

	It("does not touch a job of the same name", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, plain("PyTorchTrainingJob", "digits"))
		_, _, err := n.train(ctx, n.digits()...)
		Expect(err).To(MatchError(fmt.Sprintf("ptjob/digits in namespace %s exists already: choose another --name, "+
			"or delete it: kubectl train delete %s", n, n.typed("ptjob/digits"))))
		Expect(n.job(ctx, "digits").GetUID()).NotTo(BeEmpty())
	})

	It("does not touch a ConfigMap of the same name", func(ctx context.Context) {
		n := newNamespace(ctx)
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: string(n), Name: "digits-code"}}
		Expect(api.Create(ctx, other)).To(Succeed())
		_, _, err := n.train(ctx, n.digits()...)
		Expect(err).To(MatchError(And(
			ContainSubstring("and does not belong to the job: choose another --name"), ContainSubstring("Nothing is left"))))
		n.collectGarbage(ctx)
		Expect(n.objects(ctx)).To(ConsistOf("ConfigMap/digits-code"))
	})

	It("waits until the code of a deleted job of the same name is gone", func(ctx context.Context) {
		n := newNamespace(ctx)
		_, _, err := n.train(ctx, n.digits("--detach")...)
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, n.job(ctx, "digits").Job)).To(Succeed())
		again := n.start(ctx, n.digits("--detach")...)
		Eventually(again.messages).Should(ContainSubstring("is created"))
		Consistently(again.ended, "1500ms").ShouldNot(Receive())
		n.collectGarbage(ctx)
		Eventually(again.ended).Should(Receive(BeNil()))
	})

	Describe("with code that is too large for a ConfigMap", func() {
		It("uploads with the resources of the training if a LimitRange refuses fewer", func(ctx context.Context) {
			n := newNamespace(ctx)
			Expect(api.Create(ctx, &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Namespace: string(n), Name: "least"},
				Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
					Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
					},
				}}},
			})).To(Succeed())
			training := []string{"--code-claim=home", "--cpus=2", "--memory=1Gi", "--gpus=1"}
			_, _, err := n.train(ctx, n.large(append(training, "--dry-run=server")...)...)
			Expect(err).NotTo(HaveOccurred())
			n.start(ctx, n.large(training...)...)
			var pod corev1.Pod
			Eventually(func() error {
				return api.Get(ctx, client.ObjectKey{Namespace: string(n), Name: "digits-upload"}, &pod)
			}).Should(Succeed())
			Expect(pod.Spec.Containers[0].Resources).To(BeComparableTo(corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			}))
		})

		It("uploads from the queue of the job if the namespace requires a queue", func(ctx context.Context) {
			n := newNamespace(ctx)
			n.requireQueue(ctx)
			Eventually(ctx, func() error { // the API server applies a new policy with a delay
				_, _, err := n.train(ctx, n.large("--code-claim=home", "--dry-run=server")...)
				return err
			}).Should(MatchError(HaveSuffix("Start the job again with a Queue, such as --queue=NAME")))
			Eventually(ctx, func() error { // the policy that completes the pods of a group has a delay of its own
				_, _, err := n.train(ctx, n.large("--code-claim=home", "--queue=research", "--dry-run=server")...)
				return err
			}).Should(Succeed())
			n.start(ctx, n.large("--code-claim=home", "--queue=research")...)
			group := &schedulerv1beta1.PodGroup{}
			name := client.ObjectKey{Namespace: string(n), Name: "digits-upload"}
			Eventually(func() error { return api.Get(ctx, name, group) }).Should(Succeed())
			Expect(group.Spec.Queue).To(Equal("research"))
			Expect(group.OwnerReferences).To(HaveExactElements(HaveField("UID", n.job(ctx, "digits").GetUID())))
			var pod corev1.Pod
			Expect(api.Get(ctx, name, &pod)).To(Succeed())
			Expect(pod.Labels).To(HaveKeyWithValue(schedulerv1beta1.LabelGroupName, group.Name))
			Expect(pod.Spec.SchedulingGates).To(ConsistOf(corev1.PodSchedulingGate{Name: schedulerv1beta1.QueueGate}))
		})

		It("names the flag for the group of the volume if a policy refuses the group", func(ctx context.Context) {
			n := newNamespace(ctx)
			n.requireGroup(ctx, 1000)
			Eventually(ctx, func() error { // the API server applies a new policy with a delay
				_, _, err := n.train(ctx, n.large("--code-claim=home", "--dry-run=server")...)
				return err
			}).Should(MatchError(And(ContainSubstring("fsGroup must be 1000"),
				HaveSuffix("Start the job again with another group, such as --volume-group=-1"))))
			out, _, err := n.train(ctx,
				n.large("--code-claim=home", "--volume-group=1000", "--dry-run=server", "-o", "yaml")...)
			Expect(err).NotTo(HaveOccurred())
			Expect(out).To(ContainSubstring("fsGroup: 1000"))
		})

		It("reports why the claim has no volume, and leaves nothing after an interrupt", func(ctx context.Context) {
			n := newNamespace(ctx)
			uploading := n.start(ctx, n.large()...)
			Eventually(uploading.messages).Should(ContainSubstring(
				"the claim digits-code (ReadWriteOnce) has no storage class, since the cluster has no default"))
			uploading.interrupt()
			var err error
			Eventually(uploading.ended).Should(Receive(&err))
			Expect(command.ExitCode(err)).To(Equal(130))
			Expect(err).To(MatchError("interrupted. Nothing is left: the job is deleted with everything that it owns"))
			n.collectGarbage(ctx)
			Expect(n.objects(ctx)).To(BeEmpty())
		})

		It("reports why the pod of the upload does not start", func(ctx context.Context) {
			n := newNamespace(ctx)
			uploading := n.start(ctx, n.large("--code-claim=home")...)
			const message = "container has runAsNonRoot and image will run as root"
			n.changePod(ctx, "digits-upload", func(status *corev1.PodStatus, _ []corev1.Container) {
				status.ContainerStatuses = []corev1.ContainerStatus{{Name: "upload", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: message},
				}}}
			})
			Eventually(uploading.messages).Should(HaveSuffix("CreateContainerConfigError: " + message +
				". Start the job again with another user, such as --run-as-user=1000\n"))
			uploading.interrupt()
			Eventually(uploading.ended).Should(Receive(HaveOccurred()))
		})

		It("leaves nothing if the upload fails", func(ctx context.Context) {
			n := newNamespace(ctx)
			uploading := n.start(ctx, n.large()...)
			n.run(ctx, "digits-upload") // the pod has no node, so no command can run in it
			Eventually(uploading.ended).Should(Receive(MatchError(And(HavePrefix("the upload has failed: "),
				HaveSuffix("Nothing is left: the job is deleted with everything that it owns")))))
			n.collectGarbage(ctx)
			Expect(n.objects(ctx)).To(BeEmpty())
		})

		It("names the folder that can be left in an existing claim", func(ctx context.Context) {
			n := newNamespace(ctx)
			uploading := n.start(ctx, n.large("--code-claim=home")...)
			n.run(ctx, "digits-upload")
			Eventually(uploading.ended).Should(Receive(MatchError(HaveSuffix(
				"The job is deleted. The claim home can have the folder kubectl-train/digits with its code"))))
		})
	})
})

// digits returns the arguments that run a job named digits with code that fits into a ConfigMap.
func (n namespace) digits(flags ...string) []string {
	GinkgoHelper()
	return n.code(map[string]string{"train.py": "print()\n", "models/net.py": "pass\n"}, flags...)
}

// requireGroup makes the API server reject new pods of the namespace that have another fsGroup than the parameter
// group.
func (n namespace) requireGroup(ctx context.Context, group int64) {
	GinkgoHelper()
	name := metav1.ObjectMeta{Name: "group-of-" + string(n)}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: string(n)}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}},
		},
		Validations: []admissionv1.Validation{{
			Expression: fmt.Sprintf("object.spec.securityContext.fsGroup == %d", group),
			Message:    fmt.Sprintf("fsGroup must be %d", group),
		}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, object := range []client.Object{policy, binding} {
		Expect(api.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(api.Delete(ctx, object)).To(Succeed()) })
	}
}

// requireQueue makes the namespace require that its pods are scheduled from a queue, as the scheduler-controller is
// installed for kube-scheduler.
func (n namespace) requireQueue(ctx context.Context) {
	GinkgoHelper()
	object := &corev1.Namespace{}
	Expect(api.Get(ctx, client.ObjectKey{Name: string(n)}, object)).To(Succeed())
	before := object.DeepCopy()
	metav1.SetMetaDataLabel(&object.ObjectMeta, "scheduler.tensorstack.dev/require-queue", "true")
	Expect(api.Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
	installed := []string{"tensorstack-scheduler-require-queue", "tensorstack-scheduler-pods"}
	for _, file := range []string{"config/controller/policies.yaml", "../deploy/scheduler/native/controller/pods.yaml"} {
		for _, object := range objectsIn(filepath.Join("../../scheduler", file)) {
			if slices.Contains(installed, object.GetName()) {
				Expect(api.Create(ctx, object)).To(Succeed())
				DeferCleanup(func(ctx context.Context) { Expect(api.Delete(ctx, object)).To(Succeed()) })
			}
		}
	}
}

// objectsIn returns the objects in a file of manifests.
func objectsIn(file string) []*unstructured.Unstructured {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, object)
	}
}

// large returns the arguments that run a job named digits with code that is too large for a ConfigMap.
func (n namespace) large(flags ...string) []string {
	GinkgoHelper()
	return n.code(map[string]string{"train.py": "print()\n", "weights": strings.Repeat("x", 1<<20)}, flags...)
}

// code writes files into a folder, and returns the arguments that run train.py as a job named digits.
func (namespace) code(files map[string]string, flags ...string) []string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	for name, content := range files {
		Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	args := append([]string{"run", dir, "--name=digits", "--image=training", "--progress=false"}, flags...)
	return append(args, "--", "train.py")
}

// job returns the PyTorchTrainingJob with a name.
func (n namespace) job(ctx context.Context, name string) jobs.Job {
	GinkgoHelper()
	job, err := jobs.Find(ctx, api, string(n), "ptjob/"+name)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// patch changes a PyTorchTrainingJob.
func (n namespace) patch(ctx context.Context, name, patch string) {
	GinkgoHelper()
	change := client.RawPatch("application/merge-patch+json", []byte(patch))
	Expect(api.Patch(ctx, n.job(ctx, name).Job, change)).To(Succeed())
}

// kindsOfObjects returns an empty list for each kind of job, and for each kind of object that is created with a job.
func kindsOfObjects() []client.ObjectList {
	lists := []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, &corev1.ServiceList{},
		&corev1.SecretList{},
	}
	for _, kind := range jobs.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		lists = append(lists, list)
	}
	return lists
}

// each calls the function see with each object of the namespace that a command can have created.
func (n namespace) each(ctx context.Context, see func(kind string, object client.Object)) {
	GinkgoHelper()
	for _, list := range kindsOfObjects() {
		Expect(api.List(ctx, list, client.InNamespace(n))).To(Succeed())
		items, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			kind, err := api.GroupVersionKindFor(item)
			Expect(err).NotTo(HaveOccurred())
			see(kind.Kind, item.(client.Object))
		}
	}
}

// objects returns the objects of the namespace that a command can have created, as kind/name.
func (n namespace) objects(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	n.each(ctx, func(kind string, object client.Object) { names = append(names, kind+"/"+object.GetName()) })
	return names
}

// collectGarbage deletes the objects whose owner is gone, as the garbage collector of Kubernetes does.
func (n namespace) collectGarbage(ctx context.Context) {
	GinkgoHelper()
	exists := map[string]bool{}
	n.each(ctx, func(_ string, object client.Object) { exists[string(object.GetUID())] = true })
	n.each(ctx, func(_ string, object client.Object) {
		for _, owner := range object.GetOwnerReferences() {
			if exists[string(owner.UID)] {
				continue
			}
			Expect(client.IgnoreNotFound(api.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
			// A claim has a finalizer that protects it while it is in use. The tests do not run the controller that removes
			// this finalizer, so this patch removes it.
			noFinalizers := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`))
			Expect(client.IgnoreNotFound(api.Patch(ctx, object, noFinalizers))).To(Succeed())
		}
	})
}
