package scheduling

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/test/localcluster"
	"tensorstack.dev/jobs/test/simulated"
)

// withJobs returns the arguments of a table that expects a case to pass on both engines. The pytorch-controller runs
// in each spec.
func withJobs(body func(ctx context.Context, c cluster)) []any {
	return onBoth(func(ctx context.Context, c cluster) {
		startController(c.ControlPlane, "pytorch")
		body(ctx, c)
	})
}

// released is the deadline for a job to release resources that it no longer needs.
const released = "5s"

var _ = Describe("A job of a Queue", func() {
	DescribeTable("waits as a whole until its last pod fits, reports that, and then runs",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			j := c.job(ctx, "job", inDefault, replicaSpecs("master", 1, "worker", 3))
			Eventually(ctx, j.pods(ctx)).Should(HaveLen(4))
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, j.name)).To(Succeed())
			Expect(c.bound(ctx, j.name)()).To(BeEmpty())
			Eventually(ctx, j.reason(ctx)).Should(Equal(batchv1beta1.ReasonUnschedulable))
			running := meta.FindStatusCondition(j.status(ctx).Conditions, batchv1beta1.ConditionRunning)
			Expect(running.Status).To(Equal(metav1.ConditionFalse))
			Expect(running.Message).To(ContainSubstring("0 of 4 pods are on nodes"))

			_, err = c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, j.name)).Should(HaveLen(4))
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
			Eventually(ctx, j.reason(ctx)).Should(Equal(batchv1beta1.ReasonReplicasRunning))
		})...)

	DescribeTable("runs with the unchanged examples", withJobs(func(ctx context.Context, c cluster) {
		_, err := c.AddNodes(ctx, "1")
		Expect(err).NotTo(HaveOccurred())
		for _, example := range []string{"scheduler/queue.yaml", "pytorch/gang.yaml"} {
			content, err := os.ReadFile(filepath.Join("../../examples", example))
			Expect(err).NotTo(HaveOccurred())
			object := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal(content, object)).To(Succeed())
			if object.GetKind() != "Queue" {
				object.SetNamespace(corev1.NamespaceDefault)
			}
			Expect(c.Client.Create(ctx, object)).To(Succeed())
		}
		j := job{cluster: c, name: "digits-gang"}
		Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(c.bound(ctx, j.name)()).To(HaveLen(3))
	})...)

	DescribeTable("releases its gang when it pauses, fails, succeeds or is deleted",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			run := func(name string) job {
				j := c.job(ctx, name, inDefault, replicaSpecs("master", 1, "worker", 1), `spec: {runPolicy: {backoffLimit: 0}}`)
				Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
				Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(j.engineGroup()), j.engineGroup())).To(Succeed())
				return j
			}
			By("pausing a job")
			j := run("pauses")
			j.edit(ctx, `spec: {runMode: {pause: {enabled: true}}}`)
			j.expectReleased(ctx)
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhasePaused))

			By("letting a job fail")
			j = run("fails")
			j.end(ctx, "fails-master-0", 1)
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseFailed))
			j.expectReleased(ctx)

			By("letting a job succeed")
			j = run("succeeds")
			j.end(ctx, "succeeds-worker-0", 0)
			j.end(ctx, "succeeds-master-0", 0)
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
			j.expectReleased(ctx)

			By("deleting a job")
			j = run("goes")
			Expect(c.Client.Delete(ctx, j.object())).To(Succeed())
			j.expectReleased(ctx)
			Eventually(ctx, func() error { return c.Client.Get(ctx, j.key(), j.object()) }).Should(Satisfy(apierrors.IsNotFound))
			Eventually(ctx, j.pods(ctx)).Should(BeEmpty())
		})...)

	DescribeTable("becomes a new gang when it is resumed immediately with more replicas",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			j := c.job(ctx, "job", inDefault, replicaSpecs("master", 1, "worker", 1))
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
			j.edit(ctx, `spec: {runMode: {pause: {enabled: true}}}`)
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhasePaused))
			j.edit(ctx, `spec: {runMode: {pause: {enabled: false}}}`, replicaSpecs("master", 1, "worker", 2))
			Eventually(ctx, j.pods(ctx)).Should(HaveLen(3))
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, j.name)).To(Succeed())
			Expect(c.bound(ctx, j.name)()).To(BeEmpty())
			_, err = c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, j.name)).Should(HaveLen(3))
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
		})...)

	DescribeTable("becomes a new gang in the engine each time it is paused and immediately resumed",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			j := c.job(ctx, "job", inDefault, replicaSpecs("master", 1, "worker", 1))
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
			for round := range 5 {
				before := j.group(ctx).UID
				j.edit(ctx, `spec: {runMode: {pause: {enabled: true}}}`)
				Eventually(ctx, func() bool {
					err := c.Client.Get(ctx, j.key(), &v1beta1.PodGroup{})
					return apierrors.IsNotFound(err)
				}).Should(BeTrue(), "round %d", round)
				j.edit(ctx, `spec: {runMode: {pause: {enabled: false}}}`)
				Eventually(ctx, func() bool {
					status := j.status(ctx)
					return status.Phase == batchv1beta1.JobPhaseRunning && status.Reason == batchv1beta1.ReasonReplicasRunning
				}).Should(BeTrue(), "round %d", round)
				group, known := j.group(ctx), j.engineGroup()
				Expect(group.UID).NotTo(Equal(before))
				Eventually(ctx, func(g Gomega) {
					g.Expect(c.Client.Get(ctx, j.key(), known)).To(Succeed())
					g.Expect(metav1.IsControlledBy(known, group)).To(BeTrue(), "%+v", known)
					g.Expect(known.GetDeletionTimestamp()).To(BeNil())
				}).Should(Succeed(), "round %d", round)
			}
		})...)

	DescribeTable("gets the replacement of a failed replica bound after a peer has succeeded",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			j := c.job(ctx, "job", inDefault, replicaSpecs("master", 1, "worker", 3),
				`spec: {runPolicy: {restartScope: Replica}}`)
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
			j.end(ctx, "job-worker-0", 0)
			Eventually(ctx, func() int32 { return j.status(ctx).Aggregate.Succeeded }).Should(Equal(int32(1)))
			failed := j.end(ctx, "job-worker-1", 1)
			Eventually(ctx, func() (bool, error) {
				pod := &corev1.Pod{}
				err := c.Client.Get(ctx, client.ObjectKeyFromObject(failed), pod)
				return err == nil && pod.UID != failed.UID && pod.Spec.NodeName != "", client.IgnoreNotFound(err)
			}).Should(BeTrue(), "the replacement of job-worker-1 is bound")
			Eventually(ctx, j.reason(ctx)).Should(Equal(batchv1beta1.ReasonReplicasRunning))
			Expect(j.status(ctx).BackoffCount).To(Equal(int32(1)))
		})...)

	DescribeTable("can be elastic: if 4 of 7 replicas are needed, none run on 3 CPUs, 5 on 5, and 7 on 7",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "1", "1", "1")
			Expect(err).NotTo(HaveOccurred())
			j := c.job(ctx, "job", inDefault, replicaSpecs("worker", 7),
				`spec: {torchrunConfig: {enabled: true, maxRestarts: 3}}`,
				`spec: {elastic: {enabled: true, minReplicas: 4, maxReplicas: 8, expectedReplicas: 7}}`)
			Eventually(ctx, j.pods(ctx)).Should(HaveLen(7))
			Expect(c.Retry(ctx, 3, corev1.NamespaceDefault, j.name)).To(Succeed())
			Expect(c.bound(ctx, j.name)()).To(BeEmpty())
			Eventually(ctx, j.reason(ctx)).Should(Equal(batchv1beta1.ReasonUnschedulable))

			_, err = c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, j.name)).Should(HaveLen(5))
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
			_, err = c.AddNodes(ctx, "1", "1")
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, c.bound(ctx, j.name)).Should(HaveLen(7))

			group := j.group(ctx)
			Expect(group.Spec.MinMember).To(Equal(int32(4)))
			for _, expected := range []int{8, 5} {
				By(fmt.Sprintf("scaling to %d", expected))
				scale := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, expected))
				Expect(c.Client.SubResource("scale").Patch(ctx, j.object(), scale)).To(Succeed())
				Eventually(ctx, j.pods(ctx)).Should(HaveLen(expected))
				Eventually(ctx, c.bound(ctx, j.name)).Should(HaveLen(min(expected, 7)))
				Expect(j.group(ctx).Generation).To(Equal(group.Generation),
					"minMember does not depend on expectedReplicas")
			}
		})...)

	DescribeTable("causes no writes to its groups and queues while they need no change",
		withJobs(func(ctx context.Context, c cluster) {
			_, err := c.AddNodes(ctx, "2")
			Expect(err).NotTo(HaveOccurred())
			j := c.job(ctx, "job", inDefault, replicaSpecs("master", 1, "worker", 1))
			Eventually(ctx, j.phase(ctx)).Should(Equal(batchv1beta1.JobPhaseRunning))
			Eventually(ctx, func() int32 { return j.group(ctx).Status.Running }).Should(Equal(int32(2)))
			if c.Kind == simulated.Volcano {
				Eventually(ctx, func() int32 {
					group := &volcanov1beta1.PodGroup{}
					Expect(c.Client.Get(ctx, j.key(), group)).To(Succeed())
					return group.Status.Running
				}).Should(Equal(int32(2)))
			}
			versions := func(g Gomega) map[string]string {
				found := map[string]string{}
				for name, object := range j.below() {
					g.Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
					found[name] = object.GetResourceVersion()
				}
				return found
			}
			before := versions(Default)
			for round := range 3 {
				j.edit(ctx, fmt.Sprintf(`spec: {runPolicy: {ttlSecondsAfterFinished: %d}}`, 100+round))
				Eventually(ctx, func() bool {
					object := j.object()
					Expect(c.Client.Get(ctx, j.key(), object)).To(Succeed())
					return j.status(ctx).ObservedGeneration == object.GetGeneration()
				}).Should(BeTrue(), "the job is reconciled")
				j.annotate(ctx, "job-worker-0", "round", fmt.Sprint(round)) // makes both controllers reconcile
				Consistently(ctx, versions, "1s").Should(Equal(before))
			}
		})...)

	DescribeTable("has no pods while its queue does not admit it, and reports the reason",
		withJobs(func(ctx context.Context, c cluster) {
			c.queue(ctx, "shut", v1beta1.QueueSpec{Closed: true})
			Expect(c.Client.Create(ctx, &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "others"}, Spec: v1beta1.QueueSpec{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "others"}},
			}})).To(Succeed())
			for queue, reason := range map[string]string{
				"shut": v1beta1.ReasonQueueClosed, "missing": v1beta1.ReasonQueueNotFound,
				"others": v1beta1.ReasonNamespaceNotSelected,
			} {
				By("creating a job of the queue " + queue)
				j := c.job(ctx, queue, inQueue(queue), replicaSpecs("worker", 1))
				j.expectHeld(ctx, reason)
			}
		})...)
})

