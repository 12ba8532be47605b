package kueue

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

const (
	// managedBy is the line of a spec that leaves a job to MultiKueue.
	managedBy = "  managedBy: kueue.x-k8s.io/multikueue\n"
	// dispatchTimeout is how long a test waits for a change to arrive in the other cluster. Kueue batches changes for a
	// second.
	dispatchTimeout = 3 * time.Minute
)

// workerRights are the permissions of MultiKueue in a worker cluster for Workloads, and for Jobs of batch/v1. The
// permissions are from Kueue's documentation.
const workerRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: multikueue}
rules:
  - apiGroups: [batch]
    resources: [jobs]
    verbs: [get, list, watch, create, delete]
  - apiGroups: [batch]
    resources: [jobs/status]
    verbs: [get]
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, create, delete]
  - apiGroups: [kueue.x-k8s.io]
    resources: [workloads]
    verbs: [get, list, watch, create, update, delete]
  - apiGroups: [kueue.x-k8s.io]
    resources: [workloads/status]
    verbs: [get, update, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: multikueue}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: multikueue}
subjects: [{kind: ServiceAccount, name: multikueue-sa, namespace: kueue-system}]
`

// dispatch has the manifests of an admission check that dispatches jobs to a worker cluster. %s is the kubeconfig of
// the worker cluster, in base64.
const dispatch = `
apiVersion: v1
kind: Secret
metadata: {name: worker, namespace: kueue-system}
data: {kubeconfig: %s}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: worker}
spec: {clusterSource: {kubeConfig: {locationType: Secret, location: worker}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: multikueue}
spec: {clusters: [worker]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: multikueue}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: multikueue}
---
`

// plainJob is the manifest of a batch/v1 Job with two pods. %s is its name.
const plainJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: default, labels: {kueue.x-k8s.io/queue-name: queue}}
spec:
` + managedBy + `
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: image, command: [train], resources: {requests: {cpu: 1}}}]
`

// dispatchesOurKinds is the Kueue configuration of a manager cluster. With it, MultiKueue also dispatches the job
// kinds of this repository.
var dispatchesOurKinds = configuration + "\nmultiKueue:\n  externalFrameworks:\n" + frameworks()

// frameworks returns the job kinds as entries of multiKueue.externalFrameworks.
func frameworks() string {
	var entries strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&entries, "    - name: %s.v1beta1.batch.tensorstack.dev\n", kind)
	}
	return entries.String()
}

// clusters are a manager cluster without nodes and a worker cluster. In both, a LocalQueue named queue has a quota of
// 20 CPUs. MultiKueue dispatches the jobs of the manager's queue to the worker cluster.
type clusters struct {
	manager, worker *cluster

	// created are the pods that were created in the manager cluster.
	created *record
}

// startClusters starts a manager cluster and a worker cluster. The parameter config is the configuration of Kueue in
// the manager cluster.
func startClusters(ctx context.Context, config string) *clusters {
	GinkgoHelper()
	quota := strings.Replace(queues, "nominalQuota: 2\n", "nominalQuota: 20\n", 1)
	worker := start(ctx, configuration, "20")
	rights, err := os.ReadFile("../../examples/install/multikueue/worker.yaml")
	Expect(err).NotTo(HaveOccurred())
	worker.apply(ctx, strings.Join([]string{quota, workerRights, string(rights)}, "\n---\n"))
	path, err := worker.Kubeconfig("multikueue", "system:serviceaccount:kueue-system:multikueue-sa")
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())

	manager := start(ctx, config)
	created := manager.recordPods(ctx)
	manager.letsKueueWriteStatus(ctx)
	const selector = "  namespaceSelector: {}\n"
	manager.apply(ctx, fmt.Sprintf(dispatch, base64.StdEncoding.EncodeToString(kubeconfig))+strings.Replace(
		quota, selector, selector+"  admissionChecksStrategy: {admissionChecks: [{name: multikueue}]}\n", 1))
	Eventually(ctx, manager.isActive(ctx, "MultiKueueCluster", "worker")).WithTimeout(dispatchTimeout).Should(BeTrue())
	Eventually(ctx, manager.isActive(ctx, "ClusterQueue", "team")).WithTimeout(dispatchTimeout).Should(BeTrue())
	return &clusters{manager: manager, worker: worker, created: created}
}

