package preview

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/framework"
)

// Plan has the objects that the controller creates for a job.
type Plan struct {
	controller.Preview

	Job jobs.Job
	// Replicas are the replicas of the job, by rank.
	Replicas []Replica
}

// Replica is a replica of a job with its pod.
type Replica struct {
	Pod  *corev1.Pod
	Rank int
	// Template is the template of the pod in the spec of the job.
	Template *corev1.PodTemplateSpec
	// main is the main container of the pod, and own is the main container of the template.
	main, own *corev1.Container
}

// NewPlan returns the plan of a job whose controller is installed with the given options.
func NewPlan(job jobs.Job, installed controller.Options) (Plan, error) {
	previewed, err := job.Preview(installed)
	if err != nil {
		return Plan{}, err
	}
	templates := map[string]*corev1.PodTemplateSpec{}
	for _, role := range job.Spec().Roles {
		templates[role.Type] = role.Template
	}
	p := Plan{Job: job, Preview: previewed}
	for _, object := range p.All() {
		if pod, ok := object.(*corev1.Pod); ok {
			template := templates[pod.Labels[batchv1beta1.LabelReplicaType]]
			p.Replicas = append(p.Replicas, Replica{
				Pod: pod, Rank: len(p.Replicas), Template: template,
				main: framework.MainContainer(job.Kind.MainContainers, pod.Spec.Containers),
				own:  framework.MainContainer(job.Kind.MainContainers, template.Spec.Containers),
			})
		}
	}
	return p, nil
}

// All returns all objects of the plan in the order of their creation.
func (p Plan) All() []client.Object {
	return slices.Concat(p.Objects, p.Admitted)
}

// Problem returns the reason why the job cannot start before somebody changes it, or nil. For a job without replicas,
// Problem returns nil, and Notes explains why the job has no pods.
func (p Plan) Problem() error {
	c := meta.FindStatusCondition(p.Status.Conditions, batchv1beta1.ConditionInitialized)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == batchv1beta1.ReasonNoReplicas {
		return nil
	}
	return fmt.Errorf("the controller creates no pods of %s: %s: %s", p.Job.Ref(), c.Reason, c.Message)
}

// Notes returns facts about the plan that its objects do not show.
func (p Plan) Notes() []string {
	spec := p.Job.Spec()
	var notes []string
	if len(p.Replicas) > 0 {
		notes = p.notesOnPods(spec)
	} else if p.Problem() == nil {
		notes = []string{p.whyWithoutPods(spec)}
	}
	if spec.Notice != "" {
		notes = append(notes, spec.Notice+".")
	}
	return notes
}

// whyWithoutPods returns why the controller creates no pods, although the job has no problem.
func (p Plan) whyWithoutPods(spec framework.JobSpec) string {
	switch {
	case spec.RunsElsewhere() && p.Admission == nil:
		return fmt.Sprintf("MultiKueue manages the job, which needs the label %s.", kueuev1beta2.LabelQueueName)
	case spec.RunsElsewhere():
		return "MultiKueue runs the job in another cluster. Its pods are created there."
	case !spec.RunsHere():
		return fmt.Sprintf("%s manages the job: spec.managedBy. The controller creates nothing.", spec.ManagedBy)
	case spec.RunMode.Pausing():
		return "The job is paused. To create its pods, set spec.runMode.pause.enabled to false."
	}
	for _, conditionType := range []string{batchv1beta1.ConditionInitialized, batchv1beta1.ConditionRunning} {
		c := meta.FindStatusCondition(p.Status.Conditions, conditionType)
		if c != nil && c.Status == metav1.ConditionFalse {
			return c.Message + "."
		}
	}
	return "The controller creates no pods."
}

// notesOnPods returns notes about a job that has pods.
func (p Plan) notesOnPods(spec framework.JobSpec) []string {
	var notes []string
	if spec.RunMode.Debugging() {
		notes = append(notes, "The job is in debug mode: its replicas wait for a user instead of training.")
	}
	if elastic := spec.Elastic; elastic != nil {
		notes = append(notes, fmt.Sprintf("The job is elastic. It begins with %d replicas, and can have %d to %d.",
			len(p.Replicas), elastic.Least(), elastic.Most()))
	}
	switch {
	case p.Admission != nil && spec.T9kScheduler() != nil:
		notes = append(notes, "A Queue with a quota or with nodes adds a scheduling gate to the pods. A priority adds a "+
			"PriorityClass.")
	case p.Admission != nil:
		notes = append(notes, "Kueue adds the nodes of the flavors that it assigns. The classes of the cluster determine "+
			"the priority of the Workload.")
	}
	if p.Job.GetUID() == "" {
		notes = append(notes, p.notesOnUID()...)
	}
	return notes
}

// notesOnUID returns notes about values that depend on the UID of a job that does not exist yet.
func (p Plan) notesOnUID() []string {
	notes := []string{fmt.Sprintf("%s stands for the UID, which the API server chooses.", controller.UnknownUID)}
	for _, r := range p.Replicas {
		if r.Pod.Spec.HostNetwork {
			return append(notes, "The ports of pods on the network of a node depend on the UID.")
		}
	}
	return notes
}

// schemeOnce returns a scheme with the types of all objects in plans.
var schemeOnce = sync.OnceValues(jobs.Scheme)

// Unstructured returns an object as it is sent to the API server, with its kind and without a status. The result shares
// the content of an object that is unstructured already, and Unstructured removes its status.
func Unstructured(object client.Object) (*unstructured.Unstructured, error) {
	scheme, err := schemeOnce()
	if err != nil {
		return nil, err
	}
	sent := &unstructured.Unstructured{}
	err = scheme.Convert(object, sent, nil)
	delete(sent.Object, "status")
	return sent, err
}