var _ = Describe("A job of a Queue in an incomplete installation", func() {
	It("has no pods if PodGroups are not installed", func(ctx context.Context) {
		c := startPlane(ctx, simulated.Native, "pytorch")
		startController(c.ControlPlane, "pytorch")
		c.job(ctx, "job", inDefault, replicaSpecs("worker", 1)).expectHeld(ctx, batchv1beta1.ReasonNotInstalled)
	}, SpecTimeout(timeout))

	DescribeTable("has no pods if the engine does not support gangs, and never runs without a gang",
		func(ctx context.Context, wanted simulated.Kind) {
			c := startPlane(ctx, simulated.Plain, "scheduler", "pytorch")
			_, err := c.AddNodes(ctx, "1")
			Expect(err).NotTo(HaveOccurred())
			startController(c.ControlPlane, "scheduler", "--engine="+string(wanted), "--extender-bind-address=0")
			startController(c.ControlPlane, "pytorch")
			c.queue(ctx, "default", v1beta1.QueueSpec{})
			j := c.job(ctx, "job", inDefault, replicaSpecs("worker", 1))
			j.expectHeld(ctx, v1beta1.ReasonEngineNotReady)
			admitted := meta.FindStatusCondition(j.group(ctx).Status.Conditions, v1beta1.ConditionAdmitted)
			Expect(admitted.Status).To(Equal(metav1.ConditionFalse))
			Expect(admitted.Reason).To(Equal(v1beta1.ReasonEngineNotReady))
		},
		Entry(string(simulated.Native), simulated.Native, SpecTimeout(timeout)),
		Entry(string(simulated.Volcano), simulated.Volcano, SpecTimeout(timeout)),
	)
})

