package repository

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	cli "tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/why"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// whyNow is the time at which the jobs of the tests are explained.
var whyNow = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// reasonMessage is the message of the conditions of the tested jobs.
const reasonMessage = "the message of the condition"

// occurrences has a function for each group of reasons in docs/reference. The function changes the facts about a job
// so that the reason occurs, and returns the condition of the finding that explains the reason.
var occurrences = map[string]func(facts *why.Facts, reason string) (condition string){
	"Reasons of Initialized": func(facts *why.Facts, reason string) string {
		status := metav1.ConditionFalse
		if reason == batchv1beta1.ReasonAccepted {
			status = metav1.ConditionTrue
		}
		return jobCondition(facts, batchv1beta1.JobPhasePending, "Initialized", status, reason)
	},
	"Reasons of Running": func(facts *why.Facts, reason string) string {
		phase, status := batchv1beta1.JobPhasePending, metav1.ConditionFalse
		switch reason {
		case batchv1beta1.ReasonReplicasRunning, batchv1beta1.ReasonPartiallyRunning:
			phase, status = batchv1beta1.JobPhaseRunning, metav1.ConditionTrue
		case batchv1beta1.ReasonFinished:
			jobCondition(facts, batchv1beta1.JobPhaseFailed, "Failed", metav1.ConditionTrue,
				batchv1beta1.ReasonDeadlineExceeded)
			phase = batchv1beta1.JobPhaseFailed
		case batchv1beta1.ReasonFinishing:
			jobCondition(facts, phase, "FailureTarget", metav1.ConditionTrue, batchv1beta1.ReasonDeadlineExceeded)
		}
		return jobCondition(facts, phase, "Running", status, reason)
	},
	"Reasons of Stalled": func(facts *why.Facts, reason string) string {
		jobCondition(facts, batchv1beta1.JobPhaseRunning, "Running", metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning)
		status := metav1.ConditionFalse
		switch reason {
		case batchv1beta1.ReasonNoProgress:
			status = metav1.ConditionTrue
		case batchv1beta1.ReasonProgressUnknown:
			status = metav1.ConditionUnknown
		}
		return jobCondition(facts, batchv1beta1.JobPhaseRunning, "Stalled", status, reason)
	},
	"Reasons of Paused, and of Running while the job is paused": func(facts *why.Facts, reason string) string {
		switch reason {
		case batchv1beta1.ReasonPaused:
			jobCondition(facts, batchv1beta1.JobPhasePaused, "Running", metav1.ConditionFalse, reason)
			return jobCondition(facts, batchv1beta1.JobPhasePaused, "Paused", metav1.ConditionTrue, reason)
		case batchv1beta1.ReasonPausing:
			jobCondition(facts, batchv1beta1.JobPhasePending, "Running", metav1.ConditionFalse, reason)
		}
		return jobCondition(facts, batchv1beta1.JobPhasePending, "Paused", metav1.ConditionFalse, reason)
	},
	"Reasons of SuccessCriteriaMet and FailureTarget, and later of Completed and Failed": func(
		facts *why.Facts, reason string,
	) string {
		if reason == batchv1beta1.ReasonLeaderSucceeded {
			return jobCondition(facts, batchv1beta1.JobPhaseSucceeded, "Completed", metav1.ConditionTrue, reason)
		}
		return jobCondition(facts, batchv1beta1.JobPhaseFailed, "Failed", metav1.ConditionTrue, reason)
	},
	"Reasons of ReplicaFailure, of status.failures[] and of status.tasks[].replicas[].containers[]": func(
		facts *why.Facts, reason string,
	) string {
		if reason == batchv1beta1.ReasonRecovered {
			return jobCondition(facts, batchv1beta1.JobPhaseRunning, "ReplicaFailure", metav1.ConditionFalse, reason)
		}
		jobCondition(facts, batchv1beta1.JobPhasePending, "ReplicaFailure", metav1.ConditionTrue, reason)
		jobCondition(facts, batchv1beta1.JobPhasePending, "Running", metav1.ConditionFalse, batchv1beta1.ReasonRestarting)
		facts.Job.JobStatus().Failures = []batchv1beta1.ReplicaFailure{{
			Replica: "digits-worker-1", Node: "gpu-17", Reason: reason, Message: reasonMessage, Time: metav1.NewTime(whyNow),
		}}
		return "Failure"
	},
	"Reasons of status.tensorboard": func(facts *why.Facts, reason string) string {
		jobCondition(facts, batchv1beta1.JobPhaseRunning, "Running", metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning)
		facts.Job.Job.(framework.TensorBoardJob).SetTensorBoardStatus(&batchv1beta1.DependentStatus{
			Reason: reason, Note: reasonMessage,
		})
		return "status.tensorboard"
	},
	"Reasons of the events of a job": func(facts *why.Facts, reason string) string {
		jobCondition(facts, batchv1beta1.JobPhaseRunning, "Running", metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning)
		return eventOf(facts, "PyTorchTrainingJob", "digits", reason)
	},
	"Reasons of the conditions of a PodGroup": func(facts *why.Facts, reason string) string {
		jobCondition(facts, batchv1beta1.JobPhasePending, "Running", metav1.ConditionFalse, reason)
		facts.PodGroup = &schedulerv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "digits", Namespace: "vision"}}
		facts.PodGroup.Status.Conditions = []metav1.Condition{{
			Type: "GroupScheduled", Status: metav1.ConditionFalse, Reason: reason, Message: reasonMessage,
		}}
		return "GroupScheduled"
	},
	"Reasons of the conditions of a Queue": func(facts *why.Facts, reason string) string {
		facts.Queue = &schedulerv1beta1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
		facts.Queue.Status.Conditions = []metav1.Condition{{
			Type: "Active", Status: metav1.ConditionFalse, Reason: reason, Message: reasonMessage,
		}}
		return "Active"
	},
	"Reasons of the events of pods that are scheduled from a queue": func(facts *why.Facts, reason string) string {
		jobCondition(facts, batchv1beta1.JobPhaseRunning, "Running", metav1.ConditionTrue, batchv1beta1.ReasonReplicasRunning)
		return eventOf(facts, "Pod", "digits-worker-0", reason)
	},
	"Reasons of Ready and of events": func(facts *why.Facts, reason string) string {
		return boardCondition(facts, "Ready", reason)
	},
	"Reasons of Idle and SourcesAvailable": func(facts *why.Facts, reason string) string {
		return boardCondition(facts, "Idle", reason)
	},
}

