package tensorflow

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/hostile"
	"tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// crdFile is the file with the CRD of the kind.
const crdFile = "config/crd/batch.tensorstack.dev_tensorflowtrainingjobs.yaml"

// FuzzSpec looks for jobs that the CRD accepts and that the controller does not handle correctly.
func FuzzSpec(f *testing.F) {
	manifests, err := hostile.Manifests(v1beta1.Kind, "testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	hostile.Fuzz(f, Controller(), crdFile, manifests, checkEnv)
}

func TestLimitsBoundTheMemoryThatAJobUses(t *testing.T) {
	hostile.CheckSize(t, Controller(), crdFile)
}

func TestRealJobsAreFarFromTheLimits(t *testing.T) {
	t.Parallel()
	hostile.CheckRealJobs(t, v1beta1.Kind, crdFile, "testdata/examples.yaml", "testdata/large.yaml")
}

// checkEnv checks that every replica has its own task and the addresses of the other replicas in TF_CONFIG. It skips
// replicas whose template sets TF_CONFIG. A single replica must have no TF_CONFIG.
func checkEnv(begun hostile.Begun[*v1beta1.TensorFlowTrainingJob]) error {
	own := map[string][]corev1.EnvVar{}
	cluster := map[string][]string{}
	count := int32(0)
	job := begun.Job
	peers := framework.NewPeers(
		job.Namespace, job.Name, job.UID, "cluster.local", job.Status.Attempt+job.Status.Pauses, begun.Spec.Roles)
	ranks := map[string]int32{}
	for _, m := range peers.Members {
		ranks[m.Name] = m.Rank
	}
	for _, r := range begun.Job.Spec.ReplicaSpecs {
		main := mainContainer(r.Template.Spec)
		own[string(r.Type)] = main.Env
		ownPort := int32(0)
		if i := slices.IndexFunc(main.Ports, func(p corev1.ContainerPort) bool { return p.Name == "tfjob-port" }); i >= 0 {
			ownPort = main.Ports[i].ContainerPort
		}
		for i := range *r.Replicas {
			count++
			if r.Type != "evaluator" {
				name := framework.MemberName(begun.Job.Name, string(r.Type), i)
				port := int32(2222)
				switch {
				case ownPort != 0:
					port = ownPort
				case r.Template.Spec.HostNetwork:
					port = peers.HostPort(ranks[name])
				}
				address := fmt.Sprintf("%s.%s.%s.svc.cluster.local:%d", name, begun.Job.Name, begun.Job.Namespace, port)
				cluster[string(r.Type)] = append(cluster[string(r.Type)], address)
			}
		}
	}
	var errs []error
	for _, pod := range begun.Pods {
		roleType := pod.Labels[batchv1beta1.LabelReplicaType]
		env := mainContainer(pod.Spec).Env
		named := func(e corev1.EnvVar) bool { return e.Name == envConfig }
		i := slices.IndexFunc(env, named)
		switch {
		case slices.ContainsFunc(own[roleType], named):
			continue
		case count == 1 && i < 0:
			continue
		case count == 1 || i < 0:
			errs = append(errs, fmt.Errorf("pod %s of %d pods has the wrong environment: %v", pod.Name, count, env))
			continue
		}
		config, err := parse(env[i].Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s has the TF_CONFIG %q: %w", pod.Name, env[i].Value, err))
		}
		if name := framework.MemberName(begun.Job.Name, config.Task.Type, config.Task.Index); name != pod.Name {
			errs = append(errs, fmt.Errorf("pod %s has the task of %s", pod.Name, name))
		}
		if diff := cmp.Diff(cluster, config.Cluster); diff != "" {
			errs = append(errs, fmt.Errorf("pod %s has an unexpected cluster (-want +got):\n%s", pod.Name, diff))
		}
	}
	return errors.Join(errs...)
}

func mainContainer(spec corev1.PodSpec) *corev1.Container {
	return framework.MainContainer(tensorflow{}.MainContainers(), spec.Containers)
}
