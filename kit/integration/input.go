package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patches that pause a job and resume it.
const (
	Paused  = "spec: {runMode: {pause: {enabled: true}}}"
	Resumed = "spec: {runMode: {pause: {enabled: false}}}"
)

// reports is a patch for a job whose training reports its progress, with all settings for stalls.
const reports = `
spec:
  progress: {enabled: true}
  runPolicy: {progressDeadlineSeconds: 60, startupDeadlineSeconds: 2147483647, progressPolicy: Restart}
`

// everything is a patch that sets all immutable fields of a job.
const everything = `
spec:
  scheduler: {t9kScheduler: {queue: default}}
  runMode: {debug: {enabled: false, replicaSpecs: [{type: worker}]}, pause: {enabled: false, resumeSpecs: [{type: worker, args: [a]}]}}
`

// Apply applies a merge patch to the valid job, sends the result to the API server as a dry run, and returns the job
// with its defaults. A dry run includes all validation and stores nothing.
func (c *Cluster[J]) Apply(ctx context.Context, patch string) (map[string]any, error) {
	job := c.Manifest(metav1.NamespaceDefault, patch)
	err := c.Client.Create(ctx, job, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	return job.Object, err
}

// ExpectRefused is the body of a table of invalid input. Each entry has a merge patch for the valid job, and the field
// and the message that the error must contain.
func (c *Cluster[J]) ExpectRefused(ctx context.Context, patch, wantField, wantMessage string) {
	_, err := c.Apply(ctx, patch)
	Expect(err).To(MatchError(And(ContainSubstring(wantField), ContainSubstring(wantMessage))))
}

// ExpectAccepted is the body of a table of valid input. Each entry has a merge patch for the valid job.
func (c *Cluster[J]) ExpectAccepted(ctx context.Context, patch string) {
	_, err := c.Apply(ctx, patch)
	Expect(err).NotTo(HaveOccurred())
}

// ExpectChangeRefused is the body of a table of invalid changes. Each entry has two merge patches, and the field and
// the message that the error must contain. The first patch changes the valid job before its creation, and the second
// patch is the invalid change. If the first patch pauses the job, the change happens when the job is Paused.
func (c *Cluster[J]) ExpectChangeRefused(ctx context.Context, before, after, wantField, wantMessage string) {
	Expect(c.change(ctx, before, after)).To(MatchError(And(ContainSubstring(wantField), ContainSubstring(wantMessage))))
}

// ExpectChangeAllowed is the body of a table of valid changes. Each entry has two merge patches. The first patch
// changes the valid job before its creation, and the second patch is the valid change. If the first patch pauses the
// job, the change happens when the job is Paused.
func (c *Cluster[J]) ExpectChangeAllowed(ctx context.Context, before, after string) {
	Expect(c.change(ctx, before, after)).To(Succeed())
}

func (c *Cluster[J]) change(ctx context.Context, before, after string) error {
	job := c.Create(ctx, c.NewNamespace(ctx), before)
	if c.Controller.Framework.JobSpec(job).RunMode.Pausing() {
		Eventually(ctx, c.Phase(ctx, job)).Should(BeEquivalentTo("Paused"))
	}
	return c.patch(ctx, job, after, client.DryRunAll)
}

// MainRestarts is the error message for a restart policy of the main container.
const MainRestarts = "the main container cannot have restartPolicy or restartPolicyRules"

// restartOn42 is a value of restartPolicyRules as a YAML flow sequence.
const restartOn42 = "[{action: Restart, exitCodes: {operator: In, values: [42]}}]"

// BadInput returns invalid input for every job kind. The function mainContainer returns a patch that adds fields to
// the main container of the type worker. Its parameter is a YAML flow mapping without the braces.
func BadInput(mainContainer func(fields string) string) []TableEntry {
	return []TableEntry{
		Entry("activeDeadlineSeconds 0", `spec: {runPolicy: {activeDeadlineSeconds: 0}}`,
			"spec.runPolicy.activeDeadlineSeconds", "should be greater than or equal to 1"),
		Entry("activeDeadlineSeconds above 2,147,483,647", `spec: {runPolicy: {activeDeadlineSeconds: 9223372036854775807}}`,
			"spec.runPolicy.activeDeadlineSeconds", "should be less than or equal to 2147483647"),
		Entry("negative backoffLimit", `spec: {runPolicy: {backoffLimit: -1}}`,
			"spec.runPolicy.backoffLimit", "should be greater than or equal to 0"),
		Entry("negative ttlSecondsAfterFinished", `spec: {runPolicy: {ttlSecondsAfterFinished: -1}}`,
			"spec.runPolicy.ttlSecondsAfterFinished", "should be greater than or equal to 0"),
		Entry("progressDeadlineSeconds below 60",
			`spec: {progress: {enabled: true}, runPolicy: {progressDeadlineSeconds: 59}}`,
			"spec.runPolicy.progressDeadlineSeconds", "should be greater than or equal to 60"),
		Entry("progressDeadlineSeconds above 2,147,483,647",
			`spec: {progress: {enabled: true}, runPolicy: {progressDeadlineSeconds: 2147483648}}`,
			"spec.runPolicy.progressDeadlineSeconds", "should be less than or equal to 2147483647"),
		Entry("startupDeadlineSeconds below 60",
			`spec: {progress: {enabled: true}, runPolicy: {startupDeadlineSeconds: 59}}`,
			"spec.runPolicy.startupDeadlineSeconds", "should be greater than or equal to 60"),
		Entry("startupDeadlineSeconds above 2,147,483,647",
			`spec: {progress: {enabled: true}, runPolicy: {startupDeadlineSeconds: 2147483648}}`,
			"spec.runPolicy.startupDeadlineSeconds", "should be less than or equal to 2147483647"),
		Entry("progressDeadlineSeconds without progress", `spec: {runPolicy: {progressDeadlineSeconds: 600}}`,
			"spec.runPolicy", "progressDeadlineSeconds and startupDeadlineSeconds need progress.enabled"),
		Entry("startupDeadlineSeconds with a disabled progress",
			`spec: {progress: {enabled: false}, runPolicy: {startupDeadlineSeconds: 600}}`,
			"spec.runPolicy", "progressDeadlineSeconds and startupDeadlineSeconds need progress.enabled"),
		Entry("progressPolicy without a deadline",
			`spec: {progress: {enabled: true}, runPolicy: {progressPolicy: Notify}}`,
			"spec.runPolicy.progressPolicy", "progressPolicy has no effect without a deadline"),
		Entry("an unknown progressPolicy",
			`spec: {progress: {enabled: true}, runPolicy: {progressDeadlineSeconds: 600, progressPolicy: Fail}}`,
			"spec.runPolicy.progressPolicy", `supported values: "Notify", "Restart"`),
		Entry("an unknown cleanUpPolicy", `spec: {runPolicy: {cleanUpPolicy: Some}}`,
			"spec.runPolicy.cleanUpPolicy", `supported values: "All", "Unfinished", "None"`),
		Entry("an unknown restartScope", `spec: {runPolicy: {restartScope: Pod}}`,
			"spec.runPolicy.restartScope", `supported values: "Replica", "Job"`),
		Entry("priority above 100", `spec: {scheduler: {t9kScheduler: {queue: default, priority: 101}}}`,
			"spec.scheduler.t9kScheduler.priority", "should be less than or equal to 100"),
		Entry("negative priority", `spec: {scheduler: {t9kScheduler: {queue: default, priority: -1}}}`,
			"spec.scheduler.t9kScheduler.priority", "should be greater than or equal to 0"),
		Entry("managedBy without a path", `spec: {managedBy: example.com}`, "spec.managedBy", "should match"),
		Entry("managedBy that is too long", `spec: {managedBy: example.com/`+strings.Repeat("a", 52)+`}`,
			"spec.managedBy", "Too long"),
		Entry("no queue", `spec: {scheduler: {t9kScheduler: {priority: 1}}}`,
			"spec.scheduler.t9kScheduler.queue", "Required value"),
		Entry("debug and pause both enabled", `spec: {runMode: {debug: {enabled: true}, pause: {enabled: true}}}`,
			"spec.runMode", "debug and pause cannot both be enabled: disable one of them"),
		Entry("a job name that is not a valid Service name", `metadata: {name: qwen2.5-7b}`,
			"metadata.name", "metadata.name must be a DNS-1035 label, since the job's Service has the same name"),
		Entry("a job name that begins with a digit", `metadata: {name: 7b}`,
			"metadata.name", "metadata.name must be a DNS-1035 label"),
		Entry("a job name too long for its pods' names",
			`metadata: {name: a23456789-123456789-123456789-123456789-123456789-12345}`,
			"metadata.name is too long: the pods are named <name>-", "-<index>, which must fit into 63 characters"),
		Entry("an unknown field", `spec: {replicaSpec: []}`,
			"spec.replicaSpec", `unknown field "spec.replicaSpec"`),
		Entry("an unknown field of a container", mainContainer("imagee: training"),
			"containers[0].imagee", "unknown field"),
		// The controller decodes this port as a 32-bit integer. If it could not decode one job, it could not list any job.
		Entry("a port above the range of 32-bit integers", mainContainer("livenessProbe: {httpGet: {port: 2147483648}}"),
			"containers[0].livenessProbe.httpGet.port", "should be less than or equal to 2147483647"),
		Entry("a port below the range of 32-bit integers", mainContainer("livenessProbe: {tcpSocket: {port: -2147483649}}"),
			"containers[0].livenessProbe.tcpSocket.port", "should be greater than or equal to -2147483648"),
		Entry("a quantity with a fractional exponent", mainContainer("resources: {limits: {memory: 1e1.5}}"),
			"containers[0].resources.limits.memory", "should match"),
		Entry("a quantity with an exponent that takes minutes to parse",
			mainContainer(`resources: {limits: {memory: "1e-99999999"}}`),
			"containers[0].resources.limits.memory", "should match"),
		// The kubelet must not restart the main container, because the controller restarts replicas.
		Entry("a restart policy of the main container", mainContainer("restartPolicy: Always"),
			"template.spec.containers", MainRestarts),
		Entry("restart policy rules of the main container", mainContainer("restartPolicyRules: "+restartOn42),
			"template.spec.containers", MainRestarts),
		Entry("a restart policy rule of a sidecar that restarts all containers",
			mainContainer("tty: true}, {name: sidecar, image: sidecar, restartPolicy: Never, restartPolicyRules: "+
				strings.Replace(restartOn42, "Restart", "RestartAllContainers", 1)),
			"containers[1].restartPolicyRules[0].action", `supported values: "Restart"`),
		// The controller keeps jobs in memory, where many small items take much space.
		Entry("more than 1,024 environment variables", mainContainer("env: "+items(1025, "{name: A%d}")),
			"containers[0].env", "must have at most 1024 items"),
		Entry("more than 64 sources of environment variables", mainContainer("envFrom: "+items(65, "{prefix: A%d}")),
			"containers[0].envFrom", "must have at most 64 items"),
		Entry("more than 1,024 args", mainContainer("args: "+items(1025, "a%d")),
			"containers[0].args", "must have at most 1024 items"),
		Entry("an arg that is longer than the limit of Linux", mainContainer("args: ["+strings.Repeat("a", 131073)+"]"),
			"containers[0].args[0]", "may not be more than 131072 bytes"),
		Entry("a working directory that is longer than the limit of Linux",
			mainContainer("workingDir: "+strings.Repeat("a", 4097)),
			"containers[0].workingDir", "may not be more than 4096 bytes"),
		Entry("more than 32 resource limits", mainContainer("resources: {limits: {"+list(33, "a/r%d: 1")+"}}"),
			"containers[0].resources.limits", "must have at most 32 items"),
		Entry("a quantity of more than 64 digits",
			mainContainer("resources: {limits: {a/b: '"+strings.Repeat("1", 65)+"'}}"),
			"containers[0].resources.limits.a/b", "may not be more than 64 bytes"),
		Entry("a debug command of more than 1,024 items",
			`spec: {runMode: {debug: {replicaSpecs: [{type: worker, command: `+items(1025, "a%d")+`}]}}}`,
			"spec.runMode.debug.replicaSpecs[0].command", "must have at most 1024 items"),
	}
}

// items returns a YAML flow sequence of n items, each formatted with its number.
func items(n int, format string) string { return "[" + list(n, format) + "]" }

func list(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ", ")
}

