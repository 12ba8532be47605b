package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// valid is a job that the API server accepts. Each case of this file is a merge patch onto it, as a user would write it.
const valid = `
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: job
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: pytorch
          image: training
          command: [python, train.py]
`

const elasticTorchrun = `
spec:
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
  torchrunConfig: {enabled: true, maxRestarts: 3}
`

// replicaSpecs returns a patch that sets spec.replicaSpecs to one entry a YAML flow mapping, each with a template.
func replicaSpecs(entries ...string) string {
	patch := "spec:\n  replicaSpecs:\n"
	for _, entry := range entries {
		patch += "  - {" + entry + ", template: {spec: {containers: [{name: pytorch, image: training}]}}}\n"
	}
	return patch
}

// mainContainer returns a patch that adds fields, of a YAML flow mapping, to the main container.
func mainContainer(fields string) string {
	return "spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [{name: pytorch, image: training, " + fields + "}]}}}]}"
}

// tenDigits returns a patch that gives the job a name whose pods' names fit with an index of one digit but not of two.
func tenDigits(replicas string) string {
	return "metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}\n" + replicaSpecs("type: worker, "+replicas)
}

func jobFrom(namespace string, patches ...string) *unstructured.Unstructured {
	document, err := yaml.YAMLToJSON([]byte(valid))
	Expect(err).NotTo(HaveOccurred())
	for _, p := range patches {
		patch, err := yaml.YAMLToJSON([]byte(p))
		Expect(err).NotTo(HaveOccurred())
		document, err = jsonpatch.MergePatch(document, patch)
		Expect(err).NotTo(HaveOccurred())
	}
	job := &unstructured.Unstructured{}
	Expect(json.Unmarshal(document, job)).To(Succeed())
	job.SetNamespace(namespace)
	return job
}

// typed names the same job for clients that know its type.
func typed(job *unstructured.Unstructured) *v1beta1.PyTorchTrainingJob {
	return &v1beta1.PyTorchTrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: job.GetNamespace(), Name: job.GetName()}}
}