// letsKueueWriteStatus applies examples/install/multikueue/manager.yaml. It expects that the ServiceAccount of Kueue
// gets the permission to write the status of jobs from this manifest only. The Kueue of these tests has all
// permissions, so the other tests would pass without the manifest.
func (c *cluster) letsKueueWriteStatus(ctx context.Context) {
	GinkgoHelper()
	isAllowed := func(kind string) func() (bool, error) {
		return func() (bool, error) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:kueue-system:kueue-controller-manager",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: corev1.NamespaceDefault, Verb: "patch", Group: "batch.tensorstack.dev",
					Resource: strings.ToLower(kind) + "s", Subresource: "status",
				},
			}}
			err := c.Client.Create(ctx, review)
			return review.Status.Allowed, err
		}
	}
	for kind := range kinds {
		Expect(isAllowed(kind)()).To(BeFalse(), kind)
	}
	permission, err := os.ReadFile("../../examples/install/multikueue/manager.yaml")
	Expect(err).NotTo(HaveOccurred())
	c.apply(ctx, string(permission))
	for kind := range kinds {
		Eventually(ctx, isAllowed(kind)).Should(BeTrue(), kind)
	}
}

// isActive returns a function that reports whether the condition Active of an object of Kueue is True.
func (c *cluster) isActive(ctx context.Context, kind, name string) func() (bool, error) {
	return func() (bool, error) {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(kueuev1beta2.GroupVersion.String())
		object.SetKind(kind)
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(condition any) bool {
			fields, ok := condition.(map[string]any)
			return ok && fields["type"] == "Active" && fields["status"] == "True"
		}), err
	}
}

// record holds the names of all pods that a cluster has ever had in the namespace default.
type record struct {
	mutex sync.Mutex
	names []string
	err   error
}

// recordPods records the pods that are created from now on. ctx ends with BeforeAll, but the specs also need the
// record. So the recording continues until the clean-up.
func (c *cluster) recordPods(ctx context.Context) *record {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watcher, err := client.NewWithWatch(c.Config, client.Options{Scheme: c.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	pods, err := watcher.Watch(ctx, &corev1.PodList{}, client.InNamespace(corev1.NamespaceDefault))
	Expect(err).NotTo(HaveOccurred())
	r := &record{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range pods.ResultChan() {
			r.add(event)
		}
		if ctx.Err() == nil {
			r.add(watch.Event{Type: watch.Error})
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *record) add(event watch.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch pod, ok := event.Object.(*corev1.Pod); {
	case !ok:
		r.err = errors.New("the watch of the pods has ended")
	case event.Type == watch.Added:
		r.names = append(r.names, pod.Name)
	}
}

// of returns a function that returns the names of the recorded pods of a job.
func (r *record) of(job string) func() ([]string, error) {
	return func() ([]string, error) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return slices.DeleteFunc(slices.Clone(r.names), func(name string) bool {
			return !strings.HasPrefix(name, job+"-")
		}), r.err
	}
}

// dispatched is a job in the manager cluster, with its copy in the worker cluster.
type dispatched struct {
	job

	remote  job
	created *record
}

// job creates a job in the manager cluster. The parameter changes has pairs: a text in the manifest and its
// replacement.
func (c *clusters) job(ctx context.Context, kind, name string, changes ...string) dispatched {
	GinkgoHelper()
	manifest := fmt.Sprintf(kinds[kind], name, kueuev1beta2.LabelQueueName+": queue")
	c.manager.apply(ctx, strings.NewReplacer(changes...).Replace(manifest))
	return dispatched{
		job: job{cluster: c.manager, kind: kind, name: name}, remote: job{cluster: c.worker, kind: kind, name: name},
		created: c.created,
	}
}

// left has the changes of a manifest (see clusters.job) that set spec.managedBy, which leaves the job to MultiKueue.
var left = []string{"\nspec:\n", "\nspec:\n" + managedBy}

// runs expects the job to run in the worker cluster, and its status in the manager cluster to show the pods of the
// worker cluster.
func (d dispatched) runs(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, d.remote.state(ctx)).WithTimeout(dispatchTimeout).Should(Equal("Running"))
	Eventually(ctx, d.state(ctx)).WithTimeout(dispatchTimeout).Should(Equal("Running"))
	Eventually(ctx, func(g Gomega) {
		pods, err := d.remote.pods(ctx)()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(2))
		status, err := d.status(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		shown := map[string]types.UID{}
		for _, task := range status.Tasks {
			for _, replica := range task.Replicas {
				shown[replica.Name] = replica.UID
			}
		}
		g.Expect(shown).To(Equal(uids(pods)))
	}).WithTimeout(dispatchTimeout).Should(Succeed())
	Expect(d.created.of(d.name)()).To(BeEmpty(), "pods in the manager cluster")
}

// isGone expects that the job, its Workload and its pods do not exist in the worker cluster.
func (d dispatched) isGone(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, d.remote.exists(ctx)).WithTimeout(dispatchTimeout).Should(BeFalse())
	Eventually(ctx, d.remote.hasWorkload(ctx)).WithTimeout(dispatchTimeout).Should(BeFalse())
	Eventually(ctx, d.remote.pods(ctx)).WithTimeout(dispatchTimeout).Should(BeEmpty())
}

// isRejected expects Kueue to reject the job for a reason that contains the parameter message. The job must run in
// neither cluster.
func (d dispatched) isRejected(ctx context.Context, message string) {
	GinkgoHelper()
	Eventually(ctx, d.condition(ctx, kueuev1beta2.ConditionEvicted)).WithTimeout(dispatchTimeout).Should(
		Equal("True DeactivatedDueToAdmissionCheck"))
	Eventually(ctx, func(g Gomega) {
		workload, err := d.workload(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		evicted := meta.FindStatusCondition(workload.Status.Conditions, kueuev1beta2.ConditionEvicted)
		g.Expect(evicted.Message).To(ContainSubstring("Rejected"))
		g.Expect(evicted.Message).To(ContainSubstring(message))
		g.Expect(workload.Status.AdmissionChecks).To(ConsistOf(
			And(HaveField("Name", "multikueue"), HaveField("State", "Rejected"))))
		g.Expect(workload.Spec.Active).To(HaveValue(BeFalse()))
	}).WithTimeout(dispatchTimeout).Should(Succeed())
	d.isGone(ctx)
	Expect(d.created.of(d.name)()).To(BeEmpty(), "pods in the manager cluster")
}

// exists returns a function that reports whether the job exists.
func (j job) exists(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		object := j.object()
		return found(j.Client.Get(ctx, client.ObjectKeyFromObject(object), object))
	}
}

// hasWorkload returns a function that reports whether the job has a Workload.
func (j job) hasWorkload(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		_, err := j.workload(ctx)
		return found(err)
	}
}

