package test

import (
	"context"
	"encoding/base64"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/deepspeed/api/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
)

// threeWorkers is a patch for three workers. threeNames are the names of their pods.
const threeWorkers = "spec: {worker: {replicas: 3}}"

var threeNames = []string{"job-worker-0", "job-worker-1", "job-worker-2"}

// secret returns the only Secret in the namespace of the job.
func secret(ctx context.Context, job *v1beta1.DeepSpeedJob) *corev1.Secret {
	GinkgoHelper()
	var list corev1.SecretList
	Expect(cluster.Client.List(ctx, &list, client.InNamespace(job.Namespace))).To(Succeed())
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

// command returns a function for Eventually that returns the command of a worker, or nil while the pod does not exist.
func command(ctx context.Context, job *v1beta1.DeepSpeedJob, name string) func() []string {
	return func() []string {
		var pod corev1.Pod
		if cluster.Client.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: name}, &pod) != nil {
			return nil
		}
		return pod.Spec.Containers[0].Command
	}
}

var _ = Describe("A job", func() {
	It("runs from creation to Succeeded within the write budget", func(ctx context.Context) {
		job := cluster.Start(ctx, 3, threeWorkers)
		Expect(cluster.PodNames(ctx, job)).To(ConsistOf(threeNames))
		cluster.Run(ctx, job, threeNames...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.Ready).To(Equal("3/3"))
		for _, name := range []string{"job-worker-1", "job-worker-2", "job-worker-0"} {
			cluster.Exit(ctx, job, name, 0, "")
		}
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 3}))
		cluster.ExpectWriteBudget(ctx, job, 3)
	})

	It("ends when worker 0 succeeds, and deletes the other workers, which never end", func(ctx context.Context) {
		job := cluster.Start(ctx, 3, threeWorkers)
		cluster.Run(ctx, job, threeNames...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		cluster.Exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-0"))
	})

	It("runs the launcher on worker 0, and only an ssh server on the others", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, "spec: {config: {slotsPerWorker: 2}}")
		domain := ".job." + job.Namespace + ".svc.cluster.local"
		flags := []string{"--host=job-worker-%d" + domain, "--workers=2", "--slots=2"}
		leader, worker := cluster.Pod(ctx, job, "job-worker-0"), cluster.Pod(ctx, job, "job-worker-1")
		Expect(leader.Spec.Containers[0].Command).To(Equal(append(append([]string{"/t9k/agent/agent", "launch"}, flags...),
			"--need=deepspeed", "--need=pdsh", "--", "deepspeed", "--hostfile=/t9k/hostfile", "--master_addr=job-worker-0"+
				domain, "--force_multi", "train.py")))
		Expect(worker.Spec.Containers[0].Command).To(Equal(append([]string{"/t9k/agent/agent", "serve"}, flags...)))
		for pod, name := range map[*corev1.Pod]string{leader: "install-agent", worker: "wait-for-peers"} {
			Expect(pod.Spec.InitContainers).To(HaveLen(1))
			installs := pod.Spec.InitContainers[0]
			Expect(installs.Name).To(Equal(name))
			Expect(installs.Image).To(Equal("controller:test"))
			Expect(installs.Args).To(ContainElement("--install=/t9k/agent"))
		}
	})

	It("restarts all workers when one fails, which counts once", func(ctx context.Context) {
		job := cluster.Start(ctx, 3, threeWorkers)
		cluster.Run(ctx, job, threeNames...)
		var old []*corev1.Pod
		for _, name := range threeNames {
			old = append(old, cluster.Pod(ctx, job, name))
		}
		cluster.Exit(ctx, job, "job-worker-1", 1, "")
		for _, pod := range old {
			cluster.Replacement(ctx, pod)
		}
		Expect(cluster.Get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Attempt).To(Equal(int32(1)))
	})

	It("has no pods, and reports the reason, if its template uses a reserved path", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), `
spec:
  worker:
    template:
      spec:
        volumes: [{name: keys, emptyDir: {}}]
        containers: [{name: worker, image: training, volumeMounts: [{name: keys, mountPath: /t9k/./ssh}]}]
`)
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonInvalidTemplate))
		Expect(
			integration.Condition(job, batchv1beta1.ConditionInitialized).Message,
		).To(ContainSubstring("mounts a volume at /t9k/./ssh, which is reserved"))
		Expect(cluster.PodNames(ctx, job)).To(BeEmpty())
	})

	It("uses resumeSpecs after a pause", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, "spec: {runMode: {pause: {resumeSpecs: [{type: worker, args: [train.py, --resume]}]}}}")
		launches := command(ctx, job, "job-worker-0")()
		serves := command(ctx, job, "job-worker-1")()
		cluster.Edit(ctx, job, integration.Paused)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		cluster.Edit(ctx, job, integration.Resumed)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
		Expect(command(ctx, job, "job-worker-0")()).To(Equal(append(launches, "--resume")))
		Expect(command(ctx, job, "job-worker-1")()).To(Equal(serves))
	})

	It("in debug mode only serves ssh on every worker", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, `spec: {config: null, runMode: {debug: {enabled: true}}}`)
		Expect(command(ctx, job, "job-worker-0")()[:2]).To(Equal([]string{"/t9k/agent/agent", "serve"}))
		Expect(command(ctx, job, "job-worker-1")()).To(Equal(command(ctx, job, "job-worker-0")()))
	})

	It("in debug mode runs the command that the user sets", func(ctx context.Context) {
		job := cluster.Start(ctx, 2,
			`spec: {runMode: {debug: {enabled: true, replicaSpecs: [{type: worker, command: [sleep, "9"]}]}}}`)
		Expect(command(ctx, job, "job-worker-0")()).To(Equal([]string{"sleep", "9"}))
		Expect(cluster.Pod(ctx, job, "job-worker-0").Spec.Volumes).To(HaveLen(2), "the pod has the volumes of the agent")
	})
})