// jobCondition sets the phase and the reason of the job, adds a condition to the job, and returns the type of the
// condition.
func jobCondition(
	facts *why.Facts, phase batchv1beta1.JobPhase, conditionType string, status metav1.ConditionStatus, reason string,
) string {
	s := facts.Job.JobStatus()
	s.Phase, s.Reason = phase, reason
	s.Conditions = append(s.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: reasonMessage,
		LastTransitionTime: metav1.NewTime(whyNow),
	})
	return conditionType
}

// eventOf adds an event to the facts, and returns the value of Finding.Condition for events.
func eventOf(facts *why.Facts, kind, name, reason string) string {
	facts.Events = append(facts.Events, corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Reason: reason, Message: reasonMessage,
		LastTimestamp: metav1.NewTime(whyNow),
	})
	return "Event"
}

// boardCondition gives the job a TensorBoard with one condition, and returns the type of the condition.
func boardCondition(facts *why.Facts, conditionType, reason string) string {
	facts.TensorBoard = &tensorboardv1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Name: "digits"}}
	facts.TensorBoard.Status.Conditions = []tensorboardv1beta1.TensorBoardCondition{{
		Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: reasonMessage,
	}}
	return conditionType
}

// newFacts returns the facts about a job that names a Queue and has no status.
func newFacts(t *testing.T) why.Facts {
	t.Helper()
	kind := jobs.KindNamed("ptjob")
	job := jobs.Job{Job: kind.New(), Kind: kind}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: digits, namespace: vision, creationTimestamp: "2026-11-26T11:00:00Z"}