// job is a PyTorchTrainingJob on a cluster.
type job struct {
	cluster

	name string
}

// job creates a job from parts of a manifest.
func (c cluster) job(ctx context.Context, name string, parts ...string) job {
	GinkgoHelper()
	j := job{cluster: c, name: name}
	object := j.object()
	for _, part := range parts {
		merge(object.Object, part)
	}
	Expect(c.Client.Create(ctx, object)).To(Succeed())
	return j
}

// merge adds a part to a manifest. If both have a map for a key, it merges the two maps. Otherwise, the value of the
// part replaces the value of the manifest.
func merge(into map[string]any, part string) {
	GinkgoHelper()
	var more map[string]any
	Expect(yaml.Unmarshal([]byte(part), &more)).To(Succeed())
	var add func(into, more map[string]any)
	add = func(into, more map[string]any) {
		for key, value := range more {
			both, isMap := into[key].(map[string]any)
			if inner, ok := value.(map[string]any); ok && isMap {
				add(both, inner)
				continue
			}
			into[key] = value
		}
	}
	add(into, more)
}

const inDefault = `spec: {scheduler: {t9kScheduler: {queue: default}}}`

func inQueue(queue string) string {
	return fmt.Sprintf(`spec: {scheduler: {t9kScheduler: {queue: %s}}}`, queue)
}

