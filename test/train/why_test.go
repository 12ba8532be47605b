package train

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/why"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

var _ = Describe("kubectl train why", func() {
	It("names the pod, the image and the answer of the registry", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "", container("")))
		for _, pod := range []string{"digits-worker-0", "digits-worker-1"} {
			n.waits(ctx, pod, "ImagePullBackOff", `Back-off pulling image "ghcr.io/vision/training:2": ErrImagePull: failed to `+
				`pull and unpack image "ghcr.io/vision/training:2": failed to resolve reference "ghcr.io/vision/training:2": `+
				`ghcr.io/vision/training:2: not found`)
		}
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. The image ghcr.io/vision/training:2 of container main in pod digits-worker-0 cannot be pulled (and 1 other pod waits for the same reason): not found. The registry has no image of this name and tag. Correct the name or the tag.

Next:
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0
  # Pause the job, correct the image, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`)
	})

	It("translates the words of the scheduler, and names what a pod requests", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "", container(", resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi}}")))
		n.fitNowhere(ctx, "0/12 nodes are available: 3 node(s) had untolerated taint(s), 9 Insufficient nvidia.com/gpu. "+
			"no new claims to deallocate, preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling.",
			"digits-worker-0", "digits-worker-1")
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. No node can take pod digits-worker-0 (and 1 other pod waits for the same reason). Of the 12 nodes, 9 have too little nvidia.com/gpu left and 3 have a taint that the job does not tolerate. The pod requests memory=64Gi and nvidia.com/gpu=8. Request less, or wait until other jobs end, or ask for more nodes.

Next:
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # See which jobs hold resources
  kubectl train list -A -o wide
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`)
	})

	It("names the resource that no node has enough of, if the user may read the nodes", func(ctx context.Context) {
		n := newNamespace(ctx)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
		Expect(api.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(api.Delete(ctx, node)).To(Succeed()) })
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		Expect(api.Status().Update(ctx, node)).To(Succeed())
		n.create(ctx, job("digits", "", container(", resources: {limits: {nvidia.com/gpu: 8}}")))
		n.fitNowhere(ctx, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "digits-worker-0", "digits-worker-1")
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. No node can take pod digits-worker-0 (and 1 other pod waits for the same reason). The only node has too little nvidia.com/gpu left. The pod requests nvidia.com/gpu=8. No node has so much nvidia.com/gpu in total: the largest has 4. It does not help to wait, unless the cluster gets larger nodes. Request less, or ask for such nodes.

Next:
  # See what the nodes have, and how much of it is taken
  kubectl describe nodes
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`)
	})

	It("names the quota that rejects the pods", func(ctx context.Context) {
		n := newNamespace(ctx)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "gpus", Namespace: string(n)}}
		quota.Spec.Hard = corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("8")}
		Expect(api.Create(ctx, quota)).To(Succeed())
		// In a cluster, the kube-controller-manager would write this status.
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("6")}
		Expect(api.Status().Update(ctx, quota)).To(Succeed())
		n.create(ctx, job("digits", "", container(", resources: {limits: {nvidia.com/gpu: 4}}")))
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. The ResourceQuota gpus of the namespace NAMESPACE has no room for another pod: 6 of 8 requests.nvidia.com/gpu are in use, and the pod needs 4. Wait until other jobs of the namespace end, request less, or ask an administrator for a larger quota. The job continues automatically when there is room for all of its pods.

Next:
  # See what the quota allows, and how much of it is in use
  kubectl describe resourcequota gpus
  # See the jobs of the namespace
  kubectl train list
  # Pause the job, request less, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs scheduling resourcequotas