// found reports whether a read has found its object. It returns the error of the read, unless this is a not-found
// error.
func found(err error) (bool, error) {
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// uid returns a function that returns the UID of the job.
func (j job) uid(ctx context.Context) func() (types.UID, error) {
	return func() (types.UID, error) {
		object := j.object()
		err := j.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		return object.GetUID(), err
	}
}

// fails waits until a pod of the replica runs, and makes its main container exit with 1.
func (j job) fails(ctx context.Context, index int) {
	GinkgoHelper()
	const exitCode = "simulation.tensorstack.dev/exit-code"
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: fmt.Sprintf("%s-worker-%d", j.name, index)}
	Eventually(ctx, func(g Gomega) {
		g.Expect(j.Client.Get(ctx, key, pod)).To(Succeed())
		g.Expect(pod.DeletionTimestamp).To(BeNil())
		g.Expect(pod.Annotations).NotTo(HaveKey(exitCode))
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	}).WithTimeout(dispatchTimeout).Should(Succeed())
	j.patch(ctx, pod, fmt.Sprintf(`{"metadata": {"annotations": {%q: "1"}}}`, exitCode))
}

var _ = Describe("A manager cluster of MultiKueue without multiKueue.externalFrameworks", Label("multikueue"), Ordered,
	ContinueOnFailure, func() {
		var c *clusters
		BeforeAll(func(ctx context.Context) { c = startClusters(ctx, configuration) })

		It("lets a batch/v1 Job run in the worker cluster", func(ctx context.Context) {
			c.manager.apply(ctx, fmt.Sprintf(plainJob, "plain"))
			pods := &corev1.PodList{}
			Eventually(ctx, func(g Gomega) {
				g.Expect(c.worker.Client.List(ctx, pods, client.InNamespace(corev1.NamespaceDefault),
					client.MatchingLabels{batchv1.JobNameLabel: "plain"})).To(Succeed())
				g.Expect(pods.Items).To(HaveLen(2))
				g.Expect(pods.Items).To(HaveEach(HaveField("Status.Phase", corev1.PodRunning)))
			}).WithTimeout(dispatchTimeout).Should(Succeed())
			for i := range pods.Items {
				c.worker.patch(ctx, &pods.Items[i], `{"metadata": {"annotations": {"simulation.tensorstack.dev/exit-code": "0"}}}`)
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "plain"}}
			Eventually(ctx, func(g Gomega) {
				g.Expect(c.manager.Client.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
				g.Expect(job.Status.Conditions).To(ContainElement(
					And(HaveField("Type", batchv1.JobComplete), HaveField("Status", corev1.ConditionTrue))))
				g.Expect(job.Status.Succeeded).To(Equal(int32(2)))
			}).WithTimeout(dispatchTimeout).Should(Succeed())
			Eventually(ctx, func() (bool, error) {
				return found(c.worker.Client.Get(ctx, client.ObjectKeyFromObject(job), job.DeepCopy()))
			}).WithTimeout(dispatchTimeout).Should(BeFalse())
			Expect(c.created.of("plain")()).To(BeEmpty(), "pods in the manager cluster")
		})

		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			It("rejects a "+kind, func(ctx context.Context) {
				d := c.job(ctx, kind, "rejected-"+strings.ToLower(kind), left...)
				d.isRejected(ctx, "No multikueue adapter found for owner kind")
			})
		}
	})