var _ = Describe("The key of a job", func() {
	It("is in one Secret, which the job owns and every worker mounts", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		key := secret(ctx, job)
		Expect(key.Name).To(Equal("job-ssh-" + string(job.UID)))
		Expect(key.Type).To(Equal(corev1.SecretTypeSSHAuth))
		Expect(key.Immutable).To(HaveValue(BeTrue()))
		Expect(key.Data).To(HaveLen(1))
		Expect(metav1.IsControlledBy(key, job)).To(BeTrue())
		Expect(key.Labels).To(And(HaveKeyWithValue(batchv1beta1.LabelJobKind, "DeepSpeedJob"),
			HaveKeyWithValue(batchv1beta1.LabelJobName, "job")))
		for _, name := range []string{"job-worker-0", "job-worker-1"} {
			Expect(cluster.Pod(ctx, job, name).Spec.Volumes).To(ContainElement(HaveField("VolumeSource.Secret",
				HaveField("SecretName", key.Name))))
		}
	})

	It("stays the same while the job is restarted, paused and resumed", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		before := secret(ctx, job)
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		peer := cluster.Pod(ctx, job, "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-0", 1, "")
		cluster.Replacement(ctx, peer)
		Expect(secret(ctx, job)).To(Equal(before))

		cluster.Edit(ctx, job, integration.Paused)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhasePaused))
		cluster.Edit(ctx, job, integration.Resumed)
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
		Expect(secret(ctx, job)).To(Equal(before))
	})

	It("is different for each job", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		first := secret(ctx, job)
		other := cluster.Create(ctx, job.Namespace, "metadata: {name: other}")
		second := &corev1.Secret{}
		Eventually(ctx, func() error {
			return cluster.Client.Get(ctx, client.ObjectKey{
				Namespace: job.Namespace, Name: "other-ssh-" + string(other.UID),
			}, second)
		}).Should(Succeed())
		Expect(second.Data).NotTo(Equal(first.Data))
	})

	It("is in no object except its Secret", func(ctx context.Context) {
		job := cluster.Start(ctx, 2)
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		peer := cluster.Pod(ctx, job, "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-0", 1, "")
		cluster.Replacement(ctx, peer)
		Eventually(ctx,
			func() []string { return cluster.EventReasons(ctx, job) }).Should(ContainElements("Created", "Restarting"))

		key := secret(ctx, job).Data[corev1.SSHAuthPrivateKey]
		for _, list := range []client.ObjectList{
			&v1beta1.DeepSpeedJobList{}, &corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
			&eventsv1.EventList{},
		} {
			Expect(cluster.Client.List(ctx, list, client.InNamespace(job.Namespace))).To(Succeed())
			document, err := json.Marshal(list)
			Expect(err).NotTo(HaveOccurred())
			body := key[len("-----BEGIN OPENSSH PRIVATE KEY-----\n"):][:64]
			Expect(string(document)).NotTo(Or(ContainSubstring("PRIVATE KEY"), ContainSubstring(string(body)),
				ContainSubstring(base64.StdEncoding.EncodeToString(key)[:64])))
		}
	})

	It("is deleted when no worker runs anymore, and not before", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, "spec: {runPolicy: {cleanUpPolicy: None}}")
		key := client.ObjectKeyFromObject(secret(ctx, job))
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		cluster.Exit(ctx, job, "job-worker-0", 0, "")
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Expect(cluster.Client.Get(ctx, key, &corev1.Secret{})).To(Succeed(), "worker-1 still runs")
		cluster.Exit(ctx, job, "job-worker-1", 0, "")
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, key, &corev1.Secret{}))
		}).Should(BeTrue())
	})

	It("is in a Secret that the controller can create and delete, but neither read nor change", func(ctx context.Context) {
		for _, verb := range []string{"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:t9k-deepspeed:deepspeed-controller",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: metav1.NamespaceDefault, Verb: verb, Version: "v1", Resource: "secrets", Name: "job-ssh-uid",
				},
			}}
			Expect(cluster.Client.Create(ctx, review)).To(Succeed())
			Expect(review.Status.Allowed).To(Equal(verb == "create" || verb == "delete"), verb)
		}
	})

	It("delays the pods while a quota blocks its Secret, and the job reports this", func(ctx context.Context) {
		namespace := cluster.NewNamespace(ctx)
		quota := secretQuota(ctx, namespace, "0")
		job := cluster.Create(ctx, namespace)
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonCreateFailed))
		Expect(integration.Condition(job, batchv1beta1.ConditionInitialized).Message).To(And(
			ContainSubstring("creating secret job-ssh-"+string(job.UID)), ContainSubstring("exceeded quota: few")))
		Expect(cluster.PodNames(ctx, job)).To(BeEmpty(), "pods could not start without the Secret")

		Expect(cluster.Client.Delete(ctx, quota)).To(Succeed())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(HaveLen(2))
	})
})

