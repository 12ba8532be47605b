package test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/integration"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

var (
	// wholeCluster is a patch with every type. The type of the leader comes last. wholeNames are the names of the pods,
	// in the order of their ranks.
	wholeCluster = integration.ReplicaSpecs("type: ps, restartPolicy: OnFailure",
		"type: worker, replicas: 2, restartPolicy: OnFailure",
		"type: evaluator, restartPolicy: OnFailure", "type: chief, restartPolicy: OnFailure")
	wholeNames = []string{"job-chief-0", "job-worker-0", "job-worker-1", "job-ps-0", "job-evaluator-0"}

	// collective is a patch without parameter servers, so that a failure restarts all replicas by default.
	collective = integration.ReplicaSpecs("type: worker, replicas: 2, restartPolicy: OnFailure",
		"type: evaluator, restartPolicy: OnFailure",
		"type: chief, restartPolicy: OnFailure")
)

// tfConfig is TF_CONFIG as TensorFlow reads it.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"`
	Task    tfTask              `json:"task"`
}

type tfTask struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
}

// configOf returns the TF_CONFIG of a pod's main container.
func configOf(pod *corev1.Pod) tfConfig {
	GinkgoHelper()
	var config tfConfig
	decoder := json.NewDecoder(strings.NewReader(env(pod)["TF_CONFIG"]))
	decoder.DisallowUnknownFields()
	Expect(decoder.Decode(&config)).To(Succeed())
	return config
}

// env returns the environment of a pod's main container.
func env(pod *corev1.Pod) map[string]string {
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	return env
}

// uids maps the given names of pods of the job to the UIDs of these pods.
func uids(ctx context.Context, job *v1beta1.TensorFlowTrainingJob, names ...string) map[string]types.UID {
	GinkgoHelper()
	uids := map[string]types.UID{}
	for _, name := range names {
		uids[name] = cluster.Pod(ctx, job, name).UID
	}
	return uids
}

var _ = Describe("A job", func() {
	It("runs from creation to Succeeded within the write budget", func(ctx context.Context) {
		job := cluster.Start(ctx, 4, collective)
		cluster.Run(ctx, job, cluster.PodNames(ctx, job)...)
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
		Expect(job.Status.Ready).To(Equal("4/4"))
		for _, name := range []string{"job-worker-0", "job-worker-1", "job-evaluator-0", "job-chief-0"} {
			cluster.Exit(ctx, job, name, 0, "")
		}
		Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
		Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 4}))
		cluster.ExpectWriteBudget(ctx, job, 4)
	})

	It("gives every replica a TF_CONFIG with its task and the addresses of all but evaluators", func(ctx context.Context) {
		job := cluster.Start(ctx, 5, wholeCluster)
		Expect(cluster.PodNames(ctx, job)).To(ConsistOf(wholeNames))
		address := func(name string) string { return name + ".job." + job.Namespace + ".svc.cluster.local:2222" }
		everyone := map[string][]string{
			"chief":  {address("job-chief-0")},
			"worker": {address("job-worker-0"), address("job-worker-1")},
			"ps":     {address("job-ps-0")},
		}
		for name, task := range map[string]tfTask{
			"job-chief-0":     {Type: "chief"},
			"job-worker-0":    {Type: "worker"},
			"job-worker-1":    {Type: "worker", Index: 1},
			"job-ps-0":        {Type: "ps"},
			"job-evaluator-0": {Type: "evaluator"},
		} {
			pod := cluster.Pod(ctx, job, name)
			Expect(cmp.Diff(tfConfig{Cluster: everyone, Task: task}, configOf(pod))).To(BeEmpty(), name)
			Expect(env(pod)).To(HaveKeyWithValue("PYTHONUNBUFFERED", "1"))
		}
	})

	It("lets the replicas of a type listen on another port", func(ctx context.Context) {
		job := cluster.Start(ctx, 2, `
spec:
  replicaSpecs:
  - {type: worker, template: {spec: {containers: [{name: main, image: training, ports: [{name: tfjob-port, containerPort: 5000}]}]}}}
  - {type: ps, template: {spec: {containers: [{name: main, image: training}]}}}
`)
		config := configOf(cluster.Pod(ctx, job, "job-ps-0"))
		Expect(config.Cluster).To(HaveKeyWithValue("worker", ConsistOf(HaveSuffix(".svc.cluster.local:5000"))))
		Expect(config.Cluster).To(HaveKeyWithValue("ps", ConsistOf(HaveSuffix(".svc.cluster.local:2222"))))
	})

	It("makes every replica wait for the host names of all other replicas in the cluster", func(ctx context.Context) {
		job := cluster.Start(ctx, 5, wholeCluster)
		for _, name := range wholeNames {
			want := []string{"wait-dns", "--timeout", "10m0s"}
			for _, peer := range wholeNames {
				if peer != name && peer != "job-evaluator-0" {
					want = append(want, peer+".job."+job.Namespace+".svc.cluster.local")
				}
			}
			waits := cluster.Pod(ctx, job, name).Spec.InitContainers
			Expect(waits).To(HaveLen(1), name)
			Expect(waits[0].Name).To(Equal("wait-for-peers"))
			Expect(waits[0].Image).To(Equal("controller:test"))
			Expect(waits[0].Args).To(Equal(want), name)
		}
	})

	It("with a single replica has no TF_CONFIG and no init container that waits", func(ctx context.Context) {
		job := cluster.Start(ctx, 1, integration.ReplicaSpecs("type: chief", "type: worker, replicas: 0"))
		pod := cluster.Pod(ctx, job, "job-chief-0")
		Expect(env(pod)).To(Equal(map[string]string{"PYTHONUNBUFFERED": "1"}))
		Expect(pod.Spec.InitContainers).To(BeEmpty())
	})

	It("has no pods, and reports the reason, if its TF_CONFIG is too large for Linux", func(ctx context.Context) {
		job := cluster.Create(ctx, cluster.NewNamespace(ctx), "metadata: {name: a-name-of-forty-letters-which-is-not-rare}",
			integration.ReplicaSpecs("type: worker, replicas: 1999"))
		Eventually(ctx,
			func() string { return cluster.Get(ctx, job).Status.Reason }).Should(Equal(batchv1beta1.ReasonInvalidTemplate))
		Expect(integration.Condition(job, batchv1beta1.ConditionInitialized).Message).To(And(
			ContainSubstring("TF_CONFIG for 1999 replicas has"),
			ContainSubstring("use fewer replicas or a shorter name"),
		))
		Expect(cluster.PodNames(ctx, job)).To(BeEmpty())
	})
})