var _ = Describe("Bad input", Ordered, func() {
	var namespace string
	BeforeAll(func(ctx context.Context) { namespace = newNamespace(ctx) })

	// A dry run passes through all of the API server's validation and leaves nothing behind.
	strict := []client.CreateOption{client.DryRunAll, client.FieldValidation("Strict")}

	DescribeTable("is refused at apply time with a message that names the field",
		func(ctx context.Context, patch, wantField, wantMessage string) {
			err := k8s.Create(ctx, jobFrom(namespace, patch), strict...)
			Expect(err).To(HaveOccurred())
			Expect(err.Error()).To(ContainSubstring(wantField))
			Expect(err.Error()).To(ContainSubstring(wantMessage))
		},
		Entry("no replicaSpecs", `spec: {replicaSpecs: null}`,
			"spec.replicaSpecs", "Required value"),
		Entry("empty replicaSpecs", `spec: {replicaSpecs: []}`,
			"spec.replicaSpecs", "should have at least 1 items"),
		Entry("two replicaSpecs of one type", replicaSpecs("type: worker", "type: worker"),
			"spec.replicaSpecs[1]", `Duplicate value: {"type":"worker"}`),
		Entry("a type that is not a DNS label", replicaSpecs("type: Worker_1"),
			"spec.replicaSpecs[0].type", "type must be a DNS-1123 label: lower case letters, digits and '-', beginning and ending with a letter or digit"),
		Entry("an empty type", replicaSpecs(`type: ""`),
			"spec.replicaSpecs[0].type", "should be at least 1 chars long"),
		Entry("negative replicas", replicaSpecs("type: worker, replicas: -1"),
			"spec.replicaSpecs[0].replicas", "should be greater than or equal to 0"),
		Entry("more than 2,000 replicas in all", replicaSpecs("type: master", "type: worker, replicas: 2000"),
			"spec.replicaSpecs", "at most 2000 replicas in all are allowed"),
		Entry("a negative scalingWeight", replicaSpecs("type: worker, scalingWeight: -1"),
			"spec.replicaSpecs[0].scalingWeight", "should be greater than or equal to 0"),
		Entry("an unknown restartPolicy", replicaSpecs("type: worker, restartPolicy: Sometimes"),
			"spec.replicaSpecs[0].restartPolicy", `supported values: "Always", "OnFailure", "Never", "ExitCode"`),
		Entry("a template with an empty list of containers", `spec: {replicaSpecs: [{type: worker, template: {spec: {containers: []}}}]}`,
			"spec.replicaSpecs[0].template", "at least one container is required"),
		Entry("a template without a pod spec", `spec: {replicaSpecs: [{type: worker, template: {}}]}`,
			"spec.replicaSpecs[0].template", "at least one container is required"),
		Entry("no template", `spec: {replicaSpecs: [{type: worker}]}`,
			"spec.replicaSpecs[0].template", "Required value"),
		Entry("elastic without limits", `spec: {elastic: {enabled: true}}`,
			"spec.elastic", "minReplicas and maxReplicas are required when elastic is enabled"),
		Entry("elastic with minReplicas above maxReplicas", `spec: {elastic: {enabled: true, minReplicas: 3, maxReplicas: 2}}`,
			"spec.elastic.minReplicas", "minReplicas must not be greater than maxReplicas"),
		Entry("elastic with minReplicas 0", `spec: {elastic: {enabled: true, minReplicas: 0, maxReplicas: 2}}`,
			"spec.elastic.minReplicas", "should be greater than or equal to 1"),
		Entry("elastic with maxReplicas over 2,000", `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2001}}`,
			"spec.elastic.maxReplicas", "should be less than or equal to 2000"),
		Entry("expectedReplicas below minReplicas", `spec: {elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, expectedReplicas: 1}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
		Entry("expectedReplicas above maxReplicas", `spec: {elastic: {enabled: true, minReplicas: 2, maxReplicas: 4, expectedReplicas: 5}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
		Entry("elastic torchrun with maxRestarts 0",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}, torchrunConfig: {enabled: true, maxRestarts: 0}}`,
			"spec.torchrunConfig", "torchrunConfig.maxRestarts must be at least 1 with elastic training"),
		Entry("elastic torchrun without maxRestarts",
			`spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}, torchrunConfig: {enabled: true}}`,
			"spec.torchrunConfig", "torchrunConfig.maxRestarts must be at least 1 with elastic training"),
		Entry("negative maxRestarts", `spec: {torchrunConfig: {enabled: true, maxRestarts: -1}}`,
			"spec.torchrunConfig.maxRestarts", "should be greater than or equal to 0"),
		Entry("a procPerNode that torchrun does not know", `spec: {torchrunConfig: {enabled: true, procPerNode: all}}`,
			"spec.torchrunConfig.procPerNode", "procPerNode must be a positive integer, gpu, cpu or auto"),
		Entry("another rendezvous backend without an endpoint", `spec: {torchrunConfig: {enabled: true, rdzvBackend: etcd-v2}}`,
			"spec.torchrunConfig.rdzvBackend", "add --rdzv_endpoint=<host>:<port> to extraOptions"),
		Entry("activeDeadlineSeconds 0", `spec: {runPolicy: {activeDeadlineSeconds: 0}}`,
			"spec.runPolicy.activeDeadlineSeconds", "should be greater than or equal to 1"),
		Entry("activeDeadlineSeconds that are centuries", `spec: {runPolicy: {activeDeadlineSeconds: 9223372036854775807}}`,
			"spec.runPolicy.activeDeadlineSeconds", "should be less than or equal to 2147483647"),
		Entry("negative backoffLimit", `spec: {runPolicy: {backoffLimit: -1}}`,
			"spec.runPolicy.backoffLimit", "should be greater than or equal to 0"),
		Entry("negative ttlSecondsAfterFinished", `spec: {runPolicy: {ttlSecondsAfterFinished: -1}}`,
			"spec.runPolicy.ttlSecondsAfterFinished", "should be greater than or equal to 0"),
		Entry("an unknown cleanUpPolicy", `spec: {runPolicy: {cleanUpPolicy: Some}}`,
			"spec.runPolicy.cleanUpPolicy", `supported values: "All", "Unfinished", "None"`),
		Entry("an unknown restartScope", `spec: {runPolicy: {restartScope: Pod}}`,
			"spec.runPolicy.restartScope", `supported values: "Replica", "Job"`),
		Entry("priority above 100", `spec: {scheduler: {t9kScheduler: {queue: default, priority: 101}}}`,
			"spec.scheduler.t9kScheduler.priority", "should be less than or equal to 100"),
		Entry("negative priority", `spec: {scheduler: {t9kScheduler: {queue: default, priority: -1}}}`,
			"spec.scheduler.t9kScheduler.priority", "should be greater than or equal to 0"),
		Entry("no queue", `spec: {scheduler: {t9kScheduler: {priority: 1}}}`,
			"spec.scheduler.t9kScheduler.queue", "Required value"),
		Entry("a malformed fileset", `spec: {tensorboardSpec: {trainingLogFilesets: ["pvc/claim/logs"]}}`,
			"spec.tensorboardSpec.trainingLogFilesets[0]", "a fileset must look like t9k://pvc/<claim>/<path> or t9k://minio/<secret>/<bucket>/<path>"),
		Entry("a MinIO fileset without a bucket", `spec: {tensorboardSpec: {trainingLogFilesets: ["t9k://minio/secret"]}}`,
			"spec.tensorboardSpec.trainingLogFilesets[0]", "a fileset must look like"),
		Entry("elastic training of a master and nothing else",
			replicaSpecs("type: master")+"  elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}\n  torchrunConfig: {enabled: true, maxRestarts: 1}\n",
			"spec.replicaSpecs", "elastic training needs a type other than master"),
		Entry("debug of a type that the job does not have", `spec: {runMode: {debug: {enabled: true, replicaSpecs: [{type: node}]}}}`,
			"spec.runMode", "runMode.debug.replicaSpecs names a type that is not among replicaSpecs"),
		Entry("resumeSpecs of a type that the job does not have", `spec: {runMode: {pause: {resumeSpecs: [{type: node}]}}}`,
			"spec.runMode", "runMode.pause.resumeSpecs names a type that is not among replicaSpecs"),
		Entry("debug and pause both on", `spec: {runMode: {debug: {enabled: true}, pause: {enabled: true}}}`,
			"spec.runMode", "debug and pause cannot both be enabled: disable one of them"),
		Entry("a job name that cannot name a Service", `metadata: {name: qwen2.5-7b}`,
			"PyTorchTrainingJob", "metadata.name must be a DNS-1035 label, since the job's Service is named like it"),
		Entry("a job name that begins with a digit", `metadata: {name: 7b}`,
			"PyTorchTrainingJob", "metadata.name must be a DNS-1035 label"),
		Entry("a job name too long for its pods' names", `metadata: {name: a23456789-123456789-123456789-123456789-123456789-12345}`,
			"PyTorchTrainingJob", "metadata.name is too long: the pods are named <name>-<type>-<index>, which must fit into 63 characters"),
		Entry("a job name too long for its last pod's name", tenDigits("replicas: 11"),
			"PyTorchTrainingJob", "metadata.name is too long"),
		Entry("a job name too long for the last pod that elastic training may add",
			tenDigits("replicas: 1")+"  elastic: {enabled: true, minReplicas: 1, maxReplicas: 11}\n  torchrunConfig: {enabled: true, maxRestarts: 1}\n",
			"PyTorchTrainingJob", "metadata.name is too long"),
		Entry("an unknown field", `spec: {replicaSpec: []}`,
			"spec.replicaSpec", `unknown field "spec.replicaSpec"`),
		Entry("an unknown field of a container",
			`spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [{name: pytorch, imagee: training}]}}}]}`,
			"containers[0].imagee", "unknown field"),
		// One job that the controller cannot read would keep it from reading any.
		Entry("a port that has more than 32 bits", mainContainer("livenessProbe: {httpGet: {port: 2147483648}}"),
			"containers[0].livenessProbe.httpGet.port", "should be less than or equal to 2147483647"),
		Entry("a negative port that has more than 32 bits", mainContainer("livenessProbe: {tcpSocket: {port: -2147483649}}"),
			"containers[0].livenessProbe.tcpSocket.port", "should be greater than or equal to -2147483648"),
		Entry("a quantity whose exponent has a fraction", mainContainer("resources: {limits: {memory: 1e1.5}}"),
			"containers[0].resources.limits.memory", "should match"),
		Entry("a quantity whose exponent takes minutes to read", mainContainer(`resources: {limits: {memory: "1e-99999999"}}`),
			"containers[0].resources.limits.memory", "should match"),
		Entry("the spelling of an older reference", `spec: {torchrunConfig: {enable: true}}`,
			"spec.torchrunConfig.enable", "unknown field"),
	)

	DescribeTable("is told from good input",
		func(ctx context.Context, patch string) {
			Expect(k8s.Create(ctx, jobFrom(namespace, patch), strict...)).To(Succeed())
		},
		Entry("the plainest job", `{}`),
		Entry("a type with 0 replicas", replicaSpecs("type: master", "type: worker, replicas: 0")),
		Entry("2,000 replicas in all", replicaSpecs("type: master", "type: worker, replicas: 1999")),
		Entry("types that are seen in the wild", replicaSpecs("type: master", "type: worker", "type: node", "type: ps")),
		Entry("the longest job name that its pods' names allow", `metadata: {name: a23456789-123456789-123456789-123456789-123456789-1234}`),
		Entry("a job name whose last pod's name just fits", tenDigits("replicas: 10")),
		Entry("elastic training without an expected number", `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}, torchrunConfig: {enabled: true, maxRestarts: 1}}`),
		Entry("elastic that is switched off", `spec: {elastic: {enabled: false}}`),
		Entry("procPerNode gpu", `spec: {torchrunConfig: {enabled: true, procPerNode: gpu}}`),
		Entry("another rendezvous backend with an endpoint",
			`spec: {torchrunConfig: {enabled: true, rdzvBackend: etcd-v2, extraOptions: ["--rdzv_endpoint=etcd:2379"]}}`),
		Entry("filesets", `spec: {tensorboardSpec: {trainingLogFilesets: ["t9k://pvc/logs/a/b", "t9k://pvc/logs", "t9k://minio/secret/bucket/a"]}}`),
		Entry("labels and annotations on a template",
			`spec: {replicaSpecs: [{type: worker, template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {containers: [{name: pytorch, image: training}]}}}]}`),
		Entry("quantities and ports of every form", mainContainer(`resources: {limits: {cpu: 100m, memory: "+1.5Gi", a/b: 2, a/c: ".5e3", a/d: "5.E-2"}},
			livenessProbe: {httpGet: {port: http}}, readinessProbe: {httpGet: {port: 80}}`)),
		Entry("a paused job with resumeSpecs", `spec: {runMode: {pause: {enabled: true, resumeSpecs: [{type: worker, args: [--resume]}]}}}`),
	)

	It("does not concern what is not given: defaults are filled in", func(ctx context.Context) {
		job := jobFrom(namespace, `spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [{name: pytorch, image: training}]}}}], torchrunConfig: {enabled: true}, scheduler: {t9kScheduler: {queue: default}}}`)
		Expect(k8s.Create(ctx, job, strict...)).To(Succeed())
		spec := job.Object["spec"].(map[string]any)
		Expect(spec["runPolicy"]).To(Equal(map[string]any{"backoffLimit": int64(3), "cleanUpPolicy": "Unfinished"}))
		replicas := spec["replicaSpecs"].([]any)[0].(map[string]any)
		Expect(replicas).To(HaveKeyWithValue("replicas", int64(1)))
		Expect(replicas).To(HaveKeyWithValue("restartPolicy", "Never"))
		Expect(spec["torchrunConfig"]).To(HaveKeyWithValue("rdzvBackend", "c10d"))
		Expect(spec["scheduler"]).To(HaveKeyWithValue("t9kScheduler", HaveKeyWithValue("priority", int64(10))))
	})
})

var _ = Describe("Changing a job", Ordered, func() {
	var namespace string
	BeforeAll(func(ctx context.Context) { namespace = newNamespace(ctx) })

	const (
		everyone = `spec: {scheduler: {t9kScheduler: {queue: default}}, runMode: {debug: {enabled: false, replicaSpecs: [{type: worker}]}, pause: {enabled: false, resumeSpecs: [{type: worker, args: [a]}]}}}`
		newImage = "spec:\n  replicaSpecs: [{type: worker, replicas: 2, template: {spec: {containers: [{name: pytorch, image: other, command: [python, train.py]}]}}}]\n"
		three    = `spec: {replicaSpecs: [{type: worker, replicas: 3, template: {spec: {containers: [{name: pytorch, image: training, command: [python, train.py]}]}}}]}`
	)

	change := func(ctx context.Context, before, after string) error {
		job := jobFrom(namespace, before, `metadata: {name: null, generateName: job-}`)
		Expect(k8s.Create(ctx, job)).To(Succeed())
		if pausing, _, _ := unstructured.NestedBool(job.Object, "spec", "runMode", "pause", "enabled"); pausing {
			Eventually(ctx, phase(ctx, typed(job))).Should(BeEquivalentTo("Paused"))
			Expect(k8s.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		}
		patch, err := yaml.YAMLToJSON([]byte(after))
		Expect(err).NotTo(HaveOccurred())
		return k8s.Patch(ctx, job, client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
	}

	DescribeTable("is refused where it could not take effect",
		func(ctx context.Context, before, after, wantField, wantMessage string) {
			err := change(ctx, before, after)
			Expect(err).To(HaveOccurred())
			Expect(err.Error()).To(ContainSubstring(wantField))
			Expect(err.Error()).To(ContainSubstring(wantMessage))
		},
		Entry("a template of a job that is not paused", `{}`, newImage, "spec.replicaSpecs", "replicaSpecs can be changed only while the job is paused"),
		Entry("replicas of a job that is not paused", `{}`, three, "spec.replicaSpecs", "replicaSpecs can be changed only while the job is paused"),
		Entry("a template together with pausing", `{}`, newImage+"  runMode: {pause: {enabled: true}}\n",
			"spec.replicaSpecs", "replicaSpecs can be changed only while the job is paused: wait for its condition Paused"),
		Entry("torchrunConfig of a job that is not paused", `spec: {torchrunConfig: {enabled: true}}`, `spec: {torchrunConfig: {maxRestarts: 2}}`,
			"spec", "torchrunConfig can be changed only while the job is paused"),
		Entry("adding torchrunConfig to a job that is not paused", `{}`, `spec: {torchrunConfig: {enabled: true}}`,
			"spec", "torchrunConfig can be changed only while the job is paused"),
		Entry("adding tensorboardSpec to a job that is not paused", `{}`, `spec: {tensorboardSpec: {image: tb}}`,
			"spec", "tensorboardSpec can be changed only while the job is paused"),
		Entry("the types, even while paused", paused, replicaSpecs("type: node"), "spec.replicaSpecs", "the types of replicaSpecs cannot be changed"),
		Entry("another type, even while paused", paused, replicaSpecs("type: worker", "type: node"), "spec.replicaSpecs", "the types of replicaSpecs cannot be changed"),
		Entry("minReplicas, even while paused", elasticTorchrun+"  runMode: {pause: {enabled: true}}\n", `spec: {elastic: {minReplicas: 2}}`, "spec", "elastic.minReplicas cannot be changed"),
		Entry("maxReplicas", elasticTorchrun, `spec: {elastic: {maxReplicas: 5}}`, "spec", "elastic.maxReplicas cannot be changed"),
		Entry("removing elastic", elasticTorchrun, `spec: {elastic: null}`, "spec", "elastic.enabled cannot be changed"),
		Entry("adding elastic", `{}`, `spec: {elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}}`, "spec", "elastic.enabled cannot be changed"),
		Entry("expectedReplicas beyond its limits", elasticTorchrun, `spec: {elastic: {expectedReplicas: 5}}`,
			"spec.elastic.expectedReplicas", "expectedReplicas must be from minReplicas to maxReplicas"),
		Entry("debug, even while paused", paused, `spec: {runMode: {debug: {enabled: false}}}`, "spec", "runMode.debug cannot be changed"),
		Entry("switching debug on", everyone, `spec: {runMode: {debug: {enabled: true}}}`, "spec.runMode.debug", "runMode.debug cannot be changed"),
		Entry("removing debug", everyone, `spec: {runMode: {debug: null}}`, "spec", "runMode.debug cannot be changed"),
		Entry("resumeSpecs", everyone, `spec: {runMode: {pause: {resumeSpecs: [{type: worker, args: [b]}]}}}`,
			"spec.runMode.pause.resumeSpecs", "runMode.pause.resumeSpecs cannot be changed"),
		Entry("adding resumeSpecs while pausing", `{}`, `spec: {runMode: {pause: {enabled: true, resumeSpecs: [{type: worker}]}}}`,
			"spec", "runMode.pause.resumeSpecs cannot be changed"),
		Entry("the queue", everyone, `spec: {scheduler: {t9kScheduler: {queue: other}}}`, "spec.scheduler", "scheduler cannot be changed"),
		Entry("removing the scheduler", everyone, `spec: {scheduler: null}`, "spec", "scheduler cannot be changed"),
		Entry("adding a scheduler", `{}`, `spec: {scheduler: {t9kScheduler: {queue: default}}}`, "spec", "scheduler cannot be changed"),
	)

	DescribeTable("is allowed where it takes effect",
		func(ctx context.Context, before, after string) {
			Expect(change(ctx, before, after)).To(Succeed())
		},
		Entry("pausing a job without a run mode", `{}`, paused),
		Entry("pausing", everyone, `spec: {runMode: {pause: {enabled: true}}}`),
		Entry("resuming", paused, `spec: {runMode: {pause: {enabled: false}}}`),
		Entry("resuming by leaving the run mode out", paused, `spec: {runMode: null}`),
		Entry("backoffLimit", `{}`, `spec: {runPolicy: {backoffLimit: 7}}`),
		Entry("the whole run policy", `spec: {runPolicy: {activeDeadlineSeconds: 5, restartScope: Replica}}`,
			`spec: {runPolicy: {activeDeadlineSeconds: null, cleanUpPolicy: None, ttlSecondsAfterFinished: 5, restartScope: Job}}`),
		Entry("expectedReplicas", elasticTorchrun, `spec: {elastic: {expectedReplicas: 4}}`),
		Entry("a template while paused", paused, newImage),
		Entry("replicas while paused", paused, three),
		Entry("torchrunConfig while paused", paused, `spec: {torchrunConfig: {enabled: true}}`),
		Entry("a template together with resuming", paused, newImage+"  runMode: {pause: {enabled: false}}\n"),
		Entry("labels of a job that is not paused", `{}`, `metadata: {labels: {a: b}}`),
	)
})

var _ = Describe("The scale subresource", func() {
	It("says that a job without elastic has nothing to scale", func(ctx context.Context) {
		job := jobFrom(newNamespace(ctx))
		Expect(k8s.Create(ctx, job)).To(Succeed())
		err := k8s.SubResource("scale").Get(ctx, typed(job), &autoscalingv1.Scale{})
		Expect(err).To(MatchError(`Internal error occurred: the spec replicas field ".spec.elastic.expectedReplicas" does not exist`))
	})

	It("shows and sets expectedReplicas of an elastic job, within its limits", func(ctx context.Context) {
		job := jobFrom(newNamespace(ctx), elasticTorchrun)
		Expect(k8s.Create(ctx, job)).To(Succeed())
		scale := &autoscalingv1.Scale{}
		Expect(k8s.SubResource("scale").Get(ctx, typed(job), scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(Equal(int32(2)))

		// As kubectl scale does, without a resourceVersion: the controller writes to the job at the same time.
		scaleTo := func(replicas int) error {
			patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
			return k8s.SubResource("scale").Patch(ctx, typed(job), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
		Expect(scaleTo(4)).To(Succeed())
		Expect(scaleTo(9)).To(MatchError(ContainSubstring("expectedReplicas must be from minReplicas to maxReplicas")))
	})
})

var _ = Describe("The CRD", func() {
	It("fits into the annotation that kubectl apply keeps", func() {
		content, err := os.ReadFile("../config/crd/batch.tensorstack.dev_pytorchtrainingjobs.yaml")
		Expect(err).NotTo(HaveOccurred())
		document, err := yaml.YAMLToJSON(content)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(document)).To(BeNumerically("<", 200<<10))
	})

	It("describes every field of ours", func() {
		content, err := os.ReadFile("../config/crd/batch.tensorstack.dev_pytorchtrainingjobs.yaml")
		Expect(err).NotTo(HaveOccurred())
		var crd map[string]any
		Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
		version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		Expect(undescribed("", schema)).To(BeEmpty())
	})
})

// undescribed lists the fields below a schema that have no description, embedded core types left out.
func undescribed(path string, schema map[string]any) []string {
	var found []string
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		switch name {
		case "template", "resources", "metadata", "conditions":
			continue
		}
		property := property.(map[string]any)
		if property["description"] == nil {
			found = append(found, path+"."+name)
		}
		found = append(found, undescribed(path+"."+name, property)...)
		if items, ok := property["items"].(map[string]any); ok {
			found = append(found, undescribed(path+"."+name+"[]", items)...)
		}
	}
	return found
}
