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

// crdFile is the CRD of the kind.
const crdFile = "config/crd/batch.tensorstack.dev_tensorflowtrainingjobs.yaml"

// FuzzSpec looks for a job that the CRD admits and the controller makes something wrong of.
func FuzzSpec(f *testing.F) {
	manifests, err := hostile.Manifests(v1beta1.Kind, "testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	hostile.Fuzz(f, Controller(), crdFile, manifests, checkEnv)
}

func TestLimitsBoundWhatAJobTakesInMemory(t *testing.T) {
	hostile.CheckSize(t, Controller(), crdFile)
}

func TestRealJobsAreFarFromTheLimits(t *testing.T) {
	t.Parallel()
	hostile.CheckRealJobs(t, v1beta1.Kind, crdFile, "testdata/examples.yaml", "testdata/large.yaml")
}

// checkEnv checks that TF_CONFIG tells every replica who it is and where the others are, unless its template says
// something else or there are no others.
func checkEnv(begun hostile.Begun[*v1beta1.TensorFlowTrainingJob]) error {
	own := map[string][]corev1.EnvVar{}
	cluster := map[string][]string{}
	count := int32(0)
	job := begun.Job
	gang := framework.NewGang(
		job.Namespace, job.Name, job.UID, "cluster.local", job.Status.Attempt+job.Status.Pauses, begun.Spec.Roles)
	ranks := map[string]int32{}
	for _, m := range gang.Members {
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
					port = gang.HostPort(ranks[name])
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
			errs = append(errs, fmt.Errorf("pod %s of %d has the wrong environment: %v", pod.Name, count, env))
			continue
		}
		config, err := parse(env[i].Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s has %q: %w", pod.Name, env[i].Value, err))
		}
		if name := framework.MemberName(begun.Job.Name, config.Task.Type, config.Task.Index); name != pod.Name {
			errs = append(errs, fmt.Errorf("pod %s takes itself for %s", pod.Name, name))
		}
		if diff := cmp.Diff(cluster, config.Cluster); diff != "" {
			errs = append(errs, fmt.Errorf("pod %s knows of another cluster (-want +got):\n%s", pod.Name, diff))
		}
	}
	return errors.Join(errs...)
}

func mainContainer(spec corev1.PodSpec) *corev1.Container {
	return framework.MainContainer(tensorflow{}.MainContainers(), spec.Containers)
}
