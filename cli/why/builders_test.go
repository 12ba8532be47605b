package why

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/jobs"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// now is the time at which the tests explain jobs.
var now = time.Date(2026, 11, 26, 14, 0, 0, 0, time.UTC)

// before returns the time that was the given duration before now.
func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// template is the template of the jobs of the tests.
const template = `{spec: {containers: [{name: main, image: "ghcr.io/vision/training:2", resources: {limits: {nvidia.com/gpu: 4, memory: 16Gi}}}]}}`

// factsAbout returns the facts about a job that was created 10 minutes ago. The YAML in spec has further fields of
// the spec, and the YAML in status has all fields of the status.
func factsAbout(t *testing.T, spec, status string) Facts {
	t.Helper()
	kind := jobs.KindNamed("ptjob")
	job := jobs.Job{Job: kind.New(), Kind: kind}
	read(t, `{metadata: {name: digits, namespace: vision, generation: 1, creationTimestamp: "2026-11-26T13:50:00Z"}, spec: {`+
		spec+` replicaSpecs: [{type: worker, replicas: 2, restartPolicy: OnFailure, template: `+template+`}]}, status: {`+
		status+`}}`, job.Job)
	return Facts{Now: now, Job: job}
}

// read reads an object from YAML.
func read[T any](t *testing.T, text string, into T) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	return into
}

// waiting returns the status, as YAML, of a job whose condition Running is False with the given reason and message.
func waiting(reason, message string) string {
	return `phase: Pending, reason: ` + reason + `, aggregate: {pending: 2}, conditions: [` +
		conditionOf("Initialized", "True", "Accepted", "") + `,` + conditionOf("Running", "False", reason, message) + `]`
}

// conditionOf returns a condition that began 5 minutes ago, as YAML.
func conditionOf(conditionType, status, reason, message string) string {
	text, err := yaml.Marshal(metav1.Condition{
		Type: conditionType, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		LastTransitionTime: before(5 * time.Minute),
	})
	if err != nil {
		panic(err)
	}
	text, err = yaml.YAMLToJSON(text)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// pod returns a pod of the job. The parameter status is the status of the pod, in YAML.
func pod(t *testing.T, name, status string) corev1.Pod {
	t.Helper()
	p := read(t, template, &corev1.Pod{})
	p.Name, p.Namespace = name, "vision"
	read(t, status, &p.Status)
	return *p
}

// waitingPod returns a pod whose main container waits, with the reason and the message of the kubelet.
func waitingPod(t *testing.T, name, reason, message string) corev1.Pod {
	t.Helper()
	p := pod(t, name, `{phase: Pending}`)
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
	return p
}

// event returns an event of an object. It occurred 2 minutes ago.
func event(kind, name, reason, message string) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: reason, Message: message,
		LastTimestamp: before(2 * time.Minute),
	}
}

// failed returns the status, as YAML, of a job that failed because a replica failed.
func failed(reason, failure string) string {
	return `phase: Failed, reason: ` + reason + `, startTime: "2026-11-26T13:51:00Z", completionTime: "2026-11-26T13:58:00Z", conditions: [` +
		conditionOf("Failed", "True", reason, "a replica failed") + `], failures: [` + failure + `]`
}

// inKueue puts the job into a LocalQueue of Kueue. The parameter status is the status of its Workload, in YAML.
func inKueue(t *testing.T, facts *Facts, status string) {
	t.Helper()
	facts.Job.SetLabels(map[string]string{kueuev1beta2.LabelQueueName: "team"})
	facts.Workload = read(t, `{metadata: {name: digits, namespace: vision}, status: {`+status+`}}`, &kueuev1beta2.Workload{})
}