var _ = Describe("A manager cluster of MultiKueue", Label("multikueue"), func() {
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		Describe("with a "+kind, Ordered, ContinueOnFailure, func() {
			var c *clusters
			BeforeAll(func(ctx context.Context) { c = startClusters(ctx, dispatchesOurKinds) })

			It("rejects a job without spec.managedBy", func(ctx context.Context) {
				c.job(ctx, kind, "own").isRejected(ctx, "The owner is not managed by Kueue")
			})

			It("shows what a job waits for", func(ctx context.Context) {
				d := c.job(ctx, kind, "waits", append([]string{"queue-name: queue", "queue-name: missing"}, left...)...)
				Eventually(ctx, d.state(ctx)).WithTimeout(dispatchTimeout).Should(
					And(HavePrefix("Pending Queued: "), ContainSubstring("LocalQueue missing doesn't exist")))
				d.isGone(ctx)
			})

			It("deletes a job after its time to live", func(ctx context.Context) {
				const policy = "  runPolicy: {ttlSecondsAfterFinished: 0}\n"
				d := c.job(ctx, kind, "expires",
					append([]string{"  replicaSpecs:", policy + "  replicaSpecs:", "  worker:", policy + "  worker:"}, left...)...)
				d.runs(ctx)
				d.remote.ends(ctx, 1)
				d.remote.ends(ctx, 0)
				Eventually(ctx, d.exists(ctx)).WithTimeout(dispatchTimeout).Should(BeFalse())
				d.isGone(ctx)
			})

			It("shows that a job has succeeded in the worker cluster, and deletes it there", func(ctx context.Context) {
				d := c.job(ctx, kind, "succeeds", left...)
				d.runs(ctx)
				remote := d.remote.object()
				Expect(c.worker.Client.Get(ctx, client.ObjectKeyFromObject(remote), remote)).To(Succeed())
				Expect(remote.GetLabels()).To(HaveKeyWithValue("kueue.x-k8s.io/multikueue-origin", "multikueue"))
				Expect(remote.Object["spec"]).NotTo(HaveKey("managedBy"))
				d.remote.ends(ctx, 1)
				d.remote.ends(ctx, 0)
				Eventually(ctx, d.state(ctx)).WithTimeout(dispatchTimeout).Should(Equal("Succeeded"))
				Eventually(ctx, d.condition(ctx, kueuev1beta2.ConditionFinished)).WithTimeout(dispatchTimeout).Should(
					Equal("True Succeeded"))
				d.isGone(ctx)
				Expect(d.state(ctx)()).To(Equal("Succeeded"))
				Expect(d.created.of(d.name)()).To(BeEmpty(), "pods in the manager cluster")
			})

			It("deletes a job in the worker cluster that is deleted in the manager cluster", func(ctx context.Context) {
				d := c.job(ctx, kind, "deleted", left...)
				d.runs(ctx)
				Expect(c.manager.Client.Delete(ctx, d.object())).To(Succeed())
				d.isGone(ctx)
				Eventually(ctx, d.hasWorkload(ctx)).WithTimeout(dispatchTimeout).Should(BeFalse())
				Expect(d.created.of(d.name)()).To(BeEmpty(), "pods in the manager cluster")
			})

			It("stops a job that is evicted in either cluster, and dispatches it again", func(ctx context.Context) {
				d := c.job(ctx, kind, "evicted", left...)
				d.runs(ctx)
				team := &unstructured.Unstructured{}
				team.SetAPIVersion(kueuev1beta2.GroupVersion.String())
				team.SetKind("ClusterQueue")
				team.SetName("team")
				for name, cluster := range map[string]*cluster{"the manager cluster": c.manager, "the worker cluster": c.worker} {
					By("evicting all jobs in " + name)
					Eventually(ctx, d.condition(ctx, kueuev1beta2.ConditionAdmitted)).WithTimeout(dispatchTimeout).Should(
						HavePrefix("True "), "Kueue ignores an earlier eviction")
					before, err := d.remote.uid(ctx)()
					Expect(err).NotTo(HaveOccurred())
					cluster.patch(ctx, team.DeepCopy(), `{"spec": {"stopPolicy": "HoldAndDrain"}}`)
					// Kueue deletes the job in the worker cluster. It can create the job there again, but does not admit it yet.
					Eventually(ctx, func(g Gomega) {
						uid, err := d.remote.uid(ctx)()
						g.Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
						g.Expect(uid).NotTo(Equal(before))
					}).WithTimeout(dispatchTimeout).Should(Succeed())
					Eventually(ctx, d.remote.pods(ctx)).WithTimeout(dispatchTimeout).Should(BeEmpty())
					Eventually(ctx, d.state(ctx)).WithTimeout(dispatchTimeout).Should(HavePrefix("Pending Queued: "))
					cluster.patch(ctx, team.DeepCopy(), `{"spec": {"stopPolicy": "None"}}`)
					d.runs(ctx)
				}
			})

			It("deletes a paused job in the worker cluster, and dispatches it again when it is resumed",
				func(ctx context.Context) {
					d := c.job(ctx, kind, "paused", left...)
					d.runs(ctx)
					before, err := d.remote.uid(ctx)()
					Expect(err).NotTo(HaveOccurred())
					c.manager.patch(ctx, d.object(), `{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
					d.isGone(ctx)
					Eventually(ctx, d.hasWorkload(ctx)).WithTimeout(dispatchTimeout).Should(BeFalse())
					Eventually(ctx, d.state(ctx)).WithTimeout(dispatchTimeout).Should(HavePrefix("Paused"))
					c.manager.patch(ctx, d.object(), `{"spec": {"runMode": {"pause": {"enabled": false}}}}`)
					d.runs(ctx)
					Expect(d.remote.uid(ctx)()).NotTo(Equal(before))
				})

			It("shows the restarts of a job, and that it has failed", func(ctx context.Context) {
				d := c.job(ctx, kind, "fails",
					append([]string{"  replicaSpecs:", limit + "  replicaSpecs:", "  worker:", limit + "  worker:"}, left...)...)
				d.runs(ctx)
				d.remote.fails(ctx, 1)
				Eventually(ctx, d.backoffCount(ctx)).WithTimeout(dispatchTimeout).Should(Equal(int32(1)))
				d.runs(ctx)
				d.remote.fails(ctx, 1)
				Eventually(ctx, d.state(ctx)).WithTimeout(dispatchTimeout).Should(Equal("Failed"))
				Expect(d.backoffCount(ctx)()).To(Equal(int32(1)))
				Eventually(ctx, d.condition(ctx, kueuev1beta2.ConditionFinished)).WithTimeout(dispatchTimeout).Should(
					Equal("True Failed"))
				d.isGone(ctx)
				Expect(d.state(ctx)()).To(Equal("Failed"))
				Expect(d.created.of(d.name)()).To(BeEmpty(), "pods in the manager cluster")
			})
		})
	}
})

// limit is the line of a spec that lets a job restart once.
const limit = "  runPolicy: {backoffLimit: 1}\n"

// backoffCount returns a function that returns the number of restarts of the job that count towards backoffLimit.
func (j job) backoffCount(ctx context.Context) func() (int32, error) {
	return func() (int32, error) {
		status, err := j.status(ctx)
		return status.BackoffCount, err
	}
}
