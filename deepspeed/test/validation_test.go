package test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"tensorstack.dev/jobs/kit/integration"
)

// valid is a job that the API server accepts. Each case is a merge patch for it, as a user would write it.
const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata:
  name: job
spec:
  config:
    run:
      python: [train.py]
  worker:
    replicas: 2
    template:
      spec:
        containers:
        - name: worker
          image: training
`

// Patches that make the job elastic, or put it into debug mode.
const (
	elastic   = "spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}}"
	debugging = "spec: {runMode: {debug: {enabled: true}}}"
)

// pausing returns a patch that pauses a job and sets other fields of its spec. The fields are the content of a YAML
// flow mapping.
func pausing(fields string) string {
	return "spec: {runMode: {pause: {enabled: true}}, " + fields + "}"
}

// mainContainer returns a patch that sets fields of the main container. The fields are the content of a YAML flow
// mapping.
func mainContainer(fields string) string {
	return containers("{name: worker, image: training, " + fields + "}")
}

// containers returns a patch that sets the containers of the workers. Each container is a YAML flow mapping.
func containers(containers ...string) string {
	return "spec: {worker: {template: {spec: {containers: [" + strings.Join(containers, ", ") + "]}}}}"
}

const (
	longest       = "metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}\n"
	whatToRun     = "one of config.run.python, config.run.module and config.run.exec is required"
	oneForm       = "only one of python, module and exec is allowed"
	workersTo     = "spec.worker can be changed only while the job is paused: wait for its condition Paused"
	configTo      = "spec.config can be changed only while the job is paused: wait for its condition Paused"
	reservedPaths = "cannot use the paths /t9k/agent, /t9k/ssh and /t9k/hostfile or paths below them"
	localRanks    = "config.localRank cannot be false with elastic training"
)

var _ = Describe("A new job", func() {
	DescribeTable("is refused at apply time with a message that names the field", cluster.ExpectRefused,
		integration.BadInput(mainContainer), integration.BadElastic(),
		Entry("restartScope Rendezvous, which needs torchrun", `spec: {runPolicy: {restartScope: Rendezvous}}`,
			"spec.runPolicy", "runPolicy.restartScope must be Replica or Job"),
		Entry("negative maxRestarts", `spec: {config: {maxRestarts: -1}}`,
			"spec.config.maxRestarts", "should be greater than or equal to 0"),
		Entry("a restart policy of the container worker, listed after another container",
			containers("{name: first, image: a}", "{name: worker, image: a, restartPolicy: Always}"),
			"spec.worker.template.spec.containers", integration.MainRestarts),
		Entry("a mount over the agent", mainContainer("volumeMounts: [{name: data, mountPath: /t9k/agent}]"),
			"spec.worker.template.spec.containers", reservedPaths),
		Entry("a mount below the key, in a first container with another name",
			containers("{name: first, image: a, volumeMounts: [{name: b, mountPath: /t9k/ssh/b}]}"),
			"spec.worker.template.spec.containers", reservedPaths),
		Entry("a device at the hostfile", mainContainer("volumeDevices: [{name: disk, devicePath: /t9k/hostfile}]"),
			"spec.worker.template.spec.containers", reservedPaths),
		Entry("two of python, module and exec", `spec: {config: {run: {module: [train]}}}`,
			"spec.config.run", oneForm),
		Entry("all of python, module and exec", `spec: {config: {run: {module: [train], exec: [train]}}}`,
			"spec.config.run", oneForm),
		Entry("two of python, module and exec, with a customCommand that replaces both",
			`spec: {config: {customCommand: a, run: {exec: [train]}}}`,
			"spec.config.run", oneForm),
		Entry("no config", `spec: {config: null}`,
			"spec.config", whatToRun),
		Entry("a config with nothing to run", `spec: {config: {run: null}}`,
			"spec.config", whatToRun),
		Entry("a config with empty lists for python, module and exec",
			`spec: {config: {run: {python: [], module: [], exec: []}}}`,
			"spec.config", whatToRun),
		Entry("a config with an empty customCommand and nothing to run", `spec: {config: {customCommand: "", run: null}}`,
			"spec.config", whatToRun),
		Entry("nothing to run, with debug mode disabled", `spec: {config: null, runMode: {debug: {enabled: false}}}`,
			"spec.config", whatToRun),
		Entry("elastic training without the local rank",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}, config: {localRank: false}}`,
			"spec.config", localRanks),
		Entry("an autotuner that DeepSpeed does not have", `spec: {config: {autotune: search}}`,
			"spec.config.autotune", `supported values: "none", "run", "tune"`),
		Entry("slotsPerWorker 0", `spec: {config: {slotsPerWorker: 0}}`,
			"spec.config.slotsPerWorker", "should be greater than or equal to 1"),
		Entry("slotsPerWorker that is not a number", `spec: {config: {slotsPerWorker: gpu}}`,
			"spec.config.slotsPerWorker", "must be of type integer"),
		Entry("negative replicas", `spec: {worker: {replicas: -1}}`,
			"spec.worker.replicas", "should be greater than or equal to 0"),
		Entry("more than 2,000 replicas", `spec: {worker: {replicas: 2001}}`,
			"spec.worker.replicas", "should be less than or equal to 2000"),
		Entry("more workers than DeepSpeed's launcher starts", `spec: {worker: {replicas: 1025}}`,
			"spec.worker", "the launcher of DeepSpeed starts at most 1024 workers: use fewer workers, or config.customCommand"),
		Entry("more elastic workers than DeepSpeed's launcher starts",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 1025}}`,
			"spec.worker", "the launcher of DeepSpeed starts at most 1024 workers"),
		Entry("an unknown restartPolicy", `spec: {worker: {restartPolicy: Sometimes}}`,
			"spec.worker.restartPolicy", `supported values: "Always", "OnFailure", "Never", "ExitCode"`),
		Entry("no worker", `spec: {worker: null}`,
			"spec.worker", "Required value"),
		Entry("no template", `spec: {worker: {template: null}}`,
			"spec.worker.template", "Required value"),
		Entry("a template with an empty list of containers", `spec: {worker: {template: {spec: {containers: []}}}}`,
			"spec.worker.template", "at least one container is required"),
		Entry("a template without a pod spec", `spec: {worker: {template: {spec: null}}}`,
			"spec.worker.template", "at least one container is required"),
		Entry("more than 64 tolerations",
			`spec: {worker: {template: {spec: {tolerations: [`+strings.Repeat("{}, ", 65)+`]}}}}`,
			"spec.worker.template.spec.tolerations", "must have at most 64 items"),
		Entry("more than 1,024 args of the program",
			`spec: {config: {run: {python: [`+strings.Repeat("a, ", 1025)+`]}}}`,
			"spec.config.run.python", "must have at most 1024 items"),
		Entry("debug.replicaSpecs of a type other than worker",
			`spec: {runMode: {debug: {enabled: true, replicaSpecs: [{type: worker}, {type: master}]}}}`,
			"spec.runMode", "runMode.debug.replicaSpecs names a type other than worker, which is the only one"),
		Entry("resumeSpecs of a type other than worker", `spec: {runMode: {pause: {resumeSpecs: [{type: ps}]}}}`,
			"spec.runMode", "runMode.pause.resumeSpecs names a type other than worker, which is the only one"),
		Entry("a job name that makes the name of its last pod too long", longest+`spec: {worker: {replicas: 11}}`,
			"metadata.name", "metadata.name is too long: the pods are named <name>-worker-<index>"),
		Entry("a job name that is too long for the last pod that elastic training can add",
			longest+`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 11}}`,
			"metadata.name", "metadata.name is too long"),
		Entry("replicaSpecs, which only other job kinds have", `spec: {replicaSpecs: [{type: worker}]}`,
			"spec.replicaSpecs", `unknown field "spec.replicaSpecs"`),
		Entry("tensorboardSpec, which only other job kinds have", `spec: {tensorboardSpec: {image: tb}}`,
			"spec.tensorboardSpec", `unknown field "spec.tensorboardSpec"`),
	)

	DescribeTable("is accepted:", cluster.ExpectAccepted,
		integration.GoodInput(mainContainer),
		Entry("mounts next to and above reserved paths", mainContainer("volumeMounts: [{name: a, mountPath: /t9k}, "+
			"{name: b, mountPath: /t9k/mnt}, {name: c, mountPath: /t9k/agents}]")),
		Entry("a mount of a sidecar at a path that is reserved in the main container", containers(
			"{name: first, image: a, volumeMounts: [{name: a, mountPath: /t9k/ssh}]}", "{name: worker, image: a}")),
		Entry("config.run.module", `spec: {config: {run: {python: null, module: [train, -v]}}}`),
		Entry("config.run.exec, with empty lists for python and module",
			`spec: {config: {run: {python: [], module: [], exec: [train]}}}`),
		Entry("customCommand", `spec: {config: {customCommand: deepspeed train.py, run: null}}`),
		Entry("customCommand, with fields that it replaces",
			`spec: {config: {customCommand: deepspeed train.py, autotune: run}}`),
		Entry("debug mode", debugging),
		Entry("debug mode without a config", `spec: {config: null, runMode: {debug: {enabled: true}}}`),
		Entry("debug mode with an empty list for python",
			`spec: {config: {run: {python: []}}, runMode: {debug: {enabled: true}}}`),
		Entry("debug mode with a command",
			`spec: {runMode: {debug: {enabled: true, replicaSpecs: [{type: worker, command: [bash]}]}}}`),
		Entry("autotune tune", `spec: {config: {autotune: tune}}`),
		Entry("localRank false", `spec: {config: {localRank: false}}`),
		Entry("localRank false, with a disabled elastic", `spec: {elastic: {enabled: false}, config: {localRank: false}}`),
		Entry("elastic training without an expected number",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}}`),
		Entry("elastic training in debug mode, without a config",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}, config: null, runMode: {debug: {enabled: true}}}`),
		Entry("0 replicas", `spec: {worker: {replicas: 0}}`),
		Entry("1,024 replicas", `spec: {worker: {replicas: 1024}}`),
		Entry("2,000 replicas with customCommand", `spec: {config: {customCommand: train}, worker: {replicas: 2000}}`),
		Entry("16 slots", `spec: {config: {slotsPerWorker: 16}}`),
		Entry("the longest job name with which the name of the last pod fits", longest+`spec: {worker: {replicas: 10}}`),
		Entry("the longest job name of an elastic job, whose replicas have no effect",
			longest+`spec: {worker: {replicas: 11}, elastic: {enabled: true, minReplicas: 1, maxReplicas: 10}}`),
		Entry("labels and annotations on the template",
			`spec: {worker: {template: {metadata: {labels: {a: b}, annotations: {c: d}}}}}`),
	)

	It("gets defaults for unset fields", func(ctx context.Context) {
		job, err := cluster.Apply(ctx, `spec: {worker: {replicas: null}, scheduler: {t9kScheduler: {queue: default}}}`)
		Expect(err).NotTo(HaveOccurred())
		spec := job["spec"].(map[string]any)
		Expect(spec["runPolicy"]).To(Equal(map[string]any{"backoffLimit": int64(3), "cleanUpPolicy": "Unfinished"}))
		Expect(spec["worker"]).To(And(HaveKeyWithValue("replicas", int64(1)), HaveKeyWithValue("restartPolicy", "OnFailure")))
		Expect(spec["config"]).To(Equal(map[string]any{
			"slotsPerWorker": int64(1), "localRank": true, "autotune": "none",
			"run": map[string]any{"python": []any{"train.py"}},
		}))
		Expect(spec["scheduler"]).To(HaveKeyWithValue("t9kScheduler", HaveKeyWithValue("priority", int64(10))))
	})
})

var _ = Describe("Changing a job", func() {
	DescribeTable("is refused if the change cannot take effect", cluster.ExpectChangeRefused,
		integration.RefusedChanges(),
		Entry("replicas of a job that is not paused", `{}`, `spec: {worker: {replicas: 3}}`, "spec.worker", workersTo),
		Entry("a template of a job that is not paused", `{}`, mainContainer("command: [a]"), "spec.worker", workersTo),
		Entry("restartPolicy of a job that is not paused", `{}`, `spec: {worker: {restartPolicy: Never}}`, "spec.worker",
			workersTo),
		Entry("a template together with pausing", `{}`, pausing("worker: {template: {metadata: {labels: {a: b}}}}"),
			"spec.worker", workersTo),
		Entry("config of a job that is not paused", `{}`, `spec: {config: {slotsPerWorker: 2}}`, "", configTo),
		Entry("config together with pausing", `{}`, pausing("config: {otherArgs: [a]}"), "", configTo),
		Entry("adding a config to a job that is not paused", `spec: {config: null, runMode: {debug: {enabled: true}}}`,
			`spec: {config: {run: {python: [train.py]}}}`, "", configTo),
		Entry("removing the config of a job that is not paused", debugging, `spec: {config: null}`, "", configTo),
		Entry("removing the config, even while paused", integration.Paused, `spec: {config: null}`, "spec.config", whatToRun),
		Entry("two of python, module and exec, even while paused", integration.Paused, `spec: {config: {run: {exec: [a]}}}`,
			"spec.config.run", oneForm),
		Entry("disableCustomEnv, even while paused", integration.Paused, `spec: {disableCustomEnv: true}`, "spec",
			"disableCustomEnv cannot be changed"),
		Entry("removing disableCustomEnv", `spec: {disableCustomEnv: true}`, `spec: {disableCustomEnv: null}`, "spec",
			"disableCustomEnv cannot be changed"),
		Entry("minReplicas, even while paused", pausing("elastic: {enabled: true, minReplicas: 1, maxReplicas: 4}"),
			`spec: {elastic: {minReplicas: 2}}`, "spec", "elastic.minReplicas cannot be changed"),
		Entry("maxReplicas", elastic, `spec: {elastic: {maxReplicas: 5}}`, "spec", "elastic.maxReplicas cannot be changed"),
		Entry("removing elastic", elastic, `spec: {elastic: null}`, "spec", "elastic.enabled cannot be changed"),
		Entry("adding elastic, even while paused", integration.Paused, elastic, "spec", "elastic.enabled cannot be changed"),
		Entry("expectedReplicas outside its limits", elastic, `spec: {elastic: {expectedReplicas: 5}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
		Entry("localRank false of an elastic job, even while paused",
			pausing("elastic: {enabled: true, minReplicas: 1, maxReplicas: 4}"),
			`spec: {config: {localRank: false}}`, "spec.config", localRanks),
	)

	DescribeTable("is allowed if the change takes effect", cluster.ExpectChangeAllowed,
		integration.AllowedChanges(),
		Entry("expectedReplicas", elastic, `spec: {elastic: {expectedReplicas: 4}}`),
		Entry("replicas while paused", integration.Paused, `spec: {worker: {replicas: 3}}`),
		Entry("a template while paused", integration.Paused, mainContainer("command: [a]")),
		Entry("a template together with resuming", integration.Paused,
			`spec: {runMode: {pause: {enabled: false}}, worker: {template: {metadata: {labels: {a: b}}}}}`),
		Entry("config while paused", integration.Paused, `spec: {config: {slotsPerWorker: 2, run: {python: [other.py]}}}`),
		Entry("exec instead of python, while paused", integration.Paused,
			`spec: {config: {run: {python: null, exec: [train]}}}`),
		Entry("customCommand instead of config.run, while paused", integration.Paused,
			`spec: {config: {customCommand: train, run: null}}`),
	)
})

var _ = Describe("The scale subresource", func() {
	It("returns an error for a job without elastic", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx))
		err := cluster.Client.SubResource("scale").Get(ctx, job, &autoscalingv1.Scale{})
		Expect(
			err,
		).To(MatchError(`Internal error occurred: the spec replicas field ".spec.elastic.expectedReplicas" does not exist`))
	})

	DescribeTable("refuses to scale", func(ctx context.Context, patch string) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), patch)
		Expect(cluster.Scale(ctx, job, 3)).To(MatchError(And(ContainSubstring("spec.elastic.expectedReplicas"),
			ContainSubstring("expectedReplicas can be changed only in an elastic job, where elastic.enabled is true"))))
	},
		Entry("a job without elastic", `{}`),
		Entry("a job whose elastic is disabled", `spec: {elastic: {enabled: false, expectedReplicas: 2}}`),
	)

	It("sets expectedReplicas of an elastic job within its limits", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), elastic)
		Expect(cluster.Scale(ctx, job, 4)).To(Succeed())
		Expect(
			cluster.Scale(ctx, job, 9),
		).To(MatchError(ContainSubstring("expectedReplicas must be from minReplicas to maxReplicas")))
	})
})

var _ = integration.DescribeCRD()