spec:
  scheduler: {t9kScheduler: {queue: lab}}
  replicaSpecs:
    - type: worker
      replicas: 2
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: main, image: "training:2"}]}}
`), job.Job); err != nil {
		t.Fatal(err)
	}
	return why.Facts{Now: whyNow, Job: job}
}

// TestWhyExplainsEveryReason checks that kubectl train why has a separate text for each reason in docs/reference,
// with commands that exist.
func TestWhyExplainsEveryReason(t *testing.T) {
	t.Parallel()
	resources := resourcesOfCommands(t)
	found, reasons := map[string]bool{}, 0
	for _, page := range []string{"jobs.md", "scheduler.md", "tensorboard.md"} {
		reference, err := os.ReadFile(filepath.Join(folder, "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		for heading, table := range sections(string(reference)) {
			if !strings.HasPrefix(heading, "Reasons") {
				continue
			}
			found[heading] = true
			occur, ok := occurrences[heading]
			if !ok {
				t.Errorf("%s has the group %q: add to occurrences how such a reason occurs", page, heading)
				continue
			}
			for _, row := range tableRows(table) {
				reason := strings.Trim(row[0], "`")
				reasons++
				t.Run(heading+" "+reason, func(t *testing.T) {
					t.Parallel()
					facts := newFacts(t)
					finding := findingOf(facts, occur(&facts, reason), reason)
					if finding == nil {
						t.Fatalf("the explanation has no finding about the reason: %s", why.Explain(facts))
					}
					checkFinding(t, resources, *finding)
					unheard := newFacts(t)
					fallback := findingOf(unheard, occur(&unheard, "Unheard"), "Unheard")
					if fallback != nil && finding.Text == strings.ReplaceAll(fallback.Text, "Unheard", reason) {
						t.Errorf("the reason has no text of its own: %s", finding.Text)
					}
				})
			}
		}
	}
	if reasons < 80 {
		t.Errorf("found %d reasons, want at least 80", reasons)
	}
	for heading := range occurrences {
		if !found[heading] {
			t.Errorf("occurrences: remove %q: docs/reference has no such group", heading)
		}
	}
}

// findingOf returns the finding about a condition with a reason, or nil if there is none.
func findingOf(facts why.Facts, condition, reason string) *why.Finding {
	for _, f := range why.Explain(facts).Findings {
		if f.Condition == condition && f.Reason == reason {
			return &f
		}
	}
	return nil
}

// checkFinding checks the text and the commands of a finding.
func checkFinding(t *testing.T, resources []string, finding why.Finding) {
	t.Helper()
	bad := regexp.MustCompile(`\{[a-z]+\}|%!|<nil>|  |\.\.|: \.|\(\)`)
	if !strings.HasSuffix(finding.Text, ".") || bad.MatchString(finding.Text) {
		t.Errorf("the text is not made of full sentences: %q", finding.Text)
	}
	if len(finding.Next) == 0 {
		t.Errorf("the text has no command: %q", finding.Text)
	}
	for _, next := range finding.Next {
		for line := range strings.SplitSeq(next.Line, " && ") {
			if err := checkCommand(resources, line); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		if next.Purpose == "" {
			t.Errorf("%q has no purpose", next.Line)
		}
	}
}

// checkCommand returns an error if a command does not exist, or contains a placeholder.
func checkCommand(resources []string, line string) error {
	words := strings.Fields(line)
	switch {
	case regexp.MustCompile(`[<>]|\{[a-z]+\}|\bJOB\b|%!`).MatchString(line):
		return errors.New("it has a placeholder")
	case len(words) < 3 || words[0] != "kubectl":
		return errors.New("it is not a command of kubectl")
	}
	switch verb := words[1]; verb {
	case "train":
		return checkTrain(words[2:])
	case "delete", "describe", "edit", "get", "patch":
		if resource, _, _ := strings.Cut(words[2], "/"); !slices.Contains(resources, resource) {
			return fmt.Errorf("there is no resource %s, or it is not in the list of this test", resource)
		}
	case "api-resources", "events", "logs":
	default:
		return fmt.Errorf("kubectl has no verb %s, or it is not in the list of this test", verb)
	}
	return nil
}

// resourcesOfCommands returns the names of resources that a command of a finding can have. They are the names and
// short names of the CRDs of this repository, and some names of resources of Kubernetes and Kueue.
func resourcesOfCommands(t *testing.T) []string {
	t.Helper()
	names := []string{
		"configmap", "configmaps", "mutatingwebhookconfigurations", "namespace", "networkpolicies", "node", "nodes",
		"persistentvolumeclaims", "pod", "pods", "resourceclaims", "resourcequota", "resourcequotas", "secret", "secrets",
		"serviceaccounts",
		"localqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io",
	}
	files, err := filepath.Glob("../../*/config/crd/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no CRD: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		names = append(append(names, crd.Name), crd.Spec.Names.ShortNames...)
	}
	return names
}

// checkTrain returns an error if kubectl train does not have a command, or if the command does not accept the flags
// and arguments.
func checkTrain(words []string) error {
	root := cli.New(genericiooptions.IOStreams{}) // a new one, because a command keeps the flags that it has parsed
	found, args, err := root.Find(words)
	if err != nil || found == root {
		return fmt.Errorf("kubectl train has no command %s", words[0])
	}
	if err := found.ParseFlags(args); err != nil {
		return err
	}
	return found.ValidateArgs(found.Flags().Args())
}