// secretQuota creates a ResourceQuota that limits the number of Secrets. It sets the usage in the status to 0,
// because no quota controller runs here.
func secretQuota(ctx context.Context, namespace, most string) *corev1.ResourceQuota {
	GinkgoHelper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse(most)}},
	}
	Expect(cluster.Client.Create(ctx, quota)).To(Succeed())
	quota.Status.Hard = quota.Spec.Hard
	quota.Status.Used = corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}
	Expect(cluster.Client.Status().Update(ctx, quota)).To(Succeed())
	return quota
}

var _ = Describe("An elastic job", func() {
	It("scales up and down without replacing its other pods", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, elastic)
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		leader, peer := cluster.Pod(ctx, job, "job-worker-0"), cluster.Pod(ctx, job, "job-worker-1")
		Expect(leader.Spec.Containers[0].Command).To(ContainElements("launch", "--min-workers=1", "--max-workers=4"))
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))

		Expect(cluster.Scale(ctx, job, 3)).To(Succeed())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf(threeNames))
		cluster.Run(ctx, job, "job-worker-2")
		Eventually(ctx, func() string { return cluster.Get(ctx, job).Status.Ready }).Should(Equal("3/3"))
		Expect(cluster.Pod(ctx, job, "job-worker-0").UID).To(Equal(leader.UID))
		Expect(cluster.Pod(ctx, job, "job-worker-1").UID).To(Equal(peer.UID))

		Expect(cluster.Scale(ctx, job, 1)).To(Succeed())
		Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf("job-worker-0"))
		Expect(cluster.Pod(ctx, job, "job-worker-0").UID).To(Equal(leader.UID))
		Expect(cluster.Get(ctx, job).Status.Failures).To(BeEmpty())
		Expect(job.Status.BackoffCount).To(BeZero())
	})

	It("reports its size and its pod selector to autoscalers", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, elastic)
		scale := &autoscalingv1.Scale{}
		Eventually(ctx, func() int32 {
			Expect(cluster.Client.SubResource("scale").Get(ctx, job, scale)).To(Succeed())
			return scale.Status.Replicas
		}).Should(Equal(int32(2)))
		Expect(scale.Spec.Replicas).To(Equal(int32(2)))
		Expect(
			scale.Status.Selector,
		).To(Equal("batch.tensorstack.dev/job-kind=DeepSpeedJob,batch.tensorstack.dev/job-name=job"))
	})

	It("restarts only the worker that failed", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, elastic)
		cluster.Run(ctx, job, "job-worker-0", "job-worker-1")
		leader := cluster.Pod(ctx, job, "job-worker-0")
		cluster.Replacement(ctx, cluster.Exit(ctx, job, "job-worker-1", 1, ""))
		Expect(cluster.Pod(ctx, job, "job-worker-0").UID).To(Equal(leader.UID))
		Expect(cluster.Get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
	})
})
