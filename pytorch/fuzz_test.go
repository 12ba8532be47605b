package pytorch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/kit/hostile"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// crdFile is the file with the CRD of the kind.
const crdFile = "config/crd/batch.tensorstack.dev_pytorchtrainingjobs.yaml"

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

// checkEnv checks that every replica has its rank and the address of the leader in its environment. Variables that the
// template sets are not checked.
func checkEnv(begun hostile.Begun[*v1beta1.PyTorchTrainingJob]) error {
	own := map[string][]corev1.EnvVar{}
	for _, role := range begun.Spec.Roles {
		own[role.Type] = mainContainer(role.Template.Spec).Env
	}
	masterPort := ""
	if len(begun.Pods) > 0 {
		masterPort = strconv.Itoa(int(leaderPort(peersOf(begun))))
	}
	var errs []error
	ranks := map[string]string{}
	for _, pod := range begun.Pods {
		want := map[string]func(value string) bool{
			envMasterAddr: func(value string) bool { return value != "" },
			envMasterPort: func(value string) bool { return value == masterPort },
			envUnbuffered: func(value string) bool { return value == "1" },
		}
		isAlone := len(begun.Pods) == 1 && canHaveSeveralDevices(mainContainer(pod.Spec).Resources)
		if !begun.Job.RunsTorchrun() && !isAlone {
			want[envLocalRank] = func(value string) bool { return value == "0" }
			want[envWorldSize] = func(value string) bool { return value == strconv.Itoa(len(begun.Pods)) }
			want[envRank] = func(value string) bool {
				rank, err := strconv.Atoi(value)
				other, taken := ranks[value]
				ranks[value] = pod.Name
				return err == nil && rank >= 0 && rank < len(begun.Pods) && (!taken || other == pod.Name)
			}
		}
		env := mainContainer(pod.Spec).Env
		for name, isRight := range want {
			named := func(e corev1.EnvVar) bool { return e.Name == name }
			if slices.ContainsFunc(own[pod.Labels[batchv1beta1.LabelReplicaType]], named) {
				continue
			}
			if i := slices.IndexFunc(env, named); i < 0 || !isRight(env[i].Value) {
				errs = append(errs, fmt.Errorf("pod %s has the wrong %s: %v", pod.Name, name, env))
			}
		}
	}
	return errors.Join(errs...)
}

// peersOf returns the peers that the pods belong to.
func peersOf(begun hostile.Begun[*v1beta1.PyTorchTrainingJob]) framework.Peers {
	job := begun.Job
	attempt := job.Status.Attempt + job.Status.Pauses
	return framework.NewPeers(job.Namespace, job.Name, job.UID, "cluster.local", attempt, begun.Spec.Roles)
}

func mainContainer(spec corev1.PodSpec) *corev1.Container {
	return framework.MainContainer(pytorch{}.MainContainers(), spec.Containers)
}
