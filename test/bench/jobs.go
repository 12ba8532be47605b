package bench

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/localcluster"
)

// nodes is how many there are. A node of kwok has 4,096 addresses for pods.
const nodes = 20

// replicas is how many most jobs have.
const replicas = 4

// jobsPerNamespace is how many jobs one team has where there are many. Kubernetes tries the selectors of all Services
// in a namespace for each pod that changes there, so that more would measure that.
const jobsPerNamespace = 100

// work is what a job does: the same for every kind of it.
type work struct {
	namespace string
	replicas  int32
	// ends says that the replicas end a second after they began; otherwise they run until they are deleted.
	ends bool
	// queue schedules the replicas as a gang; without one they are on their nodes from the start.
	queue string
	// alone says that a replica that fails is replaced alone.
	alone bool
}

// of returns the work of the i-th job, in the namespace of its team.
func (w work) of(i int) work {
	w.namespace = fmt.Sprintf("%s-%d", benchNamespace, i/jobsPerNamespace)
	return w
}

// name returns that of the i-th job.
func (w work) name(i int) string { return fmt.Sprintf("job-%d", i) }

// leader returns the name by which the replicas of the i-th job, as one of batch/v1, find their leader.
func (w work) leader(i int) string {
	return fmt.Sprintf("%[1]s-0.%[1]s.%[2]s.svc.%[3]s", w.name(i), w.namespace, clusterDomain)
}

// template returns that of the pods of the i-th job.
func (w work) template(i int) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "pytorch", Image: "none", Command: []string{"python3", "train.py"}}},
	}}
	if w.queue == "" {
		template.Spec.NodeName = fmt.Sprintf("simulated-%d", i%nodes)
	}
	if w.ends {
		template.Annotations = map[string]string{localcluster.AnnotationRunSeconds: "1"}
	}
	return template
}

// trainingJob returns the i-th job as one of ours.
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
	if w.alone {
		job.Spec.RunPolicy.RestartScope = batchv1beta1.RestartScopeReplica
	}
	if w.queue != "" {
		job.Spec.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: w.queue}}
	}
	return job
}

// batchJob returns the i-th job as one of batch/v1.
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

// service returns the headless Service by which the replicas of the i-th job find each other.
func (w work) service(i int, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name(i)},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: selector},
	}
}
