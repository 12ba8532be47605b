package bench

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/localcluster"
)

// nodes is the number of nodes. One node is not enough for all pods, because a kwok node has only 4,096 pod addresses.
const nodes = 20

// replicas is the number of replicas of most jobs.
const replicas = 4

// jobsPerNamespace is the number of jobs in a namespace when there are many jobs. For each change of a pod, Kubernetes
// evaluates the selectors of all Services in the namespace. With more jobs, this cost would dominate the measurement.
const jobsPerNamespace = 100

// work describes jobs independently of their kind.
type work struct {
	namespace string
	replicas  int32
	// ends is true if the replicas succeed a second after they start. Otherwise they run until they are deleted.
	ends bool
	// queue is the Queue of the job, whose replicas are then scheduled as a gang. Empty means that the job has no Queue.
	// In that case, the pod template names a node, unless the field played is true.
	queue string
	// localQueue is the LocalQueue from which Kueue admits the job. If it is empty, the job runs without Kueue.
	localQueue string
	// played is true if the benchmark plays the kubelet: the pods have no nodes, and the benchmark writes their statuses.
	// When such a pod is deleted, it is gone immediately: there is no kubelet that stops it first.
	played bool
	// reports is true if the jobs report progress.
	reports bool
	// alone is true if a failed replica is replaced without restarting the others.
	alone bool
}

// of returns a copy of w with the namespace of the i-th job.
func (w work) of(i int) work {
	w.namespace = fmt.Sprintf("%s-%d", benchNamespace, i/jobsPerNamespace)
	return w
}

// name returns the name of the i-th job.
func (w work) name(i int) string { return fmt.Sprintf("job-%d", i) }

// pod returns the name of the pod with the given index, if the i-th job is a PyTorchTrainingJob.
func (w work) pod(i int, index int32) string { return fmt.Sprintf("%s-worker-%d", w.name(i), index) }

// leader returns the host name of the leader, if the i-th job is a batch/v1 Job.
func (w work) leader(i int) string {
	return fmt.Sprintf("%[1]s-0.%[1]s.%[2]s.svc.%[3]s", w.name(i), w.namespace, clusterDomain)
}

// template returns the pod template of the i-th job.
func (w work) template(i int) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "pytorch", Image: "none", Command: []string{"python3", "train.py"}}},
	}}
	switch {
	case w.played:
		template.Spec.SchedulerName = "none"
	case w.queue == "":
		template.Spec.NodeName = fmt.Sprintf("simulated-%d", i%nodes)
	}
	if w.ends {
		template.Annotations = map[string]string{localcluster.AnnotationRunSeconds: "1"}
	}
	return template
}

// trainingJob returns the i-th job as a PyTorchTrainingJob.
func (w work) trainingJob(i int) *pytorchv1beta1.PyTorchTrainingJob {
	job := &pytorchv1beta1.PyTorchTrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name(i)},
		Spec: pytorchv1beta1.PyTorchTrainingJobSpec{
			ReplicaSpecs: []pytorchv1beta1.ReplicaSpec{{
				Type: "worker", Replicas: new(w.replicas), RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
				Template: w.template(i),
			}},
		},
	}
	if w.localQueue != "" {
		job.Labels = map[string]string{kueuev1beta2.LabelQueueName: w.localQueue}
	}
	if w.reports {
		job.Spec.Progress = &batchv1beta1.ProgressSpec{Enabled: true}
	}
	if w.alone {
		job.Spec.RunPolicy.RestartScope = batchv1beta1.RestartScopeReplica
	}
	if w.queue != "" {
		job.Spec.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: w.queue}}
	}
	return job
}

// batchJob returns the i-th job as a batch/v1 Job.
func (w work) batchJob(i int) *batchv1.Job {
	template := w.template(i)
	template.Spec.Subdomain = w.name(i)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name(i)},
		Spec: batchv1.JobSpec{
			CompletionMode: new(batchv1.IndexedCompletion),
			Completions:    new(w.replicas),
			Parallelism:    new(w.replicas),
			BackoffLimit:   new(int32(3)),
			Template:       template,
		},
	}
}

// service returns the headless Service that gives the replicas of the i-th job their host names.
func (w work) service(i int, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name(i)},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: selector},
	}
}
