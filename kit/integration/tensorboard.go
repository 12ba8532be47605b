package integration

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/controlplane"
)

// withTensorBoard is a patch that adds a TensorBoard to a job.
const withTensorBoard = `spec: {tensorboardSpec: {image: tb:1, trainingLogFilesets: ["t9k://pvc/logs/a"]}}`

// TensorBoardSpecs defines the specs of jobs with spec.tensorboardSpec. The tests act as the tensorboard-controller.
// The first spec requires that the TensorBoard CRD is not installed, so the Ginkgo container must be Ordered.
func (c *Cluster[J]) TensorBoardSpecs() {
	It("trains without the TensorBoard CRD, and creates its TensorBoard once it is installed", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard)
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Reason", batchv1beta1.ReasonNotInstalled))
		status := c.tensorBoardStatus(ctx, job)()
		Expect(status).To(And(HaveField("Name", "tensorboard"), HaveField("Ready", false), HaveField("Type",
			corev1.EventTypeWarning),
			HaveField("Dependent", BeNil()), HaveField("Note",
				ContainSubstring("tensorboards.tensorstack.dev is not installed"))))
		c.runAll(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		other := c.Create(ctx, c.NewNamespace(ctx))
		c.runAll(ctx, other)
		Eventually(ctx, c.Phase(ctx, other)).Should(Equal(batchv1beta1.JobPhaseRunning), "a job without a TensorBoard")
		//nolint:forcetypeassert // only kinds with a TensorBoard are tested
		Expect(framework.Job(other).(framework.TensorBoardJob).TensorBoardStatus()).To(BeNil())

		Expect(c.InstallCRDs(controlplane.TensorBoard)).To(Succeed())
		created := c.tensorBoard(ctx, job)
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Dependent", HaveField("UID", created.UID)))
		Eventually(ctx,
			func() []string { return c.EventReasons(ctx, job) }).Should(ContainElement(batchv1beta1.ReasonNotInstalled))
		Expect(count(c.EventReasons(ctx, job), batchv1beta1.ReasonNotInstalled)).To(Equal(1), "the number of events")
	})

	It("owns a TensorBoard with the spec of spec.tensorboardSpec, which takes one write", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard, `spec: {tensorboardSpec: {suspend: true}}`)
		created := c.tensorBoard(ctx, job)
		Expect(created.Spec).To(Equal(tensorboardv1beta1.TensorBoardSpec{
			Image: "tb:1", TrainingLogFilesets: []tensorboardv1beta1.FilesetURI{"t9k://pvc/logs/a"}, Suspend: true,
		}))
		Expect(metav1.IsControlledBy(created, job)).To(BeTrue(), "the job owns the TensorBoard")
		kind, err := c.Client.GroupVersionKindFor(job)
		Expect(err).NotTo(HaveOccurred())
		Expect(created.Labels).To(And(HaveKeyWithValue(batchv1beta1.LabelJobKind, kind.Kind),
			HaveKeyWithValue(batchv1beta1.LabelJobName, "job")))
		c.finish(ctx, job)
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(Equal(&batchv1beta1.DependentStatus{
			Name: "tensorboard", Reason: batchv1beta1.ReasonPending, Action: batchv1beta1.ActionCreate,
			Type: corev1.EventTypeNormal,
			Dependent: &corev1.ObjectReference{
				APIVersion: "tensorstack.dev/v1beta1", Kind: "TensorBoard", Namespace: job.GetNamespace(), Name: "job",
				UID: created.UID,
			},
		}))
		Expect(c.Writes.In(job.GetNamespace(), "/tensorboards")).To(HaveLen(1))
		Expect(len(c.Writes.In(job.GetNamespace(), "/status"))).To(BeNumerically("<=", 5),
			"one status write more than without a TensorBoard")
		Expect(c.EventReasons(ctx, job)).To(ConsistOf("Created", "Running", "Completed"))
	})

	It("reports whether its TensorBoard is ready, even after it has finished", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard)
		c.reportReady(ctx, job, metav1.ConditionTrue, tensorboardv1beta1.ReasonServing, "")
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(And(HaveField("Ready", true), HaveField("Reason", "Serving")))

		c.finish(ctx, job)
		finished := c.Get(ctx, job).JobStatus().DeepCopy()
		c.reportReady(ctx, job, metav1.ConditionFalse, batchv1beta1.ReasonImagePull, "no such image")
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(And(
			HaveField("Ready", false), HaveField("Reason", "ImagePull"), HaveField("Note", "no such image")))
		Expect(c.Get(ctx, job).JobStatus()).To(Equal(finished), "the status of a finished job")
	})

	It("does not change whether its TensorBoard is suspended", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard)
		c.changeTensorBoard(ctx, job, func(t *tensorboardv1beta1.TensorBoard) { t.Spec.Suspend = true })
		c.reportReady(ctx, job, metav1.ConditionFalse, tensorboardv1beta1.ReasonSuspended, "")
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Reason", "Suspended"))
		Expect(c.tensorBoard(ctx, job).Spec.Suspend).To(BeTrue())

		c.Edit(ctx, job, Paused)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		c.Edit(ctx, job, `spec: {tensorboardSpec: {image: tb:2}}`)
		Eventually(ctx, func() string { return c.tensorBoard(ctx, job).Spec.Image }).Should(Equal("tb:2"))
		Expect(c.tensorBoard(ctx, job).Spec.Suspend).To(BeTrue())
	})

	It("updates its TensorBoard when spec.tensorboardSpec changes during a pause", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard, Paused)
		uid := c.tensorBoard(ctx, job).UID
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		c.Edit(ctx, job, `spec: {tensorboardSpec: {image: null, trainingLogFilesets: null, logDir: {pvc: [{name: logs}]}}}`)
		Eventually(ctx, func() tensorboardv1beta1.TensorBoardSpec { return c.tensorBoard(ctx, job).Spec }).Should(Equal(
			tensorboardv1beta1.TensorBoardSpec{
				LogDir: &tensorboardv1beta1.LogDir{PVC: []tensorboardv1beta1.PVCLogDir{{Name: "logs"}}},
			}))
		Expect(c.tensorBoard(ctx, job).UID).To(Equal(uid))
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Action", batchv1beta1.ActionUpdate))

		c.Edit(ctx, job, `spec: {tensorboardSpec: null}`)
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(BeNil())
		Expect(c.getTensorBoard(ctx, job, &tensorboardv1beta1.TensorBoard{})).To(Satisfy(apierrors.IsNotFound))

		c.Edit(ctx, job, withTensorBoard)
		Expect(c.tensorBoard(ctx, job).UID).NotTo(Equal(uid))
	})

	It("recreates its TensorBoard if a user deletes it, unless it has finished", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard)
		first := c.tensorBoard(ctx, job)
		Expect(c.Client.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Dependent",
			And(Not(BeNil()), HaveField("UID", Not(Equal(first.UID))))))
		second := c.tensorBoard(ctx, job)
		Expect(second.UID).NotTo(Equal(first.UID))

		c.finish(ctx, job)
		Expect(c.tensorBoard(ctx, job).UID).To(Equal(second.UID), "the TensorBoard outlives the run")
		Expect(c.Client.Delete(ctx, second)).To(Succeed())
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(And(HaveField("Reason", batchv1beta1.ReasonDeleted),
			HaveField("Dependent", BeNil())))
		Expect(c.getTensorBoard(ctx, job, second)).To(Satisfy(apierrors.IsNotFound))
	})

	It("does not change a TensorBoard that it does not own", func(ctx context.Context) {
		namespace := c.NewNamespace(ctx)
		mine := &tensorboardv1beta1.TensorBoard{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"},
			Spec: tensorboardv1beta1.TensorBoardSpec{
				TrainingLogFilesets: []tensorboardv1beta1.FilesetURI{"t9k://pvc/mine"},
			},
		}
		Expect(c.Client.Create(ctx, mine)).To(Succeed())
		job := c.Create(ctx, namespace, withTensorBoard)
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(And(
			HaveField("Reason", batchv1beta1.ReasonNameConflict), HaveField("Type",
				corev1.EventTypeWarning), HaveField("Dependent", BeNil())))
		Eventually(ctx,
			func() []string { return c.EventReasons(ctx, job) }).Should(ContainElement(batchv1beta1.ReasonNameConflict))
		c.runAll(ctx, job)
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		untouched := c.tensorBoard(ctx, job)
		Expect(untouched.UID).To(Equal(mine.UID))
		Expect(untouched.ResourceVersion).To(Equal(mine.ResourceVersion))

		Expect(c.Client.Delete(ctx, mine)).To(Succeed())
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Dependent", Not(BeNil())))
		Expect(metav1.IsControlledBy(c.tensorBoard(ctx, job), job)).To(BeTrue())
	})

	It("keeps training while the TensorBoard CRD is uninstalled and installed again", func(ctx context.Context) {
		job := c.Create(ctx, c.NewNamespace(ctx), withTensorBoard)
		uid := c.tensorBoard(ctx, job).UID
		c.runAll(ctx, job)
		Expect(c.UninstallCRDs(ctx, controlplane.TensorBoard)).To(Succeed())
		Eventually(ctx, c.tensorBoardStatus(ctx, job)).Should(HaveField("Reason", batchv1beta1.ReasonNotInstalled))
		Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		Expect(c.InstallCRDs(controlplane.TensorBoard)).To(Succeed())
		Expect(c.tensorBoard(ctx, job).UID).NotTo(Equal(uid))
		Eventually(ctx, c.tensorBoardStatus(ctx, job), "60s").Should(HaveField("Dependent", Not(BeNil())),
			"the status after the watch has recovered")
	})
}