`)
	})

	It("quotes the problem of an invalid template", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "progress: {enabled: true},", container("")+", {name: progress, image: mine}"))
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. No pod can be made from the template of the job: the template of type "worker" has a container named "progress", which is reserved.

Next:
  # Read all conditions and events of the job
  kubectl describe ptjob/digits
  # Pause the job, correct the template as the message describes, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`)
	})

	It("explains the exit code of a program, and shows its last output", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "runPolicy: {backoffLimit: 0},", container("")))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.exit(ctx, "digits-worker-1", 1, "Traceback (most recent call last):\n"+
			"  File \"/code/train.py\", line 7, in <module>\n    raise ValueError(\"the data has no labels\")\n"+
			"\x1b[31mValueError: the data has no labels\x1b[0m\n")
		n.explains(ctx, "digits", `
ptjob/digits failed 0s ago, after 0s. Replica digits-worker-1 (rank 1) ended with exit code 1, an error of the program. No restart is left, because runPolicy.backoffLimit is 0. Fix the cause, delete the job, and create it again.

Its last output:
  | Traceback (most recent call last):
  |   File "/code/train.py", line 7, in <module>
  |     raise ValueError("the data has no labels")
  | ValueError: the data has no labels

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Delete the job, to create it again
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting failed
`)
	})

	It("names the memory limit of a replica that exceeded it", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "", container(", resources: {limits: {memory: 16Gi}}")))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.changePod(ctx, "digits-worker-0", func(status *corev1.PodStatus, _ []corev1.Container) {
			status.Phase = corev1.PodFailed
			status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.Now(),
				}},
			}}
		})
		n.explains(ctx, "digits", `
ptjob/digits restarts after a failure (restart 1 of at most 3): 0 of 2 replicas run. Replica digits-worker-0 (rank 0) was killed because it used more memory than its limit of 16Gi. Use less memory, for example with a smaller batch or fewer workers of the data loader, or raise the limit. Pod digits-worker-0 is starting (and 1 other pod waits for the same reason). Usually, it is enough to wait: pulling a large image takes minutes.

Next:
  # Read the whole output of the replica that failed
  kubectl train logs ptjob/digits --failed
  # Pause the job, raise resources.limits.memory, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits
  # Watch the job until it runs
  kubectl train watch ptjob/digits
  # Read the whole message, and the events of the pod
  kubectl describe pod digits-worker-0

Read more: kubectl train docs troubleshooting failed
Read more: kubectl train docs troubleshooting pending
`)
	})

	It("tells how to resume a paused job", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "runMode: {pause: {enabled: true}},", container("")))
		n.explains(ctx, "digits", `
ptjob/digits was paused 0s ago. No pod of the job is left, and the job keeps its history. It runs again when you resume it.

Next:
  # Let the job run again
  kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting paused
`)
	})

	It("reports a stall, and who reports the progress", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits",
			"progress: {enabled: true}, runPolicy: {progressDeadlineSeconds: 1800},", container("")))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.changeRunning(ctx, "digits", func(status *batchv1beta1.JobStatus) {
			status.Progress = &batchv1beta1.ProgressStatus{Summary: "42% (420/1000)", Replica: "digits-worker-0"}
			status.Conditions = append(status.Conditions, metav1.Condition{
				Type: batchv1beta1.ConditionStalled, Status: metav1.ConditionTrue, Reason: batchv1beta1.ReasonNoProgress,
				Message: "no other step was reported for runPolicy.progressDeadlineSeconds (1800 s) after 42% (420/1000) at " +
					"2026-11-26T13:04:05Z", LastTransitionTime: metav1.Now(),
			})
		})
		n.explains(ctx, "digits", `
ptjob/digits runs, but its training stalled 0s ago. No other step was reported for runPolicy.progressDeadlineSeconds (1800 s) after 42% (420/1000) at 2026-11-26T13:04:05Z. Replica digits-worker-0 (rank 0) reports the progress, and often waits for another one that hangs. The status does not show which replica hangs. If an evaluation or a checkpoint takes this long, the deadline is too short: raise it in runPolicy.

Next:
  # Compare the last output of all replicas: the one that hangs often prints something else, or nothing
  kubectl train logs ptjob/digits --all --tail=5
  # List the pods of the job, with their nodes
  kubectl get pods -o wide -l batch.tensorstack.dev/job-name=digits

Read more: kubectl train docs troubleshooting stalled
`)
	})

	It("reports in one line that a job runs, and how far it is", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "", container("")))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.changeRunning(ctx, "digits", func(status *batchv1beta1.JobStatus) {
			status.Progress = &batchv1beta1.ProgressStatus{Summary: "42% (420/1000)"}
		})
		n.explains(ctx, "digits", `
ptjob/digits has run for 0s. All 2 replicas run, and the training is at 42% (420/1000).

Next:
  # Follow the output of the job
  kubectl train logs ptjob/digits -f
  # Watch the job
  kubectl train watch ptjob/digits

Read more: kubectl train docs troubleshooting running
`)
	})

	It("reports that a job succeeded", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "runPolicy: {ttlSecondsAfterFinished: 86400},", container("")))
		n.run(ctx, "digits-worker-0", "digits-worker-1")
		n.exit(ctx, "digits-worker-1", 0, "")
		n.exit(ctx, "digits-worker-0", 0, "")
		n.explains(ctx, "digits", `
ptjob/digits succeeded 0s ago, after 0s. Its leader digits-worker-0 ended with exit code 0. It is deleted in 0s, with its pods and their logs (runPolicy.ttlSecondsAfterFinished).

Next:
  # Read the output of the job
  kubectl train logs ptjob/digits
  # Keep the job longer: change ttlSecondsAfterFinished
  kubectl edit ptjob/digits

Read more: kubectl train docs troubleshooting succeeded
`)
	})

	It("reports that another controller is responsible", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "managedBy: example.com/controller,", container("")))
		n.explains(ctx, "digits", `
ptjob/digits was created 0s ago and has no status. Its spec.managedBy is example.com/controller, so the pytorch-controller leaves the job to the controller of that name. Ask those who run that controller. The field cannot be changed.

Next:
  # Read all conditions and events of the job
  kubectl describe ptjob/digits
  # Read the events of the job
  kubectl events --for ptjob/digits

Read more: kubectl train docs kueue jobs-in-other-clusters
`)
	})

	It("names what the user may not read", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.allow(ctx, "jane", rbacv1.PolicyRule{
			APIGroups: []string{"batch.tensorstack.dev"}, Resources: []string{"*"}, Verbs: []string{"get"},
		})
		n.create(ctx, job("digits", "", container("")))
		n.waits(ctx, "digits-worker-0", "CreateContainerConfigError", `secret "wandb" not found`)
		n.waits(ctx, "digits-worker-1", "CreateContainerConfigError", `secret "wandb" not found`)
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. The pods of the job need the Secret wandb, which does not exist in the namespace NAMESPACE. Create it, and the job continues automatically. Or correct its name in the template. This leaves out its pods and the events, which you may not read.

Next:
  # List the Secrets of the namespace
  kubectl get secrets
  # Read all conditions and events of the job
  kubectl describe ptjob/digits
  # Pause the job, correct the name of the Secret, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`, "--as", "jane")
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. The pods of the job need the Secret wandb, which does not exist in the namespace NAMESPACE. Create it, and the job continues automatically. Or correct its name in the template.

Next:
  # List the Secrets of the namespace
  kubectl get secrets
  # Read all conditions and events of the job
  kubectl describe ptjob/digits
  # Pause the job, correct the name of the Secret, and resume it
  kubectl train pause ptjob/digits && kubectl edit ptjob/digits && kubectl train resume ptjob/digits

Read more: kubectl train docs troubleshooting pending
`)
	})

	It("prints all reasons for programs", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "runMode: {pause: {enabled: true}},", container("")))
		for _, format := range []string{"json", "yaml"} {
			Eventually(ctx, func(g Gomega) {
				out, _, err := n.train(ctx, "why", "digits", "-o", format)
				g.Expect(err).NotTo(HaveOccurred())
				var explanation why.Explanation
				g.Expect(yaml.UnmarshalStrict([]byte(out), &explanation)).To(Succeed())
				g.Expect(explanation.Phase).To(Equal("Paused"))
				g.Expect(explanation.Next).To(Equal([]why.Command{{
					Purpose: "Let the job run again",
					Line:    "kubectl train resume ptjob/digits --kubeconfig " + kubeconfig + " -n " + string(n),
				}}))
				reasons := map[string]string{}
				for _, finding := range explanation.Findings {
					reasons[finding.Condition] = finding.Reason
				}
				g.Expect(reasons).To(And(HaveKeyWithValue("Paused", "Paused"), HaveKeyWithValue("Initialized", "Accepted")))
			}).Should(Succeed())
		}
	})

	It("refuses another output format", func(ctx context.Context) {
		_, _, err := newNamespace(ctx).train(ctx, "why", "digits", "-o", "xml")
		Expect(err).To(MatchError(`invalid argument "xml" for "-o, --output" flag: use json or yaml`))
	})

	It("fails if the job does not exist or cannot be read", func(ctx context.Context) {
		n := newNamespace(ctx)
		_, _, err := n.train(ctx, "why", "digits")
		Expect(err).To(MatchError(fmt.Sprintf(
			"namespace %s has no job \"digits\": kubectl train list shows the jobs", n)))
		Expect(command.ExitCode(err)).To(Equal(1))
		_, _, err = n.train(ctx, "why", "digits", "--as", "jane")
		Expect(err).To(MatchError(HavePrefix("user jane may not get pytorchtrainingjobs")))
	})
})

var _ = Describe("kubectl train why about a job in a queue", Ordered, func() {
	BeforeAll(func() {
		scheduler, err := gexec.Build("tensorstack.dev/jobs/scheduler/cmd/scheduler-controller")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gexec.CleanupBuildArtifacts)
		session, err := gexec.Start(exec.Command(scheduler, "--kubeconfig="+kubeconfig, "--image=none",
			"--leader-elect=false",
			"--metrics-bind-address=0", "--health-probe-bind-address=0"), GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Terminate().Wait() })
	})

	It("names a queue that does not exist", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.create(ctx, job("digits", "scheduler: {t9kScheduler: {queue: nobodys}},", container("")))
		n.explains(ctx, "digits", `
ptjob/digits waits: 0 of 2 replicas run. The job is for Queue nobodys, but there is no such queue. Ask an administrator to create the queue. The queue of a job cannot be changed, so to use another one, delete the job and create it again.

Next:
  # List the queues of the cluster
  kubectl get queues.scheduler.tensorstack.dev
  # Delete the job, to create it again for another queue
  kubectl train delete ptjob/digits

Read more: kubectl train docs troubleshooting a-job-in-a-queue
`)
	})

	It("names a queue that is closed", func(ctx context.Context) {
		n := newNamespace(ctx)
		queue := &schedulerv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-"}}
		queue.Spec.Closed, queue.Spec.NamespaceSelector = true, &metav1.LabelSelector{}
		Expect(api.Create(ctx, queue)).To(Succeed())
		n.create(ctx, job("digits", "scheduler: {t9kScheduler: {queue: "+queue.Name+"}},", container("")))
		n.explains(ctx, "digits", strings.ReplaceAll(`
ptjob/digits waits: 0 of 2 replicas run. Queue QUEUE is closed, so none of its jobs gets resources. An administrator has closed it. Ask when it opens again.

Next:
  # Read the quota of the queue, and how much of it is in use
  kubectl describe queues.scheduler.tensorstack.dev QUEUE
  # List the queues of the cluster
  kubectl get queues.scheduler.tensorstack.dev

Read more: kubectl train docs troubleshooting a-job-in-a-queue
`, "QUEUE", queue.Name))
	})
})

// job returns the manifest of a PyTorchTrainingJob with two replicas. The parameter spec has additional fields of the
// spec. The parameter container is the container of the template.
func job(name, spec, container string) string {
	return fmt.Sprintf("{apiVersion: batch.tensorstack.dev/v1beta1, kind: PyTorchTrainingJob, metadata: {name: %s}, "+
		"spec: {%s replicaSpecs: [{type: worker, replicas: 2, restartPolicy: OnFailure, template: {spec: {containers: "+
		"[%s]}}}]}}",
		name, spec, container)
}

// container returns the container of a training, with additional fields.
func container(fields string) string {
	return "{name: main, image: 'ghcr.io/vision/training:2'" + fields + "}"
}

// waits marks the main container of a pod as waiting, with a reason and a message.
func (n namespace) waits(ctx context.Context, pod, reason, message string) {
	GinkgoHelper()
	n.changePod(ctx, pod, func(status *corev1.PodStatus, containers []corev1.Container) {
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: containers[0].Name, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
			},
		}}
	})
}

// changeRunning waits until a job runs, and then changes its status.
func (n namespace) changeRunning(ctx context.Context, name string, change func(*batchv1beta1.JobStatus)) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		found, err := jobs.Find(ctx, api, string(n), name)
		g.Expect(err).NotTo(HaveOccurred())
		status := found.JobStatus()
		g.Expect(status.Phase).To(Equal(batchv1beta1.JobPhaseRunning))
		change(status)
		g.Expect(api.Status().Update(ctx, found.Job)).To(Succeed())
	}).Should(Succeed())
}

// allow gives a user rights in the namespace.
func (n namespace) allow(ctx context.Context, user string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: user, Namespace: string(n)}
	Expect(api.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules})).To(Succeed())
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}

// explains waits until kubectl train why prints a text about a job. In this text, the first paragraph is one line,
// all ages are 0s, the namespace is NAMESPACE, and commands have no flags that select the cluster and the namespace.
func (n namespace) explains(ctx context.Context, name, text string, flags ...string) {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) { return n.why(ctx, append([]string{name}, flags...)...) }).
		Should(Equal(strings.TrimPrefix(text, "\n")))
}

// fitNowhere marks pods as unschedulable with a message, as a scheduler does.
func (n namespace) fitNowhere(ctx context.Context, message string, pods ...string) {
	GinkgoHelper()
	for _, pod := range pods {
		n.changePod(ctx, pod, func(status *corev1.PodStatus, _ []corev1.Container) {
			status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: message,
			}}
		})
	}
}

// ages matches durations as kubectl prints them.
var ages = regexp.MustCompile(`\b(\d+[smhd])+\b`)

// why runs kubectl train why, and replaces the parts of the text that differ in each run (see explains).
func (n namespace) why(ctx context.Context, args ...string) (string, error) {
	out, errOut, err := n.train(ctx, append([]string{"why"}, args...)...)
	if errOut != "" {
		return "", fmt.Errorf("stderr: %s", errOut)
	}
	paragraph, rest, _ := strings.Cut(out, "\n\n")
	out = strings.Join(strings.Fields(paragraph), " ") + "\n\n" + rest
	for _, flags := range []string{" --kubeconfig " + kubeconfig + " -n " + string(n), " --kubeconfig " + kubeconfig} {
		out = strings.ReplaceAll(out, flags, "") // commands about the cluster have no flag -n
	}
	return ages.ReplaceAllString(strings.ReplaceAll(out, string(n), "NAMESPACE"), "0s"), err
}