var _ = Describe("A job with parameter servers", func() {
	DescribeTable("ends when its leader succeeds, and deletes the parameter servers, which never end",
		func(ctx context.Context, specs, leader, other string) {
			job := cluster.Start(ctx, 3, specs)
			cluster.Run(ctx, job, cluster.PodNames(ctx, job)...)
			Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseRunning))
			cluster.Exit(ctx, job, other, 0, "")
			Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 1, Running: 2}))
			Expect(job.Status.Phase).To(Equal(batchv1beta1.JobPhaseRunning), "%s is not the leader", other)

			cluster.Exit(ctx, job, leader, 0, "")
			Eventually(ctx, cluster.Phase(ctx, job)).Should(Equal(batchv1beta1.JobPhaseSucceeded))
			Eventually(ctx, cluster.Pods(ctx, job)).Should(ConsistOf(leader, other))
			Eventually(ctx, cluster.Aggregate(ctx, job)).Should(Equal(&batchv1beta1.Aggregate{Succeeded: 2, Deleted: 1}))
		},
		Entry("the chief leads, even if it is the last type",
			integration.ReplicaSpecs("type: ps", "type: worker", "type: chief"),
			"job-chief-0", "job-worker-0"),
		Entry("worker 0 leads without a chief, even if the parameter servers come first", integration.ReplicaSpecs("type: ps",
			"type: worker, replicas: 2"),
			"job-worker-0", "job-worker-1"),
	)

	It("restarts only the worker that failed", func(ctx context.Context) {
		job := cluster.Start(ctx, 5, wholeCluster)
		cluster.Run(ctx, job, wholeNames...)
		others := []string{"job-chief-0", "job-worker-0", "job-ps-0", "job-evaluator-0"}
		before := uids(ctx, job, others...)
		worker := cluster.Replacement(ctx, cluster.Exit(ctx, job, "job-worker-1", 1, ""))
		Expect(configOf(worker).Task.Index).To(Equal(1))
		cluster.Run(ctx, job, "job-worker-1")
		Eventually(ctx, func() string { return cluster.Get(ctx, job).Status.Ready }).Should(Equal("5/5"))
		Expect(uids(ctx, job, others...)).To(Equal(before))
		Expect(job.Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Attempt).To(BeZero())
	})
})

var _ = Describe("A job without parameter servers", func() {
	It("restarts all replicas when a worker fails, which counts once", func(ctx context.Context) {
		job := cluster.Start(ctx, 4, collective)
		names := cluster.PodNames(ctx, job)
		cluster.Run(ctx, job, names...)
		var old []*corev1.Pod
		for _, name := range names {
			old = append(old, cluster.Pod(ctx, job, name))
		}
		cluster.Exit(ctx, job, "job-worker-1", 1, "")
		for _, pod := range old {
			cluster.Replacement(ctx, pod)
		}
		Expect(cluster.Get(ctx, job).Status.BackoffCount).To(Equal(int32(1)))
		Expect(job.Status.Attempt).To(Equal(int32(1)))
	})
})