// replicaSpecs returns the part of a manifest with the given types and numbers of replicas. Each replica requests one
// CPU.
func replicaSpecs(typesAndReplicas ...any) string {
	text := "spec:\n  replicaSpecs:\n"
	for i := 0; i < len(typesAndReplicas); i += 2 {
		text += fmt.Sprintf("  - {type: %v, replicas: %v, restartPolicy: OnFailure, template: {spec: {containers: ["+
			"{name: pytorch, image: image, resources: {requests: {cpu: 1}}}]}}}\n", typesAndReplicas[i], typesAndReplicas[i+1])
	}
	return text
}

func (j job) key() client.ObjectKey {
	return client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: j.name}
}

// object returns the job without a spec.
func (j job) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("batch.tensorstack.dev/v1beta1")
	object.SetKind("PyTorchTrainingJob")
	object.SetNamespace(corev1.NamespaceDefault)
	object.SetName(j.name)
	return object
}

// edit applies a merge patch that consists of several parts.
func (j job) edit(ctx context.Context, parts ...string) {
	GinkgoHelper()
	patch := map[string]any{}
	for _, part := range parts {
		merge(patch, part)
	}
	content, err := yaml.Marshal(patch)
	Expect(err).NotTo(HaveOccurred())
	content, err = yaml.YAMLToJSON(content)
	Expect(err).NotTo(HaveOccurred())
	Expect(j.Client.Patch(ctx, j.object(), client.RawPatch(types.MergePatchType, content))).To(Succeed())
}