func count(list []string, one string) int {
	return len(slices.DeleteFunc(list, func(s string) bool { return s != one }))
}

// runAll waits for the pods of a job and starts them.
func (c *Cluster[J]) runAll(ctx context.Context, job J) {
	GinkgoHelper()
	Eventually(ctx, c.Pods(ctx, job)).Should(HaveLen(c.replicas(job)))
	c.Run(ctx, job, c.PodNames(ctx, job)...)
}

// finish runs a job until it succeeds.
func (c *Cluster[J]) finish(ctx context.Context, job J) {
	GinkgoHelper()
	c.runAll(ctx, job)
	Eventually(ctx, c.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
	// The first pod is the leader. It exits last, since the controller deletes running workers once the leader succeeded.
	for _, name := range slices.Backward(c.PodNames(ctx, job)) {
		c.Exit(ctx, job, name, 0, "")
	}
	Eventually(ctx, func() []string { return c.EventReasons(ctx, job) }).Should(ContainElement("Completed"))
	Eventually(ctx, func() int32 { return c.Aggregate(ctx, job)().Running }).Should(BeZero())
}

// tensorBoardStatus returns a function for Eventually that reads a job and returns the status of its TensorBoard.
func (c *Cluster[J]) tensorBoardStatus(ctx context.Context, job J) func() *batchv1beta1.DependentStatus {
	return func() *batchv1beta1.DependentStatus {
		//nolint:forcetypeassert // only kinds with a TensorBoard are tested
		return framework.Job(c.Get(ctx, job)).(framework.TensorBoardJob).TensorBoardStatus()
	}
}

func (c *Cluster[J]) getTensorBoard(ctx context.Context, job J, into *tensorboardv1beta1.TensorBoard) error {
	return c.Client.Get(ctx, client.ObjectKeyFromObject(job), into)
}

// tensorBoard waits for the TensorBoard with the name of the job, and returns it.
func (c *Cluster[J]) tensorBoard(ctx context.Context, job J) *tensorboardv1beta1.TensorBoard {
	GinkgoHelper()
	found := &tensorboardv1beta1.TensorBoard{}
	Eventually(ctx, func() error { return c.getTensorBoard(ctx, job, found) }).Should(Succeed())
	return found
}

// changeTensorBoard changes the spec of the job's TensorBoard, as the tensorboard-controller and users can.
func (c *Cluster[J]) changeTensorBoard(ctx context.Context, job J, change func(*tensorboardv1beta1.TensorBoard)) {
	GinkgoHelper()
	changed := c.tensorBoard(ctx, job)
	base := changed.DeepCopy()
	change(changed)
	Expect(c.Client.Patch(ctx, changed, client.MergeFrom(base))).To(Succeed())
}

// reportReady writes the condition Ready of the job's TensorBoard, as the tensorboard-controller does.
func (c *Cluster[J]) reportReady(ctx context.Context, job J, status metav1.ConditionStatus, reason, message string) {
	GinkgoHelper()
	reported := c.tensorBoard(ctx, job)
	base := reported.DeepCopy()
	reported.Status.Conditions = []tensorboardv1beta1.TensorBoardCondition{
		{
			Type: tensorboardv1beta1.ConditionReady, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.Now(),
		},
	}
	Expect(c.Client.Status().Patch(ctx, reported, client.MergeFrom(base))).To(Succeed())
}

// tensorBoardSpec returns a patch that sets the fields of spec.tensorboardSpec. The parameter is a YAML flow mapping
// without the braces.
func tensorBoardSpec(fields string) string { return "spec: {tensorboardSpec: {" + fields + "}}" }

// BadTensorBoardSpecs returns invalid values of spec.tensorboardSpec for the kinds that have the field.
func BadTensorBoardSpecs() []TableEntry {
	const (
		fileset = "spec.tensorboardSpec.trainingLogFilesets[0]"
		subPath = "spec.tensorboardSpec.logDir.pvc[0].subPath[0]"
		uri     = "spec.tensorboardSpec.logDir.s3.uri[0]"
		url     = "spec.tensorboardSpec.logDir.http.url[0]"
	)
	s3 := func(uri string) string {
		return tensorBoardSpec(`logDir: {s3: {secretRef: {name: keys}, uri: ["` + uri + `"]}}`)
	}
	http := func(url string) string { return tensorBoardSpec(`logDir: {http: {url: ["` + url + `"]}}`) }
	return []TableEntry{
		Entry("a TensorBoard without logs", tensorBoardSpec("image: tb"), "spec.tensorboardSpec",
			"there are no logs to show: set trainingLogFilesets or logDir"),
		Entry("an empty logDir", tensorBoardSpec("logDir: {}"), "spec.tensorboardSpec", "there are no logs to show"),
		Entry("empty lists of logs", tensorBoardSpec("trainingLogFilesets: [], logDir: {pvc: []}"), "spec.tensorboardSpec",
			"there are no logs to show"),
		Entry("a malformed fileset", tensorBoardSpec(`trainingLogFilesets: ["pvc/claim/logs"]`),
			fileset, "a fileset must look like t9k://pvc/<claim>/<path> or t9k://minio/<secret>/<bucket>/<path>"),
		Entry("a MinIO fileset without a bucket", tensorBoardSpec(`trainingLogFilesets: ["t9k://minio/secret"]`), fileset,
			"a fileset must look like"),
		Entry("a fileset outside its claim", tensorBoardSpec(`trainingLogFilesets: ["t9k://pvc/claim/a/../../b"]`),
			fileset, "a fileset must stay in its claim or bucket: '..' is not allowed"),
		Entry("a claim without a name", tensorBoardSpec(`logDir: {pvc: [{name: ""}]}`),
			"spec.tensorboardSpec.logDir.pvc[0].name", "should be at least 1 chars long"),
		Entry("two lists of folders in the same claim",
			tensorBoardSpec(`logDir: {pvc: [{name: logs, subPath: [a]}, {name: logs, subPath: [b]}]}`),
			"spec.tensorboardSpec.logDir.pvc[1]", "Duplicate value"),
		Entry("an absolute subPath", tensorBoardSpec(`logDir: {pvc: [{name: logs, subPath: [/a]}]}`), subPath,
			"subPath must be relative to the root of the volume"),
		Entry("a subPath outside its volume", tensorBoardSpec(`logDir: {pvc: [{name: logs, subPath: [a/..]}]}`), subPath,
			"a leading '/' and '..' are not allowed"),
		Entry("a malformed S3 folder", s3("bucket/runs"), uri, "an S3 folder must look like s3://<bucket>/<path>"),
		Entry("an S3 folder outside its bucket", s3("s3://bucket/../other"), uri,
			"an S3 folder must stay in its bucket: '..' is not allowed"),
		Entry("S3 folders without a Secret", tensorBoardSpec(`logDir: {s3: {uri: ["s3://bucket/runs"]}}`),
			"spec.tensorboardSpec.logDir.s3.secretRef", "Required value"),
		Entry("S3 folders with a Secret without a name",
			tensorBoardSpec(`logDir: {s3: {secretRef: {}, uri: ["s3://bucket/runs"]}}`),
			"spec.tensorboardSpec.logDir.s3.secretRef", "secretRef.name is required"),
		Entry("S3 without folders", tensorBoardSpec(`logDir: {s3: {secretRef: {name: keys}, uri: []}}`),
			"spec.tensorboardSpec.logDir.s3.uri", "should have at least 1 items"),
		Entry("HTTP without URLs", tensorBoardSpec(`logDir: {http: {url: []}}`), "spec.tensorboardSpec.logDir.http.url",
			"should have at least 1 items"),
		Entry("a URL with a password", http("https://user:password@host/events"), url,
			"without a user name, password or query"),
		Entry("a URL with a signature", http("https://host/events?signature=a"), url,
			"without a user name, password or query"),
		Entry("a URL without a file", http("http://host/"), url, "a log file must look like http://<host>/<path>"),
		Entry("a URL with another protocol", http("ftp://host/events"), url,
			"a log file must look like http://<host>/<path>"),
	}
}

// GoodTensorBoardSpecs returns valid values of spec.tensorboardSpec for the kinds that have the field.
func GoodTensorBoardSpecs() []TableEntry {
	return []TableEntry{
		Entry("filesets",
			tensorBoardSpec(`trainingLogFilesets: ["t9k://pvc/logs/a/b", "t9k://pvc/logs", "t9k://minio/secret/bucket/a"]`)),
		Entry("logs in claims, in S3 and on HTTP servers",
			tensorBoardSpec(`logDir: {pvc: [{name: logs, subPath: [a, b/c]}, {name: more}], `+
				`s3: {secretRef: {name: keys}, uri: ["s3://bucket", "s3://bucket/runs/"]}, http: {url: ["http://host:8080/events", "https://host/a/b"]}}`)),
	}
}