// GoodInput returns valid input for every job kind. The function mainContainer returns a patch that adds fields to
// the main container of the type worker, as for BadInput.
func GoodInput(mainContainer func(fields string) string) []TableEntry {
	return []TableEntry{
		Entry("the valid job without a change", `{}`),
		Entry("the longest job name with valid pod names",
			`metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}`),
		Entry("quantities and ports in every format",
			mainContainer(`resources: {limits: {cpu: 100m, memory: "+1.5Gi", a/b: 2, a/c: ".5e3", a/d: "5.E-2"}},
			livenessProbe: {httpGet: {port: http}}, readinessProbe: {httpGet: {port: 80}}`)),
		Entry("lists and strings as long as the limits allow", mainContainer("env: "+items(1024, "{name: A%d}")+
			", command: "+items(1024, "a%d")+", args: ["+strings.Repeat("a", 131072)+"]"+
			", resources: {limits: {"+list(32, "a/r%d: 1")+"}}"+
			", volumeMounts: "+items(256, "{name: data, mountPath: /a%d}"))),
		Entry("a sidecar with a restart policy and restart policy rules", mainContainer(
			"tty: true}, {name: sidecar, image: sidecar, restartPolicy: OnFailure, restartPolicyRules: "+restartOn42)),
		Entry("progress with both deadlines and a policy", reports),
		Entry("progress without a deadline", `spec: {progress: {enabled: true}}`),
		Entry("an empty progress", `spec: {progress: {}}`),
		Entry("a paused job with resumeSpecs",
			`spec: {runMode: {pause: {enabled: true, resumeSpecs: [{type: worker, args: [--resume]}]}}}`),
	}
}