func (j job) status(ctx context.Context) batchv1beta1.JobStatus {
	GinkgoHelper()
	object := j.object()
	Expect(j.Client.Get(ctx, j.key(), object)).To(Succeed())
	status := batchv1beta1.JobStatus{Aggregate: &batchv1beta1.Aggregate{}}
	if content, ok := object.Object["status"].(map[string]any); ok {
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)).To(Succeed())
	}
	return status
}

func (j job) phase(ctx context.Context) func() batchv1beta1.JobPhase {
	return func() batchv1beta1.JobPhase { return j.status(ctx).Phase }
}

func (j job) reason(ctx context.Context) func() string {
	return func() string { return j.status(ctx).Reason }
}

// pods returns a function that lists the pods of the job.
func (j job) pods(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		var pods corev1.PodList
		err := j.Client.List(ctx, &pods, client.InNamespace(corev1.NamespaceDefault),
			client.MatchingLabels{batchv1beta1.LabelJobName: j.name})
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
		}
		return names, err
	}
}

// annotate sets an annotation of a pod and returns the pod.
func (j job) annotate(ctx context.Context, pod, key, value string) *corev1.Pod {
	GinkgoHelper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: pod}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	Expect(j.Client.Patch(ctx, object, patch)).To(Succeed())
	return object
}

// end makes a running pod exit with a code. It returns the pod as it was before the exit.
func (j job) end(ctx context.Context, pod string, code int) *corev1.Pod {
	GinkgoHelper()
	return j.annotate(ctx, pod, localcluster.AnnotationExitCode, fmt.Sprint(code))
}

// group returns the job's PodGroup.
func (j job) group(ctx context.Context) *v1beta1.PodGroup {
	GinkgoHelper()
	group := &v1beta1.PodGroup{}
	Expect(j.Client.Get(ctx, j.key(), group)).To(Succeed())
	return group
}

// engineGroup returns the engine's PodGroup of the job. The object has only a kind and a name.
func (j job) engineGroup() client.Object {
	named := metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: j.name}
	if j.Kind == simulated.Volcano {
		return &volcanov1beta1.PodGroup{ObjectMeta: named}
	}
	return &schedulingv1beta1.PodGroup{ObjectMeta: named}
}

// below returns the PodGroup and the Queue of a job, and their counterparts in the engine. The keys of the map
// describe the objects, which have only a kind and a name.
func (j job) below() map[string]client.Object {
	objects := map[string]client.Object{
		"PodGroup": &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: j.name},
		},
		"group of the engine": j.engineGroup(),
		"Queue":               &v1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
	}
	if j.Kind == simulated.Volcano {
		objects["queue of the engine"] = &volcanov1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	}
	return objects
}

// expectReleased expects that the PodGroup of the job and its group in the engine are deleted before the deadline.
func (j job) expectReleased(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		for _, group := range []client.Object{&v1beta1.PodGroup{}, j.engineGroup()} {
			g.Expect(j.Client.Get(ctx, j.key(), group)).To(Satisfy(apierrors.IsNotFound), "%T", group)
		}
	}, released).Should(Succeed())
}

// expectHeld expects that the job is Pending without pods. The reason must be in the status of the job, and in a
// condition that is False and has a message.
func (j job) expectHeld(ctx context.Context, reason string) {
	GinkgoHelper()
	Eventually(ctx, j.reason(ctx)).Should(Equal(reason))
	status := j.status(ctx)
	Expect(status.Phase).To(Equal(batchv1beta1.JobPhasePending))
	reported := false
	for _, condition := range status.Conditions {
		reported = reported ||
			condition.Status == metav1.ConditionFalse && condition.Reason == reason && condition.Message != ""
	}
	Expect(reported).To(BeTrue(), "%+v", status.Conditions)
	Expect(j.pods(ctx)()).To(BeEmpty())
}