// BadElastic returns invalid values of spec.elastic for the kinds that have the field.
func BadElastic() []TableEntry {
	return []TableEntry{
		Entry("elastic without minReplicas and maxReplicas", `spec: {elastic: {enabled: true}}`,
			"spec.elastic", "minReplicas and maxReplicas are required when elastic is enabled"),
		Entry("elastic with minReplicas above maxReplicas",
			`spec: {elastic: {enabled: true, minReplicas: 3, maxReplicas: 2}}`,
			"spec.elastic.minReplicas", "minReplicas must not be greater than maxReplicas"),
		Entry("elastic with minReplicas 0", `spec: {elastic: {enabled: true, minReplicas: 0, maxReplicas: 2}}`,
			"spec.elastic.minReplicas", "should be greater than or equal to 1"),
		Entry("elastic with maxReplicas above 2,000", `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2001}}`,
			"spec.elastic.maxReplicas", "should be less than or equal to 2000"),
		Entry("expectedReplicas below minReplicas",
			`spec: {elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, expectedReplicas: 1}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
		Entry("expectedReplicas above maxReplicas",
			`spec: {elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, expectedReplicas: 5}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
	}
}

// RefusedChanges returns changes that the API server rejects for every job kind.
func RefusedChanges() []TableEntry {
	return []TableEntry{
		Entry("adding debug, even while paused", Paused, `spec: {runMode: {debug: {enabled: false}}}`, "spec",
			"runMode.debug cannot be changed"),
		Entry("enabling debug", everything, `spec: {runMode: {debug: {enabled: true}}}`, "spec.runMode.debug",
			"runMode.debug cannot be changed"),
		Entry("removing debug", everything, `spec: {runMode: {debug: null}}`, "spec", "runMode.debug cannot be changed"),
		Entry("the args in resumeSpecs", everything, `spec: {runMode: {pause: {resumeSpecs: [{type: worker, args: [b]}]}}}`,
			"spec.runMode.pause.resumeSpecs", "runMode.pause.resumeSpecs cannot be changed"),
		Entry("adding resumeSpecs while pausing", `{}`,
			`spec: {runMode: {pause: {enabled: true, resumeSpecs: [{type: worker}]}}}`,
			"spec", "runMode.pause.resumeSpecs cannot be changed"),
		Entry("the queue", everything, `spec: {scheduler: {t9kScheduler: {queue: other}}}`, "spec.scheduler",
			"scheduler cannot be changed"),
		Entry("removing the scheduler", everything, `spec: {scheduler: null}`, "spec", "scheduler cannot be changed"),
		Entry("adding managedBy, even while paused", Paused, `spec: {managedBy: kueue.x-k8s.io/multikueue}`, "spec",
			"managedBy cannot be changed"),
		Entry("another managedBy", `spec: {managedBy: example.com/a}`, `spec: {managedBy: example.com/b}`, "spec.managedBy",
			"managedBy cannot be changed"),
		Entry("removing managedBy", `spec: {managedBy: example.com/a}`, `spec: {managedBy: null}`, "spec",
			"managedBy cannot be changed"),
		Entry("enabling progress, even while paused", Paused, `spec: {progress: {enabled: true}}`, "spec",
			"progress.enabled cannot be changed"),
		Entry("disabling progress", `spec: {progress: {enabled: true}}`, `spec: {progress: {enabled: false}}`, "spec",
			"progress.enabled cannot be changed"),
		Entry("removing progress", `spec: {progress: {enabled: true}}`, `spec: {progress: null}`, "spec",
			"progress.enabled cannot be changed"),
		Entry("removing the deadlines of a progressPolicy", reports,
			`spec: {runPolicy: {progressDeadlineSeconds: null, startupDeadlineSeconds: null}}`,
			"spec.runPolicy.progressPolicy", "progressPolicy has no effect without a deadline"),
		Entry("adding a scheduler", `{}`, `spec: {scheduler: {t9kScheduler: {queue: default}}}`, "spec",
			"scheduler cannot be changed"),
	}
}

// AllowedChanges returns changes that the API server accepts for every job kind.
func AllowedChanges() []TableEntry {
	return []TableEntry{
		Entry("pausing a job without a run mode", `{}`, Paused),
		Entry("pausing a job with a run mode", everything, Paused),
		Entry("resuming by disabling the pause", Paused, Resumed),
		Entry("resuming by removing the run mode", Paused, `spec: {runMode: null}`),
		Entry("backoffLimit", `{}`, `spec: {runPolicy: {backoffLimit: 7}}`),
		Entry("the whole run policy",
			`spec: {runPolicy: {activeDeadlineSeconds: 5, restartScope: Replica}}`,
			`spec: {runPolicy: {activeDeadlineSeconds: null, cleanUpPolicy: None, ttlSecondsAfterFinished: 5, restartScope: Job}}`),
		Entry("adding the deadlines for progress and the policy", `spec: {progress: {enabled: true}}`, reports),
		Entry("the deadlines for progress and the policy", reports,
			`spec: {runPolicy: {progressDeadlineSeconds: 3600, startupDeadlineSeconds: 60, progressPolicy: Notify}}`),
		Entry("removing the deadlines for progress and the policy", reports,
			`spec: {runPolicy: {progressDeadlineSeconds: null, startupDeadlineSeconds: null, progressPolicy: null}}`),
		Entry("adding a progress that is disabled", `{}`, `spec: {progress: {enabled: false}}`),
		Entry("labels of a job that is not paused", `{}`, `metadata: {labels: {a: b}}`),
	}
}
